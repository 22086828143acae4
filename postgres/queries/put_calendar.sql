-- Store what a calendar says about days, adding or replacing it.
--   @name text · @release text · @until date · @since integer · @hashes bigint[] · @changed text[] · @releases text[]
INSERT INTO :"schema".calendars AS c (name, release, until, since, hashes, changed, releases)
VALUES (@name::text, @release::text, @until::date, @since::integer, @hashes::bigint[], @changed::text[], @releases::text[])
ON CONFLICT (name) DO UPDATE
SET release = excluded.release, until = excluded.until, since = excluded.since, hashes = excluded.hashes, changed = excluded.changed,
    releases = excluded.releases
