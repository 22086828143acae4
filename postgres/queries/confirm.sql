-- Which of the events that were claimed ahead are still held as they were claimed. Parallel arrays, one element per event:
--   @users uuid[] · @types text[] · @names text[] (these three name the series) · @ids uuid[] · @versions integer[] (while PENDING)
-- Whoever takes an event back has locked its series before they read the clock. statement_timestamp() is read before any row is; so where
-- it has reached the target, and nobody has locked or replaced the row since it was written (xmax), nobody can have judged the event
-- to be ahead of its instant who is not seen here, or will. Where somebody has, perhaps long ago, a lock of our own tells whether they
-- are at it still. It is not waited for.
-- Returns the clock, the id, and whether it is certain: where not, somebody has the row locked, and it may be asked again. Events that
-- are not held are left out; where all are, the id is NULL.
WITH n AS MATERIALIZED (
    SELECT *
    FROM unnest(@users::uuid[], @types::text[], @names::text[], @ids::uuid[], @versions::integer[])
        AS n (user_id, event_type, name, id, version)
), held AS MATERIALIZED (
    SELECT s.id, s.event_id, s.version, s.untouched
    FROM n
    CROSS JOIN LATERAL (
        SELECT x.id, x.event_id, x.version, x.xmax = '0'::xid AS untouched
        FROM :"schema".series x
        WHERE x.user_id = n.user_id
            AND x.event_type = n.event_type
            AND x.name = n.name
        OFFSET 0
    ) s
    WHERE s.event_id = n.id
        AND s.version = n.version
), locked AS MATERIALIZED (
    SELECT s.id
    FROM :"schema".series s
    JOIN held ON held.id = s.id
    WHERE s.id = ANY (ARRAY (SELECT h.id FROM held h WHERE NOT h.untouched))
        AND s.event_id = held.event_id
        AND s.version = held.version
    FOR KEY SHARE OF s SKIP LOCKED
)
SELECT statement_timestamp(), held.event_id, held.untouched OR held.id IN (SELECT locked.id FROM locked)
FROM (SELECT) AS always
LEFT JOIN held ON true
