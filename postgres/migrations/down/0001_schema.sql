-- Drops everything but the PostgreSQL schema, which may be older than Almanac. Queue, leases and counts follow from the events. Zone rules,
-- calendars and settings are stored again by the next program that runs.
-- Loses users
-- Loses series
-- Loses history
-- Loses keys
-- Loses quarantine
-- Loses lanes
-- Loses broadcasts
-- Loses broadcast_zones
-- Loses broadcast_users
-- Loses broadcast_removed
-- Loses broadcast_steps
-- Loses unplanned
-- Loses audit
-- Loses outbox
-- Loses outbox_consumers
DROP VIEW :"schema".events, :"schema".pending_events, :"schema".processing_events, :"schema".ended_events;
DROP TABLE :"schema".broadcast_users, :"schema".broadcast_removed, :"schema".broadcast_steps, :"schema".broadcast_zones, :"schema".broadcasts, :"schema".migrations, :"schema".users, :"schema".series, :"schema".queue, :"schema".history, :"schema".unplanned,
    :"schema".keys, :"schema".pruning, :"schema".leases, :"schema".zone_rules, :"schema".zone_marks, :"schema".calendars, :"schema".quarantine, :"schema".lanes,
    :"schema".lane_states, :"schema".lane_clock, :"schema".visits, :"schema".audit,
    :"schema".outbox, :"schema".outbox_consumers, :"schema".due_counts, :"schema".due_changes, :"schema".settings;
DROP FUNCTION :"schema".refuse_change(), :"schema".follow_user(), :"schema".forget_user(), :"schema".write_audit(),
    :"schema".write_outbox(), :"schema".prune_outbox(integer), :"schema".delete_consumer(text),
    :"schema".visit_lane(), :"schema".pause_failing(text, text),
    :"schema".claim_lanes(uuid, text, text, text, text[], bigint, interval, interval, timestamptz, timestamptz, timestamptz, boolean, bigint, timestamptz),
    :"schema".step_lane(text, timestamptz, timestamptz, bigint, timestamptz, timestamptz, bigint[], uuid[], integer[], timestamptz[]),
    :"schema".lane_room(text, timestamptz, timestamptz, bigint);
