-- Delete those of the oldest rows of the outbox that every consumer has read.
--   @limit integer
-- Returns how many were deleted. Locks the rows FOR UPDATE. Rows of a user whom another transaction deletes are passed over: that
-- transaction deletes them. A function of the owner deletes, so that a relay cannot lock the table.
SELECT :"schema".prune_outbox(@limit::integer)
