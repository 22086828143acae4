-- Store a broadcast, unless its name is taken, or is the key of events of a broadcast that was deleted.
--   @name text · @type text · @payload text (JSON; NULL: the handler makes it) · @wall timestamp, @instant timestamptz (one is NULL)
--   @passed text · @attributes text (JSON; NULL: any) · @locale text · @zones text[] · @listed boolean · @newcomers boolean · @state text
-- Returns when it was created, or nothing. Waits for another transaction that stores the name.
INSERT INTO :"schema".broadcasts (name, event_type, payload, wall, instant, passed, attributes, locale, zones, listed, newcomers, state, look_at)
SELECT @name::text, @type::text, @payload::text::jsonb, @wall::timestamp, @instant::timestamptz, @passed::text, @attributes::text::jsonb, @locale::text,
    @zones::text[], @listed::boolean, @newcomers::boolean, @state::text, CASE WHEN @listed::boolean THEN NULL ELSE clock_timestamp() END
WHERE NOT EXISTS (
    SELECT FROM :"schema".ended_events h
    WHERE h.lane = @type::text || '/'::text || @name::text AND h.origin IN ('scheduled', 'requeued') AND h.of_broadcast
) AND NOT EXISTS (
    SELECT FROM :"schema".pending_events e
    WHERE e.event_type = @type::text AND e.lane = @type::text || '/'::text || @name::text AND e.of_broadcast
) AND NOT EXISTS (
    SELECT FROM :"schema".processing_events e
    WHERE e.event_type = @type::text AND e.lane = @type::text || '/'::text || @name::text AND e.of_broadcast
)
ON CONFLICT (name) DO NOTHING
RETURNING created_at
