-- Programs of this release must be stopped. An absent name becomes a hyphen, and an unknown year of birth 1904, so that the birthday
-- stays. Users without a date of birth get 1 January 1900, and are opted out of BIRTHDAY, so that nobody greets them on that day.
-- Loses users WHERE first_name = '' OR last_name = '' OR date_of_birth IS NULL OR date_of_birth < '1900-01-01'
UPDATE :"schema".users
SET first_name = CASE WHEN first_name = '' THEN '-' ELSE first_name END,
    last_name = CASE WHEN last_name = '' THEN '-' ELSE last_name END,
    date_of_birth = CASE
        WHEN date_of_birth IS NULL THEN '1900-01-01'
        WHEN date_of_birth < '1900-01-01' THEN make_date(1904, extract(month FROM date_of_birth)::int, extract(day FROM date_of_birth)::int)
        ELSE date_of_birth
    END,
    opt_outs = CASE WHEN date_of_birth IS NULL THEN coalesce(opt_outs, '[]') || '[{"type": "BIRTHDAY"}]' ELSE opt_outs END,
    version = version + 1
WHERE first_name = '' OR last_name = '' OR date_of_birth IS NULL OR date_of_birth < '1900-01-01';

ALTER TABLE :"schema".users
    ALTER COLUMN date_of_birth SET NOT NULL,
    DROP CONSTRAINT users_date_of_birth_check,
    ADD CONSTRAINT users_first_name_check CHECK (length(first_name) > 0),
    ADD CONSTRAINT users_last_name_check CHECK (length(last_name) > 0),
    ADD CONSTRAINT users_date_of_birth_check CHECK (date_of_birth BETWEEN '1900-01-01' AND '9999-12-31');
