-- Claim events of lanes that have limits or names, and lease them as one batch: see the function claim_lanes in schema.sql.
--   @token uuid · @owner text · @program text · @zone_data text ('' if unknown) · @types text[] · @limit bigint · @lease interval
--   @ahead interval · @earliest, @latest, @known timestamptz (NULL if unknown) · @certain boolean · @looks bigint · @from timestamptz (NULL if
--   unknown) · @mark timestamptz, @reached timestamptz[] (as in claim.sql)
-- Also returns whether events are due that claim.sql may claim.
SELECT c.removed, c.claimed, c.has_places, c.has_breaker, c.read_at, c.left_from, c.emptied_at, c.is_late, EXISTS (
        SELECT
        FROM unnest(@types::text[], @reached::timestamptz[]) AS t (name, reached)
        LEFT JOIN :"schema".lanes l ON l.name = t.name
        CROSS JOIN LATERAL (SELECT CASE WHEN f.since > '-infinity' THEN greatest(f.since, t.reached) ELSE f.since END AS since FROM (SELECT :since AS since) f) f
        CROSS JOIN LATERAL (
            SELECT
            FROM :"schema".queue q
            WHERE q.event_type = t.name AND q.lane = '' AND q.available_at <= now() + @ahead::interval AND q.available_at >= f.since
            ORDER BY q.available_at, q.event_id
            LIMIT 1
        ) q
        WHERE NOT (:paused OR :limited)
    )
FROM :"schema".claim_lanes(@token, @owner, @program, @zone_data, @types, @limit, @lease, @ahead, @earliest, @latest, @known, @certain, @looks, @from) c
