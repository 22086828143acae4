-- Lock the series of what is still held under leases that were taken away, in order, as whoever deletes a user does. It is a
-- statement of its own, so that the next one sees users who were deleted while this one waited.
--   @tokens uuid[] · @series bigint[] · @ids uuid[] · @versions integer[] (parallel)
-- Returns the series and the token.
SELECT s.id, held.token
FROM unnest(@tokens::uuid[], @series::bigint[], @ids::uuid[], @versions::integer[]) AS held (token, series_id, event_id, version)
JOIN :"schema".series s ON s.id = held.series_id
WHERE s.id = ANY (ARRAY (SELECT unnest(@series::bigint[])))
    AND s.event_id = held.event_id
    AND s.version = held.version
ORDER BY s.id
FOR UPDATE OF s
