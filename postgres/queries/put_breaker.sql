-- Store the breaker of a lane, unless its state has changed since it was read.
--   @lane text
--   @step bigint (of the state that was read; NULL if there was none)
--   @allowed integer, @retry_at timestamptz, @opened_at timestamptz (NULL if the breaker is closed)
--   @failures integer
--   @answer_ids uuid[], @answers_at timestamptz[], @answers_fail boolean[] (NULL if there are none)
-- Waits for a claim that has locked the state. A transaction that adds the first state has locked the lane by lock_lane.sql.
-- The time of the state stays: it is that of its tokens.
-- Returns how many rows were changed or added.
WITH changed AS (
    UPDATE :"schema".lane_states s
    SET step = s.step + 1::bigint, allowed = @allowed::integer, retry_at = @retry_at::timestamptz, opened_at = @opened_at::timestamptz,
        failures = @failures::integer, answer_ids = @answer_ids::uuid[], answers_at = @answers_at::timestamptz[], answers_fail = @answers_fail::boolean[]
    WHERE s.lane = @lane::text AND s.step = @step::bigint
    RETURNING s.lane
), added AS (
    INSERT INTO :"schema".lane_states (lane, full_at, allowed, retry_at, opened_at, failures, answer_ids, answers_at, answers_fail)
    SELECT @lane::text, clock_timestamp(), @allowed::integer, @retry_at::timestamptz, @opened_at::timestamptz, @failures::integer,
        @answer_ids::uuid[], @answers_at::timestamptz[], @answers_fail::boolean[]
    WHERE @step::bigint IS NULL
    RETURNING lane
)
SELECT (SELECT count(*) FROM changed) + (SELECT count(*) FROM added)
