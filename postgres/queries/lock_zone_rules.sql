-- Wait until nobody else edits the zone rules. The lock is on the table, which may have no rows yet; readers pass.
LOCK TABLE :"schema".zone_rules IN SHARE ROW EXCLUSIVE MODE
