-- A requeued event has the key of the event that it repeats, and a key is free when nobody has it any more. Programs of the release
-- before may run beside this one: a key that they free or take meanwhile counts as held by one event.
ALTER TABLE :"schema".keys ADD COLUMN holders integer NOT NULL DEFAULT 1;

INSERT INTO :"schema".keys AS k (idempotency_key, holders)
SELECT e.idempotency_key, count(*)
FROM :"schema".events e
WHERE e.idempotency_key IN (
    SELECT h.idempotency_key FROM :"schema".history h WHERE h.requeued_from IS NOT NULL
    UNION
    SELECT s.idempotency_key FROM :"schema".series s WHERE s.requeued_from IS NOT NULL AND s.event_id IS NOT NULL
)
GROUP BY e.idempotency_key
ON CONFLICT (idempotency_key) DO UPDATE
SET holders = excluded.holders;

-- One row. Where there are users, events may have been pruned already.
CREATE TABLE :"schema".pruning (
    before timestamptz NOT NULL
);

INSERT INTO :"schema".pruning (before)
SELECT CASE WHEN EXISTS (SELECT FROM :"schema".users) THEN now() ELSE '-infinity' END;

REVOKE INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER ON :"schema".pruning FROM PUBLIC;

COMMENT ON TABLE :"schema".pruning IS 'How far back idempotency keys are known';
