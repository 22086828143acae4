-- Store a new user.
--   @id uuid · @first_name text · @last_name text · @date_of_birth date · @timezone text · @attributes text (JSON)
--   @creation_digest text, empty for none
-- Returns the row, or none if the id is taken.
INSERT INTO :"schema".users AS u (id, first_name, last_name, date_of_birth, timezone, attributes, creation_digest)
VALUES (@id, @first_name, @last_name, @date_of_birth, @timezone, @attributes::text::jsonb, nullif(@creation_digest, ''))
ON CONFLICT (id) DO NOTHING
RETURNING :user
