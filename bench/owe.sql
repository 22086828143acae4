-- Store users with a birthday each, as CreateUser stores them.
--   $1 integer (how many) · $2 timestamptz (when the first is due; NULL: all are overdue, for 2 to 300 days, in an order that is
--   not that of the users) · $3 interval (from one to the next)
WITH owed AS MATERIALIZED (
    SELECT pg_temp.uuid7(begun + n) AS user_id, pg_temp.uuid7(begun + n) AS id, 'Ada' AS first_name, 'Lovelace ' || n AS last_name,
        coalesce($2::timestamptz + n * $3::interval,
            date_trunc('day', now(), 'UTC') + interval '9 hours' - (2 + abs(hashint4(n) % 299)) * interval '1 day') AS due
    FROM generate_series(0, $1::integer - 1) n,
        LATERAL (SELECT (extract(epoch FROM now()) * 1000)::bigint - $1::integer) clock (begun)
), people AS (
    INSERT INTO almanac.users (id, first_name, last_name, date_of_birth, timezone, folded_name, folded_last_name)
    -- The years of 28 are those in which a 29 February comes again.
    SELECT user_id, first_name, last_name, (due AT TIME ZONE 'UTC' - interval '28 years')::date, 'UTC',
        lower(first_name || ' ' || last_name), lower(last_name)
    FROM owed
), series AS (
    INSERT INTO almanac.series (
        user_id, event_type, name, current_user_version, event_id, occurrence_key, key_unit, target_timestamp_utc, target_timestamp_local,
        target_timezone, policies, idempotency_key, delivery_payload, user_version)
    SELECT
        user_id, 'BIRTHDAY', '', 1, id, to_char(due AT TIME ZONE 'UTC', 'YYYY'), 'year', due, due AT TIME ZONE 'UTC',
        'UTC', 'forward,first,feb28,clamp',
        'event-' || left(encode(sha256(convert_to(
            user_id || '-' || to_char(due AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') || '-BIRTHDAY', 'UTF8')), 'hex'), 16),
        jsonb_build_object('message', 'Hey, ' || first_name || ' ' || last_name || ' it''s your birthday'), 1
    FROM owed
    RETURNING id, event_id, event_type, target_timestamp_utc, idempotency_key
), queued AS (
    INSERT INTO almanac.queue (available_at, event_id, series_id, event_type, delayed_from)
    SELECT target_timestamp_utc, event_id, id, event_type, NULL
    FROM series
)
INSERT INTO almanac.keys (idempotency_key)
SELECT idempotency_key FROM series
