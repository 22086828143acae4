-- Count events. :pending, :processing and :ended are a specification rendered as a condition on the events of that status.
--   the parameters of the specification
SELECT
    (SELECT count(*) FROM :"schema".pending_events e WHERE :pending)
    + (SELECT count(*) FROM :"schema".processing_events e WHERE :processing)
    + (SELECT count(*) FROM :"schema".ended_events e WHERE :ended)
