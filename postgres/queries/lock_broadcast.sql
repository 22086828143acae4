-- Lock a broadcast, to change its state. Waits for a page that is being committed.
--   @name text
-- Returns its name.
SELECT b.name
FROM :"schema".broadcasts b
WHERE b.name = @name::text
FOR NO KEY UPDATE
