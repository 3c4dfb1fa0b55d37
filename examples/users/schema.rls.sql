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
