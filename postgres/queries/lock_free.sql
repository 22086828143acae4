-- Lock pending events that were never claimed, and their series. Parallel arrays, one element per event:
--   @ids uuid[] · @versions integer[]
-- Returns the ids of the events that are locked. Events at another version, and events that another transaction has locked, are left out:
-- this statement waits for no lock. No user is locked, because an instant follows from the event alone, and the version detects edits.
SELECT q.event_id
FROM unnest(@ids::uuid[], @versions::integer[]) AS n (id, version)
JOIN :"schema".queue q ON q.event_id = n.id
JOIN :"schema".series s ON s.id = q.series_id AND s.event_id = q.event_id
WHERE q.event_id = ANY (ARRAY (SELECT pg_catalog.unnest(@ids::uuid[])))
    AND s.version = n.version
    AND s.claim_count = 0
FOR UPDATE OF s, q SKIP LOCKED
