-- The lanes that are paused.
SELECT l.name, coalesce(l.pause_reason, ''), coalesce(l.pause_author, ''), l.paused_since, l.paused_until
FROM :"schema".lanes l
WHERE :paused
ORDER BY l.name
