-- Store what was done to a broadcast, now and by the principal of the transaction.
--   @name text · @action text · @reason text
INSERT INTO :"schema".broadcast_steps (broadcast, action, reason)
VALUES (@name::text, @action::text, @reason::text)
