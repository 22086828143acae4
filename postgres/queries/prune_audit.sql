-- Delete the oldest rows of the trail that were written before an instant.
--   @before timestamptz · @limit integer
WITH page AS MATERIALIZED (
    SELECT a.id
    FROM :"schema".audit a
    ORDER BY a.id
    LIMIT @limit
)
DELETE FROM :"schema".audit a
WHERE a.id = ANY (ARRAY (SELECT page.id FROM page)) AND a.at < @before
