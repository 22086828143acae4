-- The clock that decides. clock_timestamp, since now() would stand still inside a host's transaction.
SELECT clock_timestamp()
