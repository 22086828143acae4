-- Lock what is still held under leases that were taken away, in the order of the ids, as whoever deletes a user does. It is a
-- statement of its own, so that the next one sees users who were deleted while this one waited.
--   @tokens uuid[] · @ids uuid[] (parallel)
SELECT e.id
FROM unnest(@tokens::uuid[], @ids::uuid[]) AS held (token, id)
JOIN :"schema".events e ON e.id = held.id
WHERE e.lease_token = held.token
    AND e.status = 'PROCESSING'
ORDER BY e.id
FOR UPDATE OF e
