CREATE TABLE users (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  email TEXT NOT NULL,
  avatar TEXT,
  avatar_type TEXT,
  password TEXT
);
CREATE TABLE user_roles (
  user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  role TEXT NOT NULL CHECK (role IN ('admin', 'editor', 'reader')),
  PRIMARY KEY (user_id, role)
);
CREATE TABLE notes (
  id INTEGER PRIMARY KEY,
  owner INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  text TEXT NOT NULL
);
INSERT INTO users (name, email) VALUES ('ada', 'ada@example.org'), ('bob', 'bob@example.org');
INSERT INTO user_roles VALUES (1, 'admin'), (2, 'reader');
INSERT INTO notes (owner, text) VALUES (1, 'of ada'), (2, 'of bob');

-- For [login]: a user's roles as words, as `scope` of a token has them.
CREATE VIEW logins AS
  SELECT id AS sub, name, password, (SELECT group_concat(role, ' ') FROM user_roles WHERE user_id = users.id) AS scope
  FROM users;
