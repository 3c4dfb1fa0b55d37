-- Roles belong to the whole server, and may be there from another time.
DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'sluice_member') THEN CREATE ROLE sluice_member; END IF;
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'sluice_guest') THEN CREATE ROLE sluice_guest; END IF;
END $$;
GRANT SELECT, INSERT, UPDATE, DELETE ON notes TO sluice_member;
GRANT SELECT ON notes TO sluice_guest;

ALTER TABLE notes ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON notes TO sluice_member
  USING (owner = (current_setting('request.jwt.claims')::json ->> 'sub')::integer);
CREATE POLICY first ON notes FOR SELECT TO sluice_guest USING (id = 1);

GRANT SELECT, UPDATE (avatar, avatar_type) ON users TO sluice_member;
GRANT SELECT ON users TO sluice_guest;
ALTER TABLE users ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_of_them ON users FOR SELECT USING (true);
CREATE POLICY own ON users FOR UPDATE TO sluice_member
  USING (id = (current_setting('request.jwt.claims')::json ->> 'sub')::integer);
