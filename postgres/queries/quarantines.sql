-- The releases that wait for an operator, or have waited: those of zones first. Locks nothing.
SELECT q.name, q.calendar, q.release, q.changes, q.largest, q.first_local, q.first_utc, q.since, q.answered_at, q.accepted,
    coalesce(q.author, ''), coalesce(q.reason, '')
FROM :"schema".quarantine q
ORDER BY q.calendar, q.name
