-- Delete those of the oldest rows of the outbox that every consumer has read.
--   @limit integer
-- Locks the rows FOR UPDATE. Rows of a user whom another transaction deletes are passed over: that transaction deletes them.
WITH page AS MATERIALIZED (
    SELECT o.sequence
    FROM :"schema".outbox o
    ORDER BY o.sequence
    LIMIT @limit
    FOR UPDATE SKIP LOCKED
)
DELETE FROM :"schema".outbox o
WHERE o.sequence = ANY (ARRAY (SELECT page.sequence FROM page))
    AND NOT EXISTS (SELECT FROM :"schema".outbox_consumers c WHERE NOT :consumed)
