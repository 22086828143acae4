-- Let events that failed or were cancelled begin again, each in a series of its own, under its old occurrence key and idempotency
-- key. Parallel arrays, one element per event:
--   @ids uuid[] · @user_ids uuid[] · @types text[] · @names text[] (of the series) · @keys text[] · @due timestamptz[]
--   @wall timestamp[] · @zones text[] · @policies text[] · @idempotency_keys text[] · @payloads text[] (JSON) · @user_versions integer[]
--   @available timestamptz[] · @claims integer[] · @errors text[] · @requeued_from uuid[]
-- An event that was requeued before has such a series, and is left out.
WITH stored AS (
    INSERT INTO :"schema".series AS s (
        user_id, event_type, name, current_user_version, event_id, occurrence_key, target_timestamp_utc, target_timestamp_local,
        target_timezone, policies, idempotency_key, delivery_payload, user_version, claim_count, last_error, requeued_from)
    SELECT
        n.user_id, n.event_type, n.name,
        coalesce((SELECT u.version FROM :"schema".users u WHERE u.id = n.user_id), 0), n.id, n.occurrence_key, n.due, n.wall,
        n.zone, n.policies, n.idempotency_key, n.payload::jsonb, n.user_version, n.claim_count, n.last_error, n.requeued_from
    FROM unnest(
        @ids::uuid[], @user_ids::uuid[], @types::text[], @names::text[], @keys::text[], @due::timestamptz[], @wall::timestamp[],
        @zones::text[], @policies::text[], @idempotency_keys::text[], @payloads::text[], @user_versions::integer[], @claims::integer[],
        @errors::text[], @requeued_from::uuid[]
    ) AS n (id, user_id, event_type, name, occurrence_key, due, wall, zone, policies, idempotency_key, payload, user_version, claim_count,
        last_error, requeued_from)
    ON CONFLICT (user_id, event_type, name) DO NOTHING
    RETURNING s.id, s.event_id, s.event_type, s.target_timestamp_utc
)
INSERT INTO :"schema".queue (available_at, event_id, series_id, event_type, delayed_from)
SELECT n.available_at, stored.event_id, stored.id, stored.event_type,
    CASE WHEN n.available_at <> stored.target_timestamp_utc THEN stored.target_timestamp_utc END
FROM stored
JOIN unnest(@ids::uuid[], @available::timestamptz[]) AS n (id, available_at) ON n.id = stored.event_id
