-- Claim events of lanes that have limits or names, and lease them as one batch: see the function claim_lanes in schema.sql.
--   @token uuid · @owner text · @program text · @zone_data text ('' if unknown) · @types text[] · @limit bigint · @lease interval
--   @ahead interval · @read timestamptz, @elapsed interval (NULL if there was no such claim) · @looks bigint · @from timestamptz (NULL if unknown)
SELECT c.removed, c.claimed, c.has_places, c.has_breaker, c.read_at, c.left_from
FROM :"schema".claim_lanes(@token, @owner, @program, @zone_data, @types, @limit, @lease, @ahead, @read, @elapsed, @looks, @from) c
