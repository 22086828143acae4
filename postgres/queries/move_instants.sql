-- Give pending events another instant for the same wall time. Parallel arrays, one element per event:
--   @ids uuid[] · @versions integer[] (the versions after) · @due timestamptz[]
-- Returns the rows that were at the version before, PENDING, never claimed and not locked by anybody. No user is locked: the
-- instant follows from the row alone, and the version keeps edits apart.
UPDATE :"schema".events e
SET target_timestamp_utc = n.due,
    available_at = n.due,
    version = e.version + 1,
    updated_at = clock_timestamp()
FROM unnest(@ids::uuid[], @versions::integer[], @due::timestamptz[]) AS n (id, version, due)
WHERE e.id = n.id
    AND e.id IN (
        SELECT f.id
        FROM :"schema".events f
        JOIN unnest(@ids::uuid[], @versions::integer[]) AS m (id, version) ON f.id = m.id AND f.version = m.version - 1
        WHERE f.status = 'PENDING'
            AND f.claim_count = 0
        ORDER BY f.id
        FOR NO KEY UPDATE OF f SKIP LOCKED)
RETURNING :event
