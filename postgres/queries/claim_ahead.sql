-- Claim due events as claim.sql does, and besides those that will be due soon. What was claimed before is left until it is due.
--   @token uuid · @owner text · @types text[] · @limit integer · @lease interval · @mark timestamptz · @ahead interval (how soon)
-- The lease says since when its events may be ahead of their target: see take_back.sql and give_back.sql.
WITH due AS MATERIALIZED (
    SELECT q.ctid AS place, q.series_id, q.available_at
    FROM :"schema".queue q
    WHERE q.available_at <= now() + @ahead::interval
        AND q.available_at >= CASE WHEN @mark::timestamptz <= now() THEN @mark::timestamptz ELSE '-infinity' END
        AND q.event_type = ANY (@types::text[])
        AND (q.available_at <= now() OR (SELECT s.claim_count FROM :"schema".series s WHERE s.id = q.series_id) = 0)
    ORDER BY q.available_at, q.event_id
    LIMIT @limit
    FOR UPDATE SKIP LOCKED
), taken AS (
    DELETE FROM :"schema".queue q
    WHERE q.ctid = ANY (ARRAY (SELECT due.place FROM due))
), claimed AS MATERIALIZED (
    SELECT s.*
    FROM :"schema".series s
    WHERE s.id = ANY (ARRAY (SELECT due.series_id FROM due))
    ORDER BY s.target_timestamp_utc DESC, s.event_id DESC
), clock AS MATERIALIZED (
    SELECT greatest(clock_timestamp(), now()) AS read
), lease AS (
    INSERT INTO :"schema".leases (token, owner, series_ids, event_ids, versions, claimed_at, expires_at, ahead_since)
    SELECT @token::uuid, @owner::text, array_agg(c.id), array_agg(c.event_id), array_agg(c.version),
        min(clock.read), min(clock.read) + @lease::interval, min(clock.read)
    FROM claimed c, clock
    HAVING count(*) > 0
)
SELECT clock.read, (SELECT max(due.available_at) FROM due), :claimed, :user
FROM clock, claimed s
JOIN :"schema".users u ON u.id = s.user_id
ORDER BY s.target_timestamp_utc, s.event_id
