-- Read the open events of users, and lock those that are pending, of series that the transaction has locked. Events that a claim in
-- progress has locked are returned, and not locked: this statement waits for no lock.
--   @ids uuid[] (of the users)
-- Returns for each open event whether it is pending and locked, the used keys of its series as text (see usedText in statements.go; NULL
-- also for a requeued event), and the event. If it is not pending and locked, some columns of the event are wrong.
-- OFFSET 0 makes the planner look up the series user by user.
SELECT q.event_id IS NOT NULL, CASE WHEN s.origin IS DISTINCT FROM 'requeued' THEN :used END, :queued_event
FROM pg_catalog.unnest(@ids::uuid[]) AS n (id)
CROSS JOIN LATERAL (
    SELECT o.* FROM :"schema".series o WHERE o.open_user_id = n.id OFFSET 0
) s
LEFT JOIN LATERAL (
    SELECT x.event_id, x.available_at, x.consulted FROM :"schema".queue x WHERE x.event_id = s.event_id FOR UPDATE SKIP LOCKED
) q ON true
