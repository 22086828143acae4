-- A number of the outbox: a transaction that gets its id after this statement draws this number or a greater one.
SELECT last_value
FROM :"schema".outbox_sequence_seq
