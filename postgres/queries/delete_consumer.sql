-- Delete a consumer. Waits until a read under this name has ended.
--   @name text
-- Returns whether there was one. A function of the owner deletes, so that a relay cannot lock the table.
SELECT :"schema".delete_consumer(@name::text)
