-- Delete those of the oldest rows of the outbox that every consumer has read.
--   @limit integer
WITH page AS MATERIALIZED (
    SELECT o.sequence
    FROM :"schema".outbox o
    ORDER BY o.sequence
    LIMIT @limit
)
DELETE FROM :"schema".outbox o
WHERE o.sequence = ANY (ARRAY (SELECT page.sequence FROM page))
    AND NOT EXISTS (SELECT FROM :"schema".outbox_consumers c WHERE NOT :taken)
