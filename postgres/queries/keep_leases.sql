-- Shorten leases that the transaction has locked to the events that could not be released and the events that were not examined.
-- Leases without such events end.
-- Leases with events that could not be released count as expired now, so that other leases come first the next time.
--   @tokens uuid[] · @examined integer[] (parallel: how many events of a lease's list, from the first on, were examined)
--   of the events that could not be released (parallel): @held uuid[] (tokens) · @series bigint[] · @ids uuid[]
--   @versions integer[]
-- The transaction has locked the leases.
WITH leased AS MATERIALIZED (
    SELECT * FROM unnest(@tokens::uuid[], @examined::integer[]) AS n (token, examined)
), held AS MATERIALIZED (
    SELECT n.token, pg_catalog.array_agg(n.series_id ORDER BY n.place) AS series_ids,
        pg_catalog.array_agg(n.event_id ORDER BY n.place) AS event_ids, pg_catalog.array_agg(n.version ORDER BY n.place) AS versions
    FROM unnest(@held::uuid[], @series::bigint[], @ids::uuid[], @versions::integer[])
        WITH ORDINALITY AS n (token, series_id, event_id, version, place)
    GROUP BY n.token
), ended AS (
    DELETE FROM :"schema".leases l
    USING leased
    WHERE l.token = leased.token
        AND pg_catalog.cardinality(l.series_ids) <= leased.examined
        AND leased.token NOT IN (SELECT held.token FROM held)
)
UPDATE :"schema".leases l
SET series_ids = pg_catalog.array_cat(l.series_ids[leased.examined + 1:], coalesce(held.series_ids, '{}')),
    event_ids = pg_catalog.array_cat(l.event_ids[leased.examined + 1:], coalesce(held.event_ids, '{}')),
    versions = pg_catalog.array_cat(l.versions[leased.examined + 1:], coalesce(held.versions, '{}')),
    expires_at = CASE WHEN held.token IS NULL THEN l.expires_at ELSE clock_timestamp() END
FROM leased
LEFT JOIN held ON held.token = leased.token
WHERE l.token = leased.token
    AND (pg_catalog.cardinality(l.series_ids) > leased.examined OR held.token IS NOT NULL)
