-- Remove the limits of a lane, and its state without a breaker. A pause stays.
--   @name text
WITH unlimited AS (
    UPDATE :"schema".lanes l
    SET rate = NULL, burst = NULL, places = NULL, daily = NULL, weight = NULL
    WHERE l.name = @name
    RETURNING l.name
)
DELETE FROM :"schema".lane_states s
WHERE s.lane IN (SELECT unlimited.name FROM unlimited) AND s.allowed IS NULL AND s.answer_ids IS NULL
