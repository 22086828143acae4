-- Count events. :where is a specification rendered as a condition.
SELECT count(*)
FROM :"schema".events e
WHERE :where
