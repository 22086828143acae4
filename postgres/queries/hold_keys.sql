-- Count requeued events as holders of the keys of the events that they repeat.
--   @keys text[]
-- A number of holders that another program has written may be at the greatest integer, and stays there. Such a key is never pruned.
-- Returns nothing. Locks the keys, in their order.
INSERT INTO :"schema".keys AS k (idempotency_key, holders)
SELECT n.key, count(*)
FROM pg_catalog.unnest(@keys::text[]) AS n (key)
GROUP BY n.key
ORDER BY n.key
ON CONFLICT (idempotency_key) DO UPDATE
SET holders = least(k.holders::bigint + excluded.holders, 2147483647::bigint)
