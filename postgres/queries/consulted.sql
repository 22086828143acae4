-- What the pending events of a type have consulted, each text once and in order.
--   @type text
-- It takes one step in the index for each text, however many events there are. Locks nothing.
WITH RECURSIVE texts (consulted) AS (
    SELECT min(q.consulted) FROM :"schema".queue q WHERE q.event_type = @type::text AND q.consulted IS NOT NULL
    UNION ALL
    SELECT (SELECT min(q.consulted) FROM :"schema".queue q WHERE q.event_type = @type::text AND q.consulted > texts.consulted)
    FROM texts
    WHERE texts.consulted IS NOT NULL
)
SELECT texts.consulted FROM texts WHERE texts.consulted IS NOT NULL
