-- Count the latest failures and cancellations, by type and status.
--   @limit integer
SELECT h.event_type, h.status, count(*)
FROM (SELECT x.event_type, x.status FROM :"schema".history x WHERE x.failure_reason IS NOT NULL ORDER BY x.id DESC LIMIT @limit) h
GROUP BY h.event_type, h.status
