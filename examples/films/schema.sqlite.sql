-- As films_generate makes it.
CREATE TABLE films (
  id         INTEGER PRIMARY KEY,
  slug       TEXT NOT NULL UNIQUE,
  adult      BOOLEAN NOT NULL,
  name_en    TEXT,
  popularity REAL,
  blob       JSON NOT NULL
);
CREATE TABLE tags (
  film TEXT NOT NULL REFERENCES films (slug),
  tag  TEXT NOT NULL,
  PRIMARY KEY (film, tag)
) WITHOUT ROWID;
CREATE INDEX tags_tag ON tags (tag);
