-- Store what a dashboard shows of a program that has run for nine years: ten events of each user. Eight birthdays have ended, and one is
-- pending. Every second user waits for an anniversary, and the others had their last one. So a seventh of the events is pending.
-- One user of a thousand has a birthday that is overdue, and another one that is in flight.
-- The setting bench.users has the number of users. The statements need pg_temp.uuid7.
CREATE TEMPORARY TABLE people AS
SELECT n, pg_temp.uuid7(1450000000000 + n * 1000) AS user_id, zone, month, day, due, due_key
FROM generate_series(1, current_setting('bench.users')::bigint) n,
    -- Zones differ in size, and one has a user of a thousand.
    LATERAL (
        SELECT CASE WHEN n % 1000 = 0 THEN 'Pacific/Chatham' ELSE (ARRAY[
            'America/New_York', 'America/New_York', 'America/New_York', 'America/New_York', 'Europe/London', 'Europe/London', 'Asia/Tokyo',
            'Asia/Tokyo', 'Europe/Berlin', 'Europe/Berlin', 'America/Los_Angeles', 'America/Los_Angeles', 'Asia/Kolkata', 'Asia/Kolkata',
            'America/Sao_Paulo', 'Europe/Paris', 'Australia/Sydney', 'Africa/Lagos', 'UTC', 'Asia/Kathmandu'
        ])[1 + abs(hashint8(n)) % 20] END
    ) z (zone),
    -- Two users in a thousand are overdue: their date is one of the last two days. For other users it is any day of the year. 29 February becomes the 28th.
    LATERAL (
        SELECT CASE WHEN n % 1000 IN (7, 8) THEN current_date - 1 - (n / 1000 % 2)::integer ELSE date '2001-01-01' + (n * 104729 % 365)::integer END
    ) a (date),
    LATERAL (SELECT extract(month FROM date)::integer, least(CASE extract(month FROM date) WHEN 2 THEN 28 ELSE 31 END, extract(day FROM date)::integer)) d (month, day),
    LATERAL (SELECT extract(year FROM current_date)::integer) c (year),
    LATERAL (SELECT (make_date(year, month, day) + time '09:00') AT TIME ZONE zone) t (this_year),
    LATERAL (SELECT CASE WHEN n % 1000 IN (7, 8) OR this_year > now() THEN 0 ELSE 1 END) y (later),
    LATERAL (SELECT ((this_year AT TIME ZONE zone) + later * interval '1 year') AT TIME ZONE zone, year + later) o (due, due_key)
-- In the order in which events end.
ORDER BY due;

INSERT INTO almanac.users (id, first_name, last_name, date_of_birth, timezone, external_id, email, created_at,
    folded_name, folded_last_name, folded_email)
SELECT user_id, first_name, last_name, make_date((1950 + n % 50)::integer, month, day), zone, 'customer-' || n, email,
    to_timestamp(1450000000 + n), lower(first_name || ' ' || last_name), lower(last_name), email
FROM people,
    LATERAL (SELECT ARRAY['Ada', 'Alan', 'Barbara', 'Claude', 'Donald', 'Edsger', 'Frances', 'Grace', 'Hedy', 'Ivan', 'Jean', 'Katherine',
        'Leslie', 'Margaret', 'Niklaus', 'Radia', 'Stephen', 'Tony', 'Ursula', 'Whitfield'],
        ARRAY['Allen', 'Backus', 'Church', 'Dijkstra', 'Engelbart', 'Floyd', 'Goldberg', 'Hopper', 'Iverson', 'Johnson', 'Knuth',
        'Lovelace', 'McCarthy', 'Naur', 'Perlis', 'Ritchie', 'Shannon', 'Turing', 'Wirth', 'Zuse']) a (given, family),
    LATERAL (SELECT given[1 + n % 20], family[1 + n / 20 % 20] || '-' || family[1 + n / 400 % 20]) b (first_name, last_name),
    LATERAL (SELECT CASE WHEN n % 3 > 0 THEN 'user' || n || '@example.com' END) e (email);

-- Ended birthdays, year by year, and then the last anniversaries. One birthday in a hundred failed, and one in two hundred was
-- cancelled.
DO $$
BEGIN
    FOR ago IN REVERSE 8..0 LOOP
        INSERT INTO almanac.history (
            id, user_id, event_type, occurrence_key, status, target_timestamp_utc, target_timestamp_local, target_timezone, policies,
            idempotency_key, delivery_payload, user_version, lease_token, executed_at, failure_reason, retry_count, claim_count, crash_count,
            version, created_at, updated_at)
        SELECT pg_temp.uuid7((extract(epoch FROM ended - interval '1 year') * 1000)::bigint), user_id,
            CASE ago WHEN 0 THEN 'ANNIVERSARY' ELSE 'BIRTHDAY' END, due_key - greatest(ago, 1), kind, ended,
            ended AT TIME ZONE zone, zone, 'forward,first,feb28,clamp', 'event-' || left(md5(user_id::text || ago), 16),
            '{"message": "Hey, it''s your day"}', 1, user_id, CASE kind WHEN 'COMPLETED' THEN ended + interval '200 ms' END,
            CASE WHEN kind <> 'COMPLETED' THEN
                (ARRAY['HTTP 404', 'HTTP 410', 'HTTP 503: try again later', 'dial tcp: connection refused'])[1 + n % 4] END,
            0, 1, 0, 3, ended - interval '1 year', ended + interval '200 ms'
        FROM people,
            LATERAL (SELECT CASE ago WHEN 0 THEN interval '300 days' ELSE ago * interval '1 year' END) b (before),
            LATERAL (SELECT ((due AT TIME ZONE zone) - before) AT TIME ZONE zone) a (about),
            LATERAL (SELECT CASE ago WHEN 0 THEN least(about, now() - interval '1 day') ELSE about END) e (ended),
            LATERAL (SELECT (ARRAY['FAILED', 'FAILED', 'CANCELLED'])[1 + abs(hashint8(n * 10 + ago)) % 200]) u (unusual),
            LATERAL (SELECT CASE WHEN ago = 0 OR unusual IS NULL THEN 'COMPLETED' ELSE unusual END) k (kind)
        WHERE ago > 0 OR n % 2 = 1;
    END LOOP;
END $$;

INSERT INTO almanac.series (
    user_id, event_type, name, current_user_version, used_unit, used_key, used_nominal, used_local, event_id, occurrence_key, key_unit,
    target_timestamp_utc, target_timestamp_local, target_timezone, policies, idempotency_key, delivery_payload, user_version, created_at,
    updated_at)
SELECT user_id, kind, '', 1, 'year', (due_key - 1)::text, (at AT TIME ZONE zone) - interval '1 year', planned AT TIME ZONE zone,
    pg_temp.uuid7((extract(epoch FROM planned) * 1000)::bigint), due_key, 'year', at, at AT TIME ZONE zone, zone,
    'forward,first,feb28,clamp', 'event-' || left(md5(user_id::text || kind), 16), '{"message": "Hey"}', 1, planned, planned
FROM people,
    LATERAL (VALUES ('BIRTHDAY', due), ('ANNIVERSARY', ((due AT TIME ZONE zone) + interval '30 days') AT TIME ZONE zone)) p (kind, at),
    LATERAL (SELECT least(at - interval '1 year', now() - interval '1 day')) c (planned)
WHERE kind = 'BIRTHDAY' OR n % 2 = 0;

INSERT INTO almanac.leases (token, owner, series_ids, event_ids, versions, claimed_at, expires_at)
SELECT gen_random_uuid(), 'worker ' || n / 100000, array_agg(s.id), array_agg(s.event_id), array_agg(s.version),
    now(), now() + interval '1 day'
FROM people
JOIN almanac.series s ON s.user_id = people.user_id
WHERE n % 1000 = 8 AND s.event_type = 'BIRTHDAY'
GROUP BY n / 100000;

INSERT INTO almanac.queue (available_at, event_id, series_id, event_type, delayed_from)
SELECT target_timestamp_utc, event_id, id, event_type, NULL
FROM almanac.series
WHERE event_id NOT IN (SELECT id FROM almanac.processing_events);

INSERT INTO almanac.due_counts (timezone, quarter, event_type, n)
SELECT target_timezone, floor(extract(epoch FROM target_timestamp_utc) / 900)::integer, event_type, count(*)
FROM almanac.events
GROUP BY 1, 2, 3
ORDER BY 1, 2, 3;

INSERT INTO almanac.keys (idempotency_key) SELECT idempotency_key FROM almanac.events;

INSERT INTO almanac.lanes (name, paused_since) VALUES ('DIGEST', clock_timestamp())
