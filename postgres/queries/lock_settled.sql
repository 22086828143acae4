-- Lock series in order, where a batch settles several events of one user: whoever changes them locks in that order too.
--   @series bigint[]
SELECT s.id
FROM :"schema".series s
WHERE s.id = ANY (@series::bigint[])
ORDER BY s.id
FOR NO KEY UPDATE
