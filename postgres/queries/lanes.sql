-- The lanes that have limits.
SELECT l.name, coalesce(l.rate, 0::float8), coalesce(l.burst, 0), coalesce(l.places, 0), coalesce(l.daily, 0), coalesce(l.weight, 0)
FROM :"schema".lanes l
WHERE :limited OR l.weight IS NOT NULL
ORDER BY l.name
