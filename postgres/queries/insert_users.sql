-- Store new users. Parallel arrays, one element per user:
--   @ids uuid[] · @first_names text[] · @last_names text[] · @dates_of_birth date[] (NULL for none) · @timezones text[]
--   @birth_calendars text[] · @birth_days text[], both "" for a date of birth that is in @dates_of_birth, or for none
--   @zone_sources text[] · @attributes text[] (JSON) · @locales text[] · @emails text[] · @external_ids text[] · @opt_outs text[] (JSON)
--   @creation_digests text[], each of the last five "" for none
--   @folded_names text[] · @folded_last_names text[] · @folded_emails text[], "" for none
-- Returns the users as stored whose id and external id were free. Stores in the order of ids, so that two transactions that store
-- the same users do not deadlock.
INSERT INTO :"schema".users AS u (id, first_name, last_name, date_of_birth, birth_calendar, birth_day, timezone, zone_source, attributes, locale, email,
    external_id, opt_outs, creation_digest, folded_name, folded_last_name, folded_email)
SELECT n.id, n.first_name, n.last_name, n.date_of_birth, nullif(n.birth_calendar, ''), nullif(n.birth_day, ''), n.timezone, n.zone_source, n.attributes::jsonb, nullif(n.locale, ''),
    nullif(n.email, ''), nullif(n.external_id, ''), nullif(n.opt_outs, '')::jsonb, nullif(n.creation_digest, ''),
    n.folded_name, n.folded_last_name, nullif(n.folded_email, '')
FROM unnest(@ids::uuid[], @first_names::text[], @last_names::text[], @dates_of_birth::date[],
    @birth_calendars::text[], @birth_days::text[], @timezones::text[], @zone_sources::text[],
    @attributes::text[], @locales::text[], @emails::text[], @external_ids::text[], @opt_outs::text[], @creation_digests::text[],
    @folded_names::text[], @folded_last_names::text[], @folded_emails::text[])
    AS n (id, first_name, last_name, date_of_birth, birth_calendar, birth_day, timezone, zone_source, attributes, locale, email, external_id, opt_outs, creation_digest,
        folded_name, folded_last_name, folded_email)
ORDER BY n.id
ON CONFLICT DO NOTHING
RETURNING u.id, u.attributes::text, u.created_at
