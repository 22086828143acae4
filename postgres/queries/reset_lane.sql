-- Replace the state of a lane after its limits were stored, or begin one. The transaction has locked the lane, and waits for the claim that
-- has locked the state. There are no tokens at first, so that no change of the limits adds any; events that were claimed ahead have theirs.
--   @name text
WITH empty AS MATERIALIZED (
    SELECT l.name, clock_timestamp() + coalesce(l.burst::float8 / l.rate, 0::float8) * interval '1 second' AS full_at
    FROM :"schema".lanes l
    WHERE l.name = @name AND :limited
), changed AS (
    UPDATE :"schema".lane_states s
    SET step = s.step + 1::bigint, at = clock_timestamp(), full_at = greatest(empty.full_at, least(s.full_at, empty.full_at + interval '20 seconds'))
    FROM empty
    WHERE s.lane = empty.name
    RETURNING s.lane
)
INSERT INTO :"schema".lane_states (lane, full_at)
SELECT empty.name, empty.full_at
FROM empty
WHERE NOT EXISTS (SELECT FROM changed)
