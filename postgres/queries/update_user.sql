-- Replace a user that is still at the version before.
--   @id uuid · @first_name text · @last_name text · @date_of_birth date (NULL for none) · @timezone text
--   @birth_calendar text · @birth_day text, both NULL for a date of birth that is @date_of_birth, or for none
--   @zone_source text · @attributes text (JSON)
--   @locale text · @email text · @external_id text · @opt_outs text (JSON), each NULL for none · @version integer
--   @folded_name text · @folded_last_name text · @folded_email text (NULL for none)
-- Returns the row, or none.
UPDATE :"schema".users u
SET first_name = @first_name, last_name = @last_name, date_of_birth = @date_of_birth,
    birth_calendar = @birth_calendar::text, birth_day = @birth_day::text, timezone = @timezone,
    zone_source = @zone_source, attributes = @attributes::text::jsonb, locale = @locale::text, email = @email::text,
    external_id = @external_id::text, opt_outs = @opt_outs::text::jsonb,
    folded_name = @folded_name, folded_last_name = @folded_last_name, folded_email = @folded_email::text,
    version = @version, updated_at = clock_timestamp()
WHERE u.id = @id AND u.version = @version - 1
RETURNING :user
