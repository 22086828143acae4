-- End leases that hold no event any more. A lease that another transaction takes is passed over, because waiting for it with its
-- events locked could deadlock. The other transaction ends the lease.
--   @tokens uuid[]
DELETE FROM :"schema".leases
WHERE token IN (SELECT l.token FROM :"schema".leases l WHERE l.token = ANY (@tokens::uuid[]) AND NOT :holds FOR UPDATE SKIP LOCKED)
