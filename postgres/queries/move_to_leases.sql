-- Move events whose claims are still in force to empty leases, each to a lease of its own.
--   @tokens uuid[] · @ids uuid[] · @versions integer[] (while PENDING) · @fresh uuid[] (parallel; the last is the new lease)
-- Returns for each event that was still held: the new token, when the lease began, whether the user is deleted, and the user.
-- Locks the leases that lose events, in order of their tokens, as renew.sql does. Of several calls for one event, the first
-- removes the event from the list. The other calls wait for the lock, and then do not find the event.
WITH n AS MATERIALIZED (
    SELECT *
    FROM unnest(@tokens::uuid[], @ids::uuid[], @versions::integer[], @fresh::uuid[]) AS n (token, event_id, version, fresh)
), old AS MATERIALIZED (
    SELECT l.*
    FROM :"schema".leases l
    WHERE l.token = ANY (@tokens::uuid[])
    ORDER BY l.token
    FOR UPDATE
), listed AS MATERIALIZED (
    SELECT old.token, old.ahead_since, x.series_id, x.event_id, x.version, x.place
    FROM old
    CROSS JOIN LATERAL unnest(old.series_ids, old.event_ids, old.versions) WITH ORDINALITY AS x (series_id, event_id, version, place)
), held AS MATERIALIZED (
    SELECT listed.*, n.fresh, s.user_id
    FROM listed
    JOIN n ON n.token = listed.token AND n.event_id = listed.event_id AND n.version = listed.version
    CROSS JOIN LATERAL (
        SELECT s.user_id
        FROM :"schema".series s
        WHERE s.id = listed.series_id AND s.event_id = listed.event_id AND s.version = listed.version
        OFFSET 0
    ) s
), shortened AS (
    UPDATE :"schema".leases l
    SET series_ids = rest.series_ids, event_ids = rest.event_ids, versions = rest.versions
    FROM (
        SELECT listed.token,
            coalesce(pg_catalog.array_agg(listed.series_id ORDER BY listed.place) FILTER (WHERE held.fresh IS NULL), '{}') AS series_ids,
            coalesce(pg_catalog.array_agg(listed.event_id ORDER BY listed.place) FILTER (WHERE held.fresh IS NULL), '{}') AS event_ids,
            coalesce(pg_catalog.array_agg(listed.version ORDER BY listed.place) FILTER (WHERE held.fresh IS NULL), '{}') AS versions
        FROM listed
        LEFT JOIN held ON held.token = listed.token AND held.place = listed.place
        GROUP BY listed.token
        HAVING pg_catalog.count(held.fresh) > 0
    ) rest
    WHERE l.token = rest.token
)
UPDATE :"schema".leases l
SET series_ids = ARRAY[held.series_id], event_ids = ARRAY[held.event_id], versions = ARRAY[held.version], ahead_since = held.ahead_since
FROM held
CROSS JOIN LATERAL (SELECT * FROM :"schema".users x WHERE x.id = held.user_id OFFSET 0) u
WHERE l.token = held.fresh
RETURNING l.token, l.claimed_at, u.deleted_at IS NOT NULL, :user
