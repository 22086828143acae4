-- Delete pending events that are no longer owed.
--   @ids uuid[] · @versions integer[]
-- Returns the rows that were at that version, PENDING and never claimed.
DELETE FROM :"schema".events e
USING unnest(@ids::uuid[], @versions::integer[]) AS n (id, version)
WHERE e.id = n.id
    AND e.version = n.version
    AND e.status = 'PENDING'
    AND e.claim_count = 0
RETURNING :event
