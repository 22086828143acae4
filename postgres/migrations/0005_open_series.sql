-- Series that have ended keep their rows, for the keys that they have used up. Edits look at the others alone.
ALTER TABLE :"schema".series ADD COLUMN open_user_id uuid GENERATED ALWAYS AS (CASE WHEN event_id IS NOT NULL THEN user_id END) STORED;

CREATE INDEX series_open ON :"schema".series (open_user_id) WHERE open_user_id IS NOT NULL;

CREATE OR REPLACE FUNCTION :"schema".follow_user() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = :"schema", pg_temp AS $$
BEGIN
    IF TG_RELID <> 'users'::regclass::oid OR TG_OP <> 'UPDATE' THEN
        RAISE insufficient_privilege USING MESSAGE = 'follow_user is for updates of users alone';
    END IF;
    UPDATE series SET current_user_version = NEW.version WHERE open_user_id = NEW.id;
    RETURN NULL;
END
$$;

-- Names the columns that it needs of a series, so that further columns are no part of it.
CREATE OR REPLACE VIEW :"schema".processing_events AS
SELECT
    held.event_id AS id, s.user_id, s.event_type, s.occurrence_key, 'PROCESSING'::varchar(20) AS status, s.target_timestamp_utc,
    s.target_timestamp_local, s.target_timezone, s.policies, s.idempotency_key, s.delivery_payload, s.user_version,
    NULL::timestamptz AS available_at, l.token AS lease_token, NULL::timestamptz AS executed_at, NULL::varchar(1100) AS failure_reason,
    s.last_error, s.retry_count, s.claim_count + 1 AS claim_count, s.crash_count, s.version + 1 AS version, s.created_at,
    l.claimed_at AS updated_at
FROM :"schema".leases l
CROSS JOIN LATERAL unnest(l.series_ids, l.event_ids, l.versions) AS held (series_id, event_id, version)
CROSS JOIN LATERAL (
    SELECT
        x.user_id, x.event_type, x.occurrence_key, x.target_timestamp_utc, x.target_timestamp_local, x.target_timezone, x.policies,
        x.idempotency_key, x.delivery_payload, x.user_version, x.last_error, x.retry_count, x.claim_count, x.crash_count, x.version,
        x.created_at
    FROM :"schema".series x
    WHERE x.id = held.series_id
        AND x.event_id = held.event_id
        AND x.version = held.version
    OFFSET 0
) s;
