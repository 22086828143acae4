-- A lower bound for numbers of the outbox: a transaction that gets its id after this statement draws this number or a greater
-- number. Triggers draw the numbers. They run after a row was changed, so the transaction already has its id.
SELECT last_value FROM :"schema".outbox_sequence_seq
