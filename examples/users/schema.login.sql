-- One row for each log-in. Times are in seconds of the Unix epoch.
CREATE TABLE IF NOT EXISTS refresh_tokens (
  session text PRIMARY KEY,
  subject text NOT NULL,
  parameters text NOT NULL,
  credential text NOT NULL,
  current_hash text NOT NULL,
  previous_hash text,
  chain text NOT NULL,
  rotated_at bigint NOT NULL,
  expires_at bigint NOT NULL,
  ended_at bigint
);
CREATE INDEX IF NOT EXISTS "refresh_tokens_subject" ON refresh_tokens (subject);
CREATE INDEX IF NOT EXISTS "refresh_tokens_expires_at" ON refresh_tokens (expires_at);
CREATE INDEX IF NOT EXISTS "refresh_tokens_ended_at" ON refresh_tokens (ended_at) WHERE ended_at IS NOT NULL;
-- Tries to log in, by hashes of accounts and networks. Times are in milliseconds.
CREATE TABLE IF NOT EXISTS login_tries (
  key text PRIMARY KEY,
  failures integer NOT NULL,
  next_at bigint NOT NULL,
  tried_at bigint NOT NULL
);
CREATE INDEX IF NOT EXISTS "login_tries_tried_at" ON login_tries (tried_at);
