-- Read a page of series in the order of their ids, and find the open events that are in neither the queue nor a lease.
--   @after bigint (NULL to begin anywhere) · @limit integer
-- Returns the last series of the page, or 0 after the last page, and the events as parallel arrays.
-- Every transaction that takes an event out of the queue or a lease puts it into the other, or raises its version. So no statement sees an
-- event between the two, and an event that is found here stays lost until its version rises. A row of the queue that names another series
-- is not the event's. The queue is searched by a scalar query, which the planner never replaces by a scan of the whole table. Leases are
-- read only if an event is not in the queue.
WITH page AS MATERIALIZED (
    SELECT s.id, s.event_id, s.version
    FROM :"schema".series s
    WHERE s.id > coalesce(@after::bigint, (SELECT floor(random() * max(x.id)::float8)::bigint FROM :"schema".series x))
    ORDER BY s.id
    LIMIT @limit::integer
), unqueued AS MATERIALIZED (
    SELECT page.id, page.event_id, page.version
    FROM page
    WHERE page.event_id IS NOT NULL
        AND (SELECT q.event_id FROM :"schema".queue q WHERE q.event_id = page.event_id AND q.series_id = page.id) IS NULL
), held AS MATERIALIZED (
    SELECT held.series_id, held.event_id, held.version
    FROM (SELECT pg_catalog.array_agg(unqueued.id) AS series_ids FROM unqueued HAVING count(*) > 0) wanted
    CROSS JOIN LATERAL (
        SELECT l.series_ids, l.event_ids, l.versions
        FROM :"schema".leases l
        WHERE l.series_ids OPERATOR(pg_catalog.&&) wanted.series_ids
        OFFSET 0
    ) l
    CROSS JOIN LATERAL unnest(l.series_ids, l.event_ids, l.versions) AS held (series_id, event_id, version)
)
SELECT (SELECT CASE WHEN count(*) < @limit::integer THEN 0 ELSE max(page.id) END FROM page),
    pg_catalog.array_agg(u.id), pg_catalog.array_agg(u.event_id), pg_catalog.array_agg(u.version)
FROM unqueued u
WHERE (u.id, u.event_id, u.version) NOT IN (SELECT held.series_id, held.event_id, held.version FROM held)
