-- Which of the events that were claimed ahead are still held as they were claimed. Parallel arrays, one element per event:
--   @users uuid[] · @types text[] · @names text[] · @detached text[] (these four name the series)
--   @ids uuid[] · @versions integer[] (while PENDING)
-- A transaction that releases an event claimed ahead locks the series before it reads the clock. This statement reads statement_timestamp()
-- before any row. Suppose that this time has reached the target, and that xmax shows no lock or replacement of the row since it was
-- written. Then no transaction has judged the event to be ahead of its instant, and none will. If xmax shows a lock, perhaps an old one,
-- this statement tries to lock the row itself, to see whether the other transaction is still open. It does not wait for the lock.
-- Returns the clock, the id, and whether the answer is certain. If it is not, another transaction has the row locked, and the
-- call may be repeated. Events that are not held are left out. If no event is held, the id is NULL.
WITH n AS MATERIALIZED (
    SELECT *
    FROM unnest(@users::uuid[], @types::text[], @names::text[], @detached::text[], @ids::uuid[], @versions::integer[])
        AS n (user_id, event_type, name, detached, id, version)
), held AS MATERIALIZED (
    SELECT s.id, s.event_id, s.version, s.untouched
    FROM n
    CROSS JOIN LATERAL (
        SELECT x.id, x.event_id, x.version, x.xmax = '0'::xid AS untouched
        FROM :"schema".series x
        WHERE x.user_id = n.user_id AND x.event_type = n.event_type AND x.name = n.name AND x.detached = n.detached
        OFFSET 0
    ) s
    WHERE s.event_id = n.id AND s.version = n.version
), locked AS MATERIALIZED (
    SELECT s.id
    FROM :"schema".series s
    JOIN held ON held.id = s.id
    WHERE s.id = ANY (ARRAY (SELECT h.id FROM held h WHERE NOT h.untouched))
        AND s.event_id = held.event_id AND s.version = held.version
    FOR KEY SHARE OF s SKIP LOCKED
)
SELECT statement_timestamp(), held.event_id, held.untouched OR held.id IN (SELECT locked.id FROM locked)
FROM (SELECT) AS always
LEFT JOIN held ON true
