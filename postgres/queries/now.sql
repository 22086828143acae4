-- The clock that decides. It is clock_timestamp, because now() would stand still inside a host's transaction.
SELECT clock_timestamp()
