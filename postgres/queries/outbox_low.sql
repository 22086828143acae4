-- A lower bound for numbers of the outbox: a transaction that gets its id after this statement draws this number or a greater
-- number.
SELECT last_value
FROM :"schema".outbox_sequence_seq
