-- Store the first events of users whom this transaction has created, each in a series of its own. Parallel arrays, as in
-- insert_events.sql. No other transaction can see these users yet, so they have no series.
--   @ids uuid[] · @user_ids uuid[] · @types text[] · @names text[] (of the series) · @keys text[] · @due timestamptz[]
--   @wall timestamp[] · @zones text[] · @policies text[] · @idempotency_keys text[] · @payloads text[] (JSON) · @user_versions integer[]
-- Returns the events as stored. A key that belongs to another event is an error (keys_pkey).
WITH stored AS (
    INSERT INTO :"schema".series AS s (
        user_id, event_type, name, current_user_version, event_id, occurrence_key, target_timestamp_utc, target_timestamp_local,
        target_timezone, policies, idempotency_key, delivery_payload, user_version)
    SELECT
        n.user_id, n.event_type, n.name, 1, n.id, n.occurrence_key, n.due, n.wall,
        n.zone, n.policies, n.idempotency_key, n.payload::jsonb, n.user_version
    FROM unnest(
        @ids::uuid[], @user_ids::uuid[], @types::text[], @names::text[], @keys::text[], @due::timestamptz[], @wall::timestamp[],
        @zones::text[], @policies::text[], @idempotency_keys::text[], @payloads::text[], @user_versions::integer[]
    ) AS n (id, user_id, event_type, name, occurrence_key, due, wall, zone, policies, idempotency_key, payload, user_version)
    RETURNING s.id, s.event_id, s.event_type, s.target_timestamp_utc, s.idempotency_key, s.delivery_payload, s.created_at
), queued AS (
    INSERT INTO :"schema".queue (available_at, event_id, series_id, event_type, delayed_from)
    SELECT stored.target_timestamp_utc, stored.event_id, stored.id, stored.event_type, NULL
    FROM stored
), named AS (
    INSERT INTO :"schema".keys (idempotency_key)
    SELECT stored.idempotency_key
    FROM stored
)
SELECT stored.event_id, stored.delivery_payload::text, stored.created_at
FROM stored
