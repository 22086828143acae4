-- What is queued and what is leased follows from the series; the rest is nowhere else.
-- Loses users
-- Loses series
-- Loses history
-- Loses keys
DROP VIEW :"schema".events;
DROP VIEW :"schema".ended_events;
DROP VIEW :"schema".processing_events;
DROP VIEW :"schema".pending_events;
DROP TABLE :"schema".leases;
DROP TABLE :"schema".keys;
DROP TABLE :"schema".history;
DROP TABLE :"schema".queue;
DROP TABLE :"schema".series;
DROP TABLE :"schema".users;
DROP FUNCTION :"schema".forget_user();
DROP FUNCTION :"schema".follow_user();
DROP FUNCTION :"schema".refuse_change();
