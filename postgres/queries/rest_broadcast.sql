-- Note when a broadcast has a zone to read again, and end its lease. If no zone is to be read again, it is stored.
--   @name text
UPDATE :"schema".broadcasts b
SET state = CASE WHEN n.next_at IS NULL THEN 'stored' ELSE b.state END, lease = NULL, lease_until = NULL,
    look_at = CASE WHEN n.next_at IS NULL THEN clock_timestamp() ELSE least(n.next_at, clock_timestamp() + interval '1 minute') END -- there may be more zones then
FROM (SELECT min(z.next_at) AS next_at FROM :"schema".broadcast_zones z WHERE z.broadcast = @name::text) n
WHERE b.name = @name::text AND b.state = 'storing'
