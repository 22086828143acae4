-- Close the breaker of a lane.
--   @name text
UPDATE :"schema".lane_states s
SET step = s.step + 1::bigint, allowed = NULL, retry_at = NULL, opened_at = NULL, failures = 0, answer_ids = NULL, answers_at = NULL, answers_fail = NULL
WHERE s.lane = @name::text AND (s.allowed IS NOT NULL OR s.answer_ids IS NOT NULL)
