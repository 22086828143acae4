package mutations_test

const broadcasting = "docs/broadcasts.md"

// broadcasts are safeguards of broadcasts beside other transactions and programs that die.
var broadcasts = []mutation{
	{
		promise: "It tries such users again", in: broadcasting,
		file: "postgres/queries/move_broadcast.sql",
		old:  "WHEN coalesce(b.missed, @missed::uuid) IS NOT NULL THEN clock_timestamp() + interval '10 seconds' END", new: "END",
		test: "postgres TestAResumeTriesTheEventsOfLockedUsersAgain",
	},
	{
		promise: "`Run` waits for no user whom another transaction has locked", in: broadcasting,
		file: "postgres/queries/lock_cancelled.sql",
		old:  "    FOR SHARE SKIP LOCKED", new: "    FOR SHARE",
		test: "postgres TestAResumeTriesTheEventsOfLockedUsersAgain",
	},
	{
		promise: "`Run` cancels the pending events, with the reason, before it works on other broadcasts", in: broadcasting,
		file: "postgres/queries/take_broadcast.sql",
		old:  "ORDER BY o.state <> 'stopped', ", new: "ORDER BY ",
		test: "postgres TestPostgresRepository/^Broadcasts$/^a_stop_comes_before_everything_else$",
	},
	{
		promise: "because beside an old transaction the index keeps all entries before", in: "docs/adr/0078-broadcasts.md",
		file: "postgres/queries/move_broadcast_cancel.sql",
		old:  "SET cancel_at = @at::timestamptz, cancel_id = @id::uuid", new: "SET cancel_at = coalesce(NULL, CASE WHEN false THEN @at::timestamptz END), cancel_id = CASE WHEN false THEN @id::uuid END",
		test: "postgres TestCancellingABroadcastIsFlatBesideAnOldTransaction",
	},
	{
		promise: "A row that the database refuses delays no other row", in: broadcasting,
		file: "postgres/broadcast_stop.go",
		old:  "inHalves(ids, cancel, func(uuid.UUID, error) error { return nil }); err != nil || moved", new: "cancel(ids); err != nil || moved",
		test: "postgres TestARefusedRowOfABroadcastDelaysNoOtherRow",
	},
	{
		promise: "counted in parts of 50,000", in: "docs/adr/0078-broadcasts.md",
		file: "postgres/queries/count_ended.sql",
		old:  "cancelled = CASE WHEN at.goes_on THEN coalesce(z.cancelled, 0::bigint) ELSE 0::bigint END", new: "cancelled = 0::bigint",
		test: "postgres TestABroadcastCountsItsEventsInParts",
	},
	{
		promise: "Ended events also count when they were pruned or their users", in: broadcasting,
		file: "postgres/queries/prune.sql",
		old:  "WHERE p.lane = p.event_type", new: "WHERE p.status = '' AND p.lane = p.event_type",
		test: "postgres TestPostgresRepository/^Broadcasts$/^users_who_are_deleted_and_events_that_are_pruned_still_count$",
	},
	{
		promise: "After a resume, those who have opted out are counted anew", in: broadcasting,
		file: "postgres/queries/move_broadcast_zone.sql",
		old:  "THEN z.now_opted_out ELSE", new: "THEN z.opted_out ELSE",
		test: "postgres TestPostgresRepository/^Broadcasts$/^a_resume_tries_users_again$",
	},
	{
		promise: "A row that the database refuses delays no other row", in: broadcasting,
		file: "postgres/queries/delay_broadcast.sql",
		old:  "clock_timestamp() + interval '10 seconds'", new: "clock_timestamp()",
		test: "postgres TestABroadcastThatCannotBeCountedDelaysNoOther",
	},
	{
		promise: "also for those who were refused or locked", in: broadcasting,
		file: "postgres/queries/set_broadcast_state.sql",
		old:  "AND @requeue::boolean AND z.reads > 0", new: "AND @requeue::boolean AND z.reads < 0",
		test: "postgres TestPostgresRepository/^Broadcasts$/^a_resume_tries_users_again$",
	},
	{
		promise: "They are not counted, and a stop pauses them without cancelling them", in: broadcasting,
		file: "postgres/queries/lock_pending_of_broadcast.sql",
		old:  " AND s.occurrence_key = @name::text", new: " AND @name::text IS NOT NULL",
		test: "postgres TestPostgresRepository/^Broadcasts$/^another_event_of_its_lane",
	},
}
