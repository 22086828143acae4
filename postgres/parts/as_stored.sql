-- The end of the statements that store new events in series: :as_stored.
RETURNING s.id, s.event_id, s.event_type, s.target_timestamp_utc, s.target_timezone, s.idempotency_key, s.delivery_payload, s.created_at, s.lane,
        greatest(s.target_timestamp_utc, s.ready_at, CASE WHEN s.detached <> '' THEN s.created_at END) AS available_at
), queued AS (
    INSERT INTO :"schema".queue (available_at, event_id, series_id, event_type, delayed_from, lane, consulted)
    SELECT stored.available_at, stored.event_id, stored.id, stored.event_type,
        CASE WHEN stored.available_at <> stored.target_timestamp_utc THEN stored.target_timestamp_utc END, stored.lane, c.consulted
    FROM stored
    LEFT JOIN unnest(@consulting::uuid[], @consulted::text[]) AS c (event_id, consulted) ON c.event_id = stored.event_id
), named AS (
    INSERT INTO :"schema".keys (idempotency_key)
    SELECT stored.idempotency_key FROM stored
), counted AS (
    INSERT INTO :"schema".due_changes (timezone, quarter, event_type, n)
    SELECT s.target_timezone, :quarter_of_s, s.event_type, count(*)
    FROM stored s
    GROUP BY 1, 2, 3
)
SELECT stored.event_id, stored.delivery_payload::text, stored.created_at FROM stored
