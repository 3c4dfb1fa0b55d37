CREATE TABLE messages (id integer PRIMARY KEY, room text NOT NULL, name text NOT NULL, text text NOT NULL);
CREATE INDEX messages_of_room ON messages (room, id);
