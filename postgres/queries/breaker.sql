-- The newest state of a lane, with its breaker, and the clock.
--   @lane text
-- Locks the state, and waits for a claim or another report that has locked it.
-- Returns one row; the columns of the state are NULL if there is none.
SELECT clock_timestamp(), s.step, s.allowed, s.retry_at, s.opened_at, s.failures, s.answer_ids, s.answers_at, s.answers_fail
FROM (VALUES (@lane::text)) AS t (name)
LEFT JOIN LATERAL (
    SELECT n.* FROM :"schema".lane_states n WHERE n.lane = t.name ORDER BY n.step DESC LIMIT 1 FOR UPDATE
) s ON true
