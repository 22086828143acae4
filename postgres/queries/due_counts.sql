-- Count the events of a zone by the quarter hour of their targets.
--   @zone text · @type text (NULL for all) · @from integer · @until integer (quarter hours since 1970) · @limit integer (the most changes
--   to read)
-- Returns the clock, and how many changes were read, and for each quarter hour its number and that of its events. Without events there is
-- one row, with NULL.
WITH changes AS MATERIALIZED (
    SELECT d.timezone, d.quarter, d.event_type, d.n::bigint AS n
    FROM :"schema".due_changes d
    LIMIT @limit
)
SELECT clock_timestamp(), (SELECT count(*) FROM changes), due.quarter, due.n
FROM (SELECT 1) AS one
LEFT JOIN (
    SELECT x.quarter, sum(x.n)::bigint AS n
    FROM (SELECT c.timezone, c.quarter, c.event_type, c.n FROM :"schema".due_counts c UNION ALL SELECT * FROM changes) x
    WHERE x.timezone = @zone::text
        AND x.quarter >= @from::integer
        AND x.quarter < @until::integer
        AND (@type::text IS NULL OR x.event_type = @type::text)
    GROUP BY x.quarter
    HAVING sum(x.n) <> 0::numeric
) due ON true
ORDER BY due.quarter
