-- End leases that hold nothing any more: an edit took back what they held, a deletion took it along, or the settlement that
-- would have ended them met them being renewed. One that holds something is known by its first hit, mostly the first that it
-- lists; one that holds nothing never will again, since the version of an event only rises. One that is being renewed or taken
-- is passed over.
--   @limit integer
DELETE FROM :"schema".leases
WHERE token IN (
    SELECT l.token
    FROM :"schema".leases l
    WHERE NOT :holds
    LIMIT @limit
    FOR UPDATE SKIP LOCKED
)
