-- Give pending events another target. Parallel arrays, one element per event:
--   @ids uuid[] · @versions integer[] (the versions after) · @keys text[] · @due timestamptz[] · @wall timestamp[] · @zones text[]
--   @policies text[] · @payloads text[] (JSON) · @user_versions integer[]
-- Returns the rows that were at the version before, PENDING and never claimed; the idempotency key stays.
UPDATE :"schema".events e
SET occurrence_key = n.occurrence_key,
    target_timestamp_utc = n.due,
    target_timestamp_local = n.wall,
    target_timezone = n.zone,
    policies = n.policies,
    delivery_payload = n.payload::jsonb,
    user_version = n.user_version,
    available_at = n.due,
    version = e.version + 1,
    updated_at = clock_timestamp()
FROM unnest(
    @ids::uuid[], @versions::integer[], @keys::text[], @due::timestamptz[], @wall::timestamp[], @zones::text[],
    @policies::text[], @payloads::text[], @user_versions::integer[]
) AS n (id, version, occurrence_key, due, wall, zone, policies, payload, user_version)
WHERE e.id = n.id
    AND e.version = n.version - 1
    AND e.status = 'PENDING'
    AND e.claim_count = 0
RETURNING :event
