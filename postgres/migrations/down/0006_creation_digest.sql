-- Requests that are repeated after that are no longer known: who has created a user before is told of a conflict.
-- Loses users WHERE creation_digest IS NOT NULL
ALTER TABLE :"schema".users DROP creation_digest;
