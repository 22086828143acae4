-- Add some of the changes to the counts, and delete them.
--   @limit integer
-- Returns how many were deleted. Locks the changes and the counts that it changes. It leaves out changes that another transaction has
-- locked. Counts are locked in the order of their keys, so two calls wait for each other for a moment, and never in a circle. A
-- count that becomes zero is deleted. If it was changed meanwhile, it is updated instead, so that no change is lost.
WITH gone AS MATERIALIZED (
    DELETE FROM :"schema".due_changes d
    WHERE d.ctid = ANY (ARRAY (SELECT x.ctid FROM :"schema".due_changes x LIMIT @limit FOR UPDATE SKIP LOCKED))
    RETURNING d.timezone, d.quarter, d.event_type, d.n
), sums AS MATERIALIZED (
    SELECT gone.timezone, gone.quarter, gone.event_type, sum(gone.n) AS n
    FROM gone
    GROUP BY 1, 2, 3
    HAVING sum(gone.n) <> 0::bigint
), emptied AS (
    DELETE FROM :"schema".due_counts c
    USING sums
    WHERE c.timezone = sums.timezone AND c.quarter = sums.quarter AND c.event_type = sums.event_type AND c.n = -sums.n
    RETURNING c.timezone, c.quarter, c.event_type
), folded AS (
    INSERT INTO :"schema".due_counts AS c (timezone, quarter, event_type, n)
    SELECT sums.timezone, sums.quarter, sums.event_type, sums.n
    FROM sums
    WHERE (sums.timezone, sums.quarter, sums.event_type) NOT IN (SELECT emptied.timezone, emptied.quarter, emptied.event_type FROM emptied)
    ORDER BY 1, 2, 3
    ON CONFLICT (timezone, quarter, event_type) DO UPDATE SET n = c.n + excluded.n
)
SELECT count(*) FROM gone
