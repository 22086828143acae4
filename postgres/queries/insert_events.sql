-- Store new events. Parallel arrays, one element per event:
--   @ids uuid[] · @user_ids uuid[] · @types text[] · @keys text[] · @due timestamptz[] · @wall timestamp[] · @zones text[]
--   @policies text[] · @short_keys text[] · @long_keys text[] · @payloads text[] (JSON) · @user_versions integer[]
-- An occurrence that is stored already is left alone and left out of the answer. An event whose short key belongs to
-- another occurrence, stored or in this very batch, takes its long one, and where that belongs to one that was born for the
-- same occurrence and has moved away since, the digits of its id. Stored keys are looked up by an array whose length the planner
-- does not know: from a list it would read the whole table.
-- Returns the rows. Each takes a FOR KEY SHARE lock on its user (the foreign key).
INSERT INTO :"schema".events AS e (
    id, user_id, event_type, occurrence_key, target_timestamp_utc, target_timestamp_local, target_timezone,
    policies, idempotency_key, delivery_payload, user_version, available_at)
SELECT
    n.id, n.user_id, n.event_type, n.occurrence_key, n.due, n.wall, n.zone,
    n.policies,
    CASE
        WHEN row_number() OVER (PARTITION BY n.short_key ORDER BY n.id) = 1
            AND n.short_key NOT IN (
                SELECT t.idempotency_key
                FROM :"schema".events t
                WHERE t.idempotency_key = ANY (ARRAY (SELECT unnest(@short_keys::text[]))))
        THEN n.short_key
        WHEN n.long_key NOT IN (
            SELECT t.idempotency_key
            FROM :"schema".events t
            WHERE t.idempotency_key = ANY (ARRAY (SELECT unnest(@long_keys::text[]))))
        THEN n.long_key
        ELSE 'event-' || replace(n.id::text, '-', '')
    END,
    n.payload::jsonb, n.user_version, n.due
FROM unnest(
    @ids::uuid[], @user_ids::uuid[], @types::text[], @keys::text[], @due::timestamptz[], @wall::timestamp[], @zones::text[],
    @policies::text[], @short_keys::text[], @long_keys::text[], @payloads::text[], @user_versions::integer[]
) AS n (id, user_id, event_type, occurrence_key, due, wall, zone, policies, short_key, long_key, payload, user_version)
ON CONFLICT (user_id, event_type, occurrence_key) DO NOTHING
RETURNING :event
