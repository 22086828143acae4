-- What pending events that are due before an instant have consulted, with how many they are and when the first is due.
--   @until timestamptz
SELECT q.consulted, count(*), min(q.available_at)
FROM :"schema".queue q
WHERE q.consulted IS NOT NULL AND q.available_at < @until::timestamptz
GROUP BY q.consulted
ORDER BY q.consulted
