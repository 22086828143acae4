-- Wait until no other transaction edits the zone rules. The lock is on the table, because the table may have no rows yet. Readers
-- are not blocked.
LOCK TABLE :"schema".zone_rules IN SHARE ROW EXCLUSIVE MODE
