-- Claim due events, oldest first, and lease them as one batch.
--   @token uuid · @owner text · @types text[] · @limit integer · @lease interval
-- Only PENDING rows have available_at. now() is when the transaction began, so nothing is claimed early. Rows that another
-- claim holds are passed over; row locks last until the surrounding transaction ends. The lock is taken in a
-- materialized step, since a plan that repeats the limited scan would take more than the limit.
-- Returns the rows, PROCESSING, in the order of their targets (UPDATE … RETURNING promises none), with the clock: never
-- earlier than what made them due, even if it is set back meanwhile.
WITH due AS MATERIALIZED (
    SELECT e.id
    FROM :"schema".events e
    WHERE e.available_at <= now()
        AND e.event_type = ANY (@types::text[])
    ORDER BY e.available_at, e.id
    LIMIT @limit
    FOR UPDATE SKIP LOCKED
), lease AS (
    INSERT INTO :"schema".leases (token, owner, event_ids, claimed_at, expires_at)
    SELECT @token::uuid, @owner::text, array_agg(due.id), clock_timestamp(), clock_timestamp() + @lease::interval
    FROM due
    HAVING count(*) > 0
), claimed AS (
    UPDATE :"schema".events e
    SET status = 'PROCESSING',
        available_at = NULL,
        lease_token = @token::uuid,
        claim_count = e.claim_count + 1,
        version = e.version + 1,
        updated_at = clock_timestamp()
    WHERE e.id = ANY (ARRAY (SELECT due.id FROM due))
    RETURNING e.*
)
SELECT greatest(clock_timestamp(), now()), :event
FROM claimed e
ORDER BY e.target_timestamp_utc, e.id
