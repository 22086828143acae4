-- Which of some idempotency keys belong to an event.
--   @keys text[]
SELECT k.idempotency_key
FROM :"schema".keys k
WHERE k.idempotency_key = ANY (@keys::text[])
