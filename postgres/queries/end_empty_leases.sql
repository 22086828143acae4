-- End leases that hold no event any more. An edit released their events, a deletion removed them, or the settlement that would
-- have ended the lease skipped it during a renewal. The first event that a lease still holds, mostly the first in its list, shows
-- that it must stay. A lease that holds no event never will again, because the version of an event only rises. Leases that are
-- being renewed or taken are passed over.
--   @limit integer
DELETE FROM :"schema".leases
WHERE token IN (SELECT l.token FROM :"schema".leases l WHERE NOT :holds LIMIT @limit FOR UPDATE SKIP LOCKED)
