-- Claim events that are due, oldest first, and lease them as one batch. Also claim events that will be due soon and were never claimed.
-- Events that have consulted calendars are claimed only when they are due: an edit may release an event that was claimed early, and its
-- text in the queue is gone.
--   @token uuid · @owner text · @program text · @zone_data text ('' if unknown) · @types text[] · @limit integer
--   @lease interval · @mark timestamptz · @ahead interval (how soon) · @from timestamptz (visits_from of claim_lanes in schema.sql)
--   @reached timestamptz[] (for each type where its search begins, if later than the mark; NULL if unknown)
-- Time: now() is when the transaction began, so no event is claimed early.
-- Locks: events that another claim or an edit has locked are passed over. No row is locked that is not taken. Row locks last until the
-- surrounding transaction ends. The lock is taken in a materialized step, because a plan that repeats the limited scan would take more
-- than the limit. Every change of a pending event replaces its row in the queue. So the series, read as they were when the statement
-- began, belong to the rows that the statement has locked.
-- Types: each type has its own range of the index, so a backlog of another type, paused or unhandled, costs nothing. Each type that has
-- events to claim has an equal share of the limit, so that a backlog of one type delays no other. What a type leaves of its share goes to
-- the others, one after the other. If the limit is smaller than the number of types, chance decides which of them have a share. See
-- docs/adr/0038-queue-by-type.md.
-- The mark bounds the scan of the index. Entries left of the mark are dead, and stay as long as an old transaction is open. A mark in the
-- future is ignored: the clock was set back. So is a mark that is not ten seconds later than the end of a pause of the type, for which
-- events have waited.
-- "< 1" stands instead of "= 0" because nearly all rows match: the planner expects a third of the rows for "< 1", and one in two
-- hundred for "= 0".
-- Damaged rows: a row of the queue that does not match its series was not written by this program. It is deleted like the others, and
-- claims nothing: neither another event of the series, nor one of a type that was not asked for, nor one before its instant. If its event
-- is the open one of its series and in no lease, a right row takes its place, so that the event is late at worst. This part runs only if
-- there is such a row. A row that names another series than that of its event is not put right: no index finds a series by its event.
-- OFFSET 0 makes the planner look up each series by its id. It expects ten rows of arrays, and so looks up the users one by one too.
-- A lease of events that may be ahead of their instant has the time of the claim in ahead_since: see release_ahead.sql and release.sql.
-- Returns the events with their users, in the order of their instants. Used keys of their series come as text (see usedText in
-- statements.go) if some have another unit than the event. The columns after those of the event, the same in each row:
--   The clock. It is never earlier than the time that made the events due, even if the clock is set back meanwhile.
--   When the last of the events became available, or now() if that is earlier. If events of several types are left, it is the time of
--   the type that is behind the others.
--   The types that had something to claim. It is NULL unless the limit is smaller than the number of types.
--   Whether there are events for claim_lanes.sql.
--   Whether a type has a breaker.
-- If rows were deleted and no event is claimed, there is one row without an event, and more events may be due.
WITH of_type AS MATERIALIZED (
    SELECT t.name, :paused AS paused, :limited OR b.allowed IS NOT NULL AS limited, b.allowed IS NOT NULL OR b.answer_ids IS NOT NULL AS failing, :since AS since, t.reached
    FROM unnest(@types::text[], @reached::timestamptz[]) AS t (name, reached)
    LEFT JOIN :"schema".lanes l ON l.name = t.name
    LEFT JOIN LATERAL (
        SELECT n.allowed, n.answer_ids FROM :"schema".lane_states n WHERE n.lane = t.name ORDER BY n.step DESC LIMIT 1
    ) b ON true
), asked AS MATERIALIZED (
    SELECT o.name, pg_catalog.cardinality(@types::text[]) = 1 AS alone,
        CASE WHEN o.since > '-infinity' THEN greatest(o.since, o.reached) ELSE o.since END AS since
    FROM of_type o
    WHERE NOT (o.paused OR o.limited)
), live AS MATERIALIZED (
    SELECT a.name, a.since
    FROM asked a
    WHERE a.alone
    UNION ALL
    SELECT a.name, oldest.available_at
    FROM asked a
    CROSS JOIN LATERAL (
        SELECT q.available_at
        FROM :"schema".queue q
        WHERE q.event_type = a.name AND q.lane = '' AND q.available_at <= now() + @ahead::interval AND q.available_at >= a.since
        ORDER BY q.available_at, q.event_id
        LIMIT 1
    ) oldest
    WHERE NOT a.alone
), share AS MATERIALIZED (
    SELECT l.name, l.since, @limit::bigint / l.types + CASE WHEN l.turn <= @limit::bigint % l.types THEN 1 ELSE 0 END AS most
    FROM (SELECT live.name, live.since, row_number() OVER (ORDER BY pg_catalog.random()) AS turn, count(*) OVER () AS types FROM live) l
), of_each AS MATERIALIZED (
    SELECT q.*
    FROM share
    CROSS JOIN LATERAL (
        SELECT q.ctid AS place, q.series_id, q.event_id, q.event_type, q.available_at
        FROM :"schema".queue q
        WHERE q.event_type = share.name AND q.lane = '' AND q.available_at >= share.since AND q.available_at <= now() + @ahead::interval
            AND (q.available_at <= now() OR q.consulted IS NULL AND (SELECT s.claim_count FROM :"schema".series s WHERE s.id = q.series_id) < 1)
        ORDER BY q.available_at, q.event_id
        LIMIT share.most
        FOR UPDATE SKIP LOCKED
    ) q
), filled AS MATERIALIZED (
    SELECT share.name, coalesce(o.at, share.since) AS since, coalesce(o.last_id, '00000000-0000-0000-0000-000000000000') AS event_id
    FROM share
    LEFT JOIN (
        SELECT e.event_type, count(*) AS n, max(e.available_at) AS at,
            (pg_catalog.array_agg(e.event_id ORDER BY e.available_at DESC, e.event_id DESC))[1] AS last_id
        FROM of_each e
        WHERE (SELECT count(*) FROM live) > 1
        GROUP BY e.event_type
    ) o ON o.event_type = share.name
    WHERE coalesce(o.n, 0::bigint) = share.most
), of_rest AS MATERIALIZED (
    SELECT q.*
    FROM filled
    CROSS JOIN LATERAL (
        SELECT q.ctid AS place, q.series_id, q.event_id, q.event_type, q.available_at
        FROM :"schema".queue q
        WHERE q.event_type = filled.name AND q.lane = '' AND (q.available_at, q.event_id) > (filled.since, filled.event_id)
            AND q.available_at <= now() + @ahead::interval
            AND (q.available_at <= now() OR q.consulted IS NULL AND (SELECT s.claim_count FROM :"schema".series s WHERE s.id = q.series_id) < 1)
        ORDER BY q.available_at, q.event_id
        LIMIT @limit
        FOR UPDATE SKIP LOCKED
    ) q
    LIMIT @limit::bigint - (SELECT count(*) FROM of_each)
), due AS MATERIALIZED (
    SELECT * FROM of_each
    UNION ALL
    SELECT * FROM of_rest
), clock AS MATERIALIZED (
    SELECT greatest(clock_timestamp(), now()) AS read
), claimed AS MATERIALIZED (
    SELECT s.*
    FROM unnest(ARRAY (SELECT due.series_id FROM due), ARRAY (SELECT due.event_id FROM due), ARRAY (SELECT due.event_type FROM due))
        AS q (series_id, event_id, event_type)
    CROSS JOIN LATERAL (
        SELECT *
        FROM :"schema".series x
        WHERE x.id = q.series_id AND x.event_id = q.event_id AND x.event_type = q.event_type
            AND greatest(x.target_timestamp_utc, x.ready_at) <= now() + @ahead::interval
        OFFSET 0
    ) s
), dequeued AS (
    DELETE FROM :"schema".queue q
    WHERE q.ctid = ANY (ARRAY (SELECT due.place FROM due))
    RETURNING q.series_id, q.event_id, q.event_type, q.available_at
), put_right AS (
    INSERT INTO :"schema".queue (available_at, event_id, series_id, event_type, delayed_from, retry_count, lane)
    SELECT greatest(d.available_at, s.target_timestamp_utc, s.ready_at), s.event_id, s.id, s.event_type,
        CASE WHEN greatest(d.available_at, s.ready_at) > s.target_timestamp_utc THEN s.target_timestamp_utc END, nullif(s.retry_count, 0), s.lane
    FROM dequeued d
    JOIN :"schema".series s ON s.id = d.series_id AND s.event_id = d.event_id
    WHERE (SELECT count(*) FROM claimed) < (SELECT count(*) FROM due)
        AND (s.event_type <> d.event_type OR greatest(s.target_timestamp_utc, s.ready_at) > now() + @ahead::interval)
        AND NOT EXISTS (
            SELECT FROM :"schema".leases l
            CROSS JOIN LATERAL unnest(l.series_ids, l.event_ids, l.versions) AS held (series_id, event_id, version)
            WHERE held.series_id = s.id AND held.event_id = s.event_id AND held.version = s.version
        )
), lease AS (
    INSERT INTO :"schema".leases (token, owner, series_ids, event_ids, versions, claimed_at, expires_at, ahead_since, program, zone_data)
    SELECT @token::uuid, @owner::text, pg_catalog.array_agg(c.id), pg_catalog.array_agg(c.event_id), pg_catalog.array_agg(c.version),
        min(clock.read), min(clock.read) + @lease::interval,
        min(clock.read) FILTER (WHERE @ahead::interval > interval '0'), nullif(@program::text, ''), nullif(@zone_data::text, '')
    FROM (SELECT o.id, o.event_id, o.version FROM claimed o ORDER BY o.target_timestamp_utc DESC, o.event_id DESC) c, clock
    HAVING count(*) > 0
)
SELECT clock.read, coalesce(CASE WHEN (SELECT count(*) FROM due) >= @limit THEN (SELECT min(least(filled.since, now())) FROM filled) END,
        (SELECT max(least(due.available_at, now())) FROM due)
    ), CASE WHEN @limit::bigint < pg_catalog.cardinality(@types::text[]) THEN ARRAY (SELECT live.name FROM live) END, EXISTS (SELECT FROM of_type WHERE of_type.limited)
        OR EXISTS (
            SELECT
            FROM pg_catalog.unnest(@types::text[]) AS t (name)
            CROSS JOIN LATERAL (
                SELECT
                FROM :"schema".visits v
                WHERE v.scope = '' AND v.event_type = t.name AND v.pass = -1::float8 AND v.at >= coalesce(@from::timestamptz, '-infinity') AND v.at <= now() + least(@ahead::interval, interval '30 seconds')
                ORDER BY v.at
                LIMIT 1
            ) v
        ), EXISTS (SELECT FROM of_type WHERE of_type.failing),
    :claimed, :user, CASE WHEN s.used_unit <> s.key_unit OR s.used_others IS NOT NULL THEN :used END
FROM clock
LEFT JOIN (claimed s JOIN :"schema".users u ON u.id = s.user_id) ON true
ORDER BY s.target_timestamp_utc, s.event_id
