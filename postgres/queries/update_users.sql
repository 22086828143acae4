-- Replace users that are still at the version before. The transaction has locked them. Parallel arrays, one element per user:
--   @ids uuid[] · @versions integer[] (the versions after) · and the arrays of insert_users.sql without @creation_digests
-- Returns the rows. The caller undoes the transaction when one is missing.
WITH n AS MATERIALIZED (
    SELECT *
    FROM unnest(@ids::uuid[], @versions::integer[], @first_names::text[], @last_names::text[], @dates_of_birth::date[],
        @birth_calendars::text[], @birth_days::text[], @timezones::text[], @zone_sources::text[],
        @attributes::text[], @locales::text[], @emails::text[], @external_ids::text[], @opt_outs::text[],
        @folded_names::text[], @folded_last_names::text[], @folded_emails::text[])
        AS n (id, version, first_name, last_name, date_of_birth, birth_calendar, birth_day, timezone, zone_source, attributes, locale, email,
            external_id, opt_outs, folded_name, folded_last_name, folded_email)
)
UPDATE :"schema".users u
SET first_name = n.first_name, last_name = n.last_name, date_of_birth = n.date_of_birth,
    birth_calendar = nullif(n.birth_calendar, ''), birth_day = nullif(n.birth_day, ''), timezone = n.timezone,
    zone_source = n.zone_source, attributes = n.attributes::jsonb, locale = nullif(n.locale, ''), email = nullif(n.email, ''),
    external_id = nullif(n.external_id, ''), opt_outs = nullif(n.opt_outs, '')::jsonb,
    folded_name = n.folded_name, folded_last_name = n.folded_last_name, folded_email = nullif(n.folded_email, ''),
    version = n.version, updated_at = clock_timestamp()
FROM n
WHERE u.id = n.id AND u.version = n.version - 1
RETURNING :user
