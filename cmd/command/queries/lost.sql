-- How many open events are in neither the queue nor a lease, in a sample of 100,000 series whose ids follow each other.
-- Returns the number of these events, and of the series in the sample.
WITH page AS MATERIALIZED (
    SELECT s.id, s.event_id, s.version
    FROM :"schema".series s
    WHERE s.id > (SELECT floor(random() * greatest(max(x.id) - 100000, 0)::float8)::bigint FROM :"schema".series x)
    ORDER BY s.id
    LIMIT 100000
)
SELECT count(*) FILTER (
        WHERE page.event_id IS NOT NULL
            AND (SELECT q.event_id FROM :"schema".queue q WHERE q.event_id = page.event_id) IS NULL
            AND (page.event_id, page.version) NOT IN (
                SELECT held.event_id, held.version
                FROM :"schema".leases l
                CROSS JOIN LATERAL unnest(l.event_ids, l.versions) AS held (event_id, version)
            )
    ), count(*)
FROM page
