-- Delete a broadcast that has no list of users any more.
--   @name text
WITH zones AS (
    DELETE FROM :"schema".broadcast_zones z WHERE z.broadcast = @name::text
), steps AS (
    DELETE FROM :"schema".broadcast_steps s WHERE s.broadcast = @name::text
)
DELETE FROM :"schema".broadcasts b
WHERE b.name = @name::text
