CREATE TABLE api_keys (digest text PRIMARY KEY, owner text NOT NULL UNIQUE, revoked boolean NOT NULL DEFAULT false);
