package mutations_test

// times are safeguards of clock changes, of recurrences, and of zone rules.
var times = []mutation{
	{
		promise: "forward by the gap: 03:30", in: readme,
		file: "calendar/resolve.go",
		old:  "r := readWith(w, c.Before, ShownNever)\n\tr.Offset = c.After", new: "r := readWith(w, c.After, ShownNever)\n\tr.Offset = c.Before",
		test: "calendar TestResolve$",
	},
	{
		promise: "`backward` · `boundary` (03:00) · `skip` · `reject`", in: readme,
		file: "calendar/resolve.go",
		old:  "r.Instant = c.At", new: "",
		test: "calendar TestResolveObeysPolicies",
	},
	{
		promise: "`backward` · `boundary` (03:00) · `skip` · `reject`", in: readme,
		file: "calendar/resolve.go",
		old:  "case GapSkip, GapReject:", new: "case GapReject:",
		test: "calendar TestResolveObeysPolicies",
	},
	{
		promise: "the first showing, once", in: readme,
		file: "calendar/resolve.go",
		old:  "offset := c.Before\n", new: "offset := c.After\n",
		test: "calendar TestResolve$",
	},
	{
		promise: "`second` · `reject`", in: readme,
		file: "calendar/resolve.go",
		old:  "case FoldReject:\n", new: "case \"none\":\n",
		test: "calendar TestResolveObeysPolicies",
	},
	{
		promise: "29 February in a common year", in: readme,
		file: "calendar/rules.go",
		old:  "slot.Wall.Date = Date{year, time.February, 28}", new: "slot.Wall.Date = Date{year, time.March, 1}",
		test: "calendar TestYearlyNext$",
	},
	{
		promise: "29 February in a common year", in: readme,
		file: "calendar/rules.go",
		old:  "case LeapDaySkip:\n\t\t\t\tcontinue", new: "case LeapDaySkip:",
		test: "calendar TestYearlyNext$",
	},
	{
		promise: "the 31st in a shorter month", in: readme,
		file: "calendar/rules.go",
		old:  "slot.Wall.Date.Day, slot.Named = days, named", new: "slot.Wall.Date.Day, slot.Named = days-1, named",
		test: "calendar TestMonthlyYieldsSlots",
	},
	{
		promise: "the 31st in a shorter month", in: readme,
		file: "calendar/rules.go",
		old:  "case m.Day > days && skip:\n\t\t\tcontinue", new: "case m.Day > days && skip && false:\n\t\t\tcontinue",
		test: "calendar TestMonthlyYieldsSlots",
	},
	{
		promise: "A program with older zone data never moves them back.", in: readme,
		file: "timezone.go",
		old:  "newer := trusted || mine.NewerThan(stored.ZoneRules)", new: "newer := true",
		test: ". TestReconcileNeverFollowsOlderRules$",
	},
	{
		promise: "pending events follow as soon as a program with newer zone data runs", in: readme,
		file: "timezone.go",
		old:  "moved = append(moved, e.movedTo(r.Instant, p.work.begun))", new: "moved = append(moved, e)",
		test: ". TestReconcileMovesTheEventsOfAZoneWhoseRulesChanged",
	},
	{
		promise: "pending events follow as soon as a program with newer zone data runs", in: readme,
		file: "run_maintenance.go",
		old:  "\t\tw.followZones(),\n", new: "",
		test: ". TestReconcileRunsAtTheStart",
	},
	{
		promise: "its instant stays once it is claimed", in: seeds,
		file: "timezone.go",
		old:  "if e.ClaimCount > 0 {\n\t\t\tcontinue", new: "if false {\n\t\t\tcontinue",
		test: ". TestReconcileLeavesClaimedEvents",
	},
	{
		promise: "the row is tried again, by new zone rules after an hour", in: reliability,
		file: "run_maintenance.go",
		old:  "reloaded != nil || err != nil && !isFinal(err) {", new: "reloaded != nil || err != nil {",
		test: ". TestAnEventThatCannotBeMovedIsTriedOnceAnHour",
	},
	{
		promise: "the row is tried again, by new zone rules after an hour", in: reliability,
		file: "run_maintenance.go",
		old:  "(f.refused != nil || !rules.Recheck.Before(book.Now))", new: "!rules.Recheck.Before(book.Now)",
		test: ". TestAnEventThatCannotBeMovedIsTriedOnceAnHour",
	},
}

// operations are safeguards of operators, of pruning and of the outbox.
var operations = []mutation{
	{
		promise: "Switching waits for transactions that write", in: operating,
		file: "postgres/audit.go",
		old:  "return yielding(ctx, tx, func(tx pgx.Tx) error {", new: "return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {",
		test: "postgres TestSwitchingTheTrailEndsInNoDeadlock",
	},
	{
		promise: "event: `canRetry` of a FAILED one", in: seeds,
		file: "event_operation.go",
		old:  "IdempotencyKey: e.IdempotencyKey, Payload", new: "IdempotencyKey: NewIdempotencyKey(id.String(), now, e.Type), Payload",
		test: ". TestRequeueDeliversAgainWithTheSameKey",
	},
	{
		promise: "FAILED with a reason, or was cancelled or removed on request", in: reliability,
		file: "postgres/queries/prune.sql",
		old:  "        AND h.updated_at < @before\n", new: "",
		test: "postgres TestPostgresRepository/^Prune$",
	},
	{
		promise: "FAILED with a reason, or was cancelled or removed on request", in: reliability,
		file: "postgres/queries/prune.sql",
		old:  "FOR UPDATE OF h SKIP LOCKED", new: "FOR UPDATE OF h",
		test: "postgres TestPruningSkipsLockedEvents",
	},
	{
		promise: "Every repeat carries the same idempotency key and the same body", in: readme,
		file: "postgres/queries/prune.sql",
		old:  "held.holders - count(*) AS holders", new: "0::bigint AS holders",
		test: "postgres TestAKeyIsKeptUntilItsLastEventIsRemoved",
	},
	{
		promise: "W3: `UserTimezoneChanged` and `UserBirthdayChanged`", in: seeds,
		file: "postgres/queries/read_outbox.sql",
		old:  "ORDER BY o.sequence\nLIMIT @limit", new: "ORDER BY o.sequence DESC\nLIMIT @limit",
		test: "postgres TestTheOutboxContainsEveryDomainEventInOrder",
	},
	{
		promise: "W3: `UserTimezoneChanged` and `UserBirthdayChanged`", in: seeds,
		file: "schema.sql",
		old:  "NEW.version, OLD.timezone, NEW.timezone);", new: "NEW.version, NEW.timezone, NEW.timezone);",
		test: "postgres TestAMoveNamesTheOldAndTheNewZone",
	},
	{
		promise: "no domain event is lost, each user's stay in order", in: reliability,
		file: "postgres/queries/read_outbox.sql",
		old:  "SELECT * FROM late UNION ALL SELECT * FROM fresh", new: "SELECT * FROM fresh",
		test: "postgres TestALateCommitIsReadAndDelaysNoOther",
	},
	{
		promise: "no domain event is lost, each user's stay in order", in: reliability,
		file: "postgres/queries/take_consumer.sql",
		old:  "\nFOR UPDATE", new: "",
		test: "postgres TestAConsumerReadsInOneCallAtATime",
	},
	{
		promise: "an update names the version that it replaces", in: seeds,
		file: "event_operation.go",
		old:  "from.Status != Pending || from.Version != to.Version-1 {", new: "from.Status != Pending {",
		test: "almanactest TestMemoryRepository/^EditUser$",
	},
	{
		promise: "an operator cancels and requeues events and pauses their type, while a worker dies", in: reliability,
		file: "postgres/queries/claim.sql",
		old:  "NOT (o.paused OR o.limited)", new: "NOT (o.limited)",
		test: "postgres TestPostgresRepository/^Pause$",
	},
}

// surroundings are safeguards of the HTTP API, of the dashboard, and of roles.
var surroundings = []mutation{
	{
		promise: "an HTTP API for users and events, an admin API", in: readme,
		file: "httpapi/auth.go",
		old:  "return challengeWrong, match == 1", new: "return challengeWrong, true",
		test: "httpapi TestOnlyAValidTokenIsLetIn",
	},
	{
		promise: "an HTTP API for users and events, an admin API", in: readme,
		file: "httpapi/auth.go",
		old:  "if err == nil && !may {\n\t\treturn refusal\n\t}", new: "_ = may",
		test: "httpapi TestRefusedUsersLookLikeMissingUsers",
	},
	{
		promise: "W1: `POST /user` validates its body", in: seeds,
		file: "httpapi/users.go",
		old:  `bad.add(field, "is required")`, new: "_ = field",
		test: "httpapi TestBadBodiesAreRefusedFieldByFieldAndStoreNothing",
	},
	{
		promise: "pages for operators", in: readme,
		file: "dashboard/server.go",
		old:  "if err := d.origins.Check(r.Request); err != nil {", new: "if err := error(nil); err != nil {",
		test: "dashboard TestChangesOfOtherOriginsAreRefused",
	},
	{
		promise: "pages for operators", in: readme,
		file: "dashboard/server.go",
		old:  "d.authenticate(r.Request); !ok {", new: "d.authenticate(r.Request); !ok && false {",
		test: "dashboard TestWithoutAuthenticationNothingIsShown",
	},
	{
		promise: "pages for operators", in: readme,
		file: "dashboard/server.go",
		old:  "case !may:\n", new: "case false:\n",
		test: "dashboard TestEachChangeNeedsItsPermission",
	},
	{
		promise: "W3: an unknown user is 404", in: seeds,
		file: "httpapi/problem.go",
		old:  "newProblem(http.StatusNotFound, fmt.Sprintf(\"there is no", new: "newProblem(http.StatusForbidden, fmt.Sprintf(\"there is no",
		test: "httpapi TestUnknownUsersAndPathsAreNotFound",
	},
	{
		promise: "a user's events as a calendar (iCalendar), to which calendar programs subscribe", in: readme,
		file: "icalendar/feed.go",
		old:  "almanac.And{almanac.ForUser(u.ID), types,", new: "almanac.And{types,",
		test: "icalendar TestCalendarHasNoEventOfOtherUsers",
	},
	{
		promise: "The reader sees no personal data", in: reliability,
		file: "docs/roles.sql",
		old:  "GRANT SELECT (timezone, deleted_at) ON users TO almanac_reader;", new: "GRANT SELECT (timezone, deleted_at, email) ON users TO almanac_reader;",
		test: "postgres TestTheReaderRoleReadsNothingPersonal",
	},
	{
		promise: "They also try operations that the role may not do, and are refused.", in: reliability,
		file: "docs/roles.sql",
		old:  "    GRANT SELECT, INSERT, DELETE ON history TO almanac_worker;", new: "    GRANT SELECT, INSERT, DELETE ON history TO almanac_worker, almanac_api;",
		test: "postgres TestEachRoleIsRefusedOtherStatements",
	},
	{
		promise: "Tests do each role's work through the library.", in: reliability,
		file: "schema.sql",
		old:  "greatest(created_at, updated_at, deleted_at)", new: "greatest(created_at, deleted_at)",
		test: "postgres TestTimesThatRolesWriteAreInYearsThatGoReads",
	},
	{
		promise: "or the server's queue of notifications is half full", in: operating,
		file: "postgres/queries/notify.sql",
		old:  "pg_notification_queue_usage() < 0.5::float8", new: "pg_notification_queue_usage() < 2::float8",
		test: "postgres TestNoHintIsSentWhileTheQueueOfNotificationsIsHalfFull",
	},
	{
		promise: "`Consume` returns `ErrOutboxRestored`", in: operating,
		file: "postgres/statements.go",
		old:  "const elsewhere = `c.server <> (SELECT s.system_identifier FROM pg_control_system() s)`", new: "const elsewhere = `false`",
		test: "postgres TestConsumersRefuseAPositionOfAnotherServer",
	},
	{
		promise: "nothing is pruned that a consumer may not have read", in: operating,
		file: "schema.sql",
		old:  "FROM page))\n        AND NOT EXISTS (\n            SELECT FROM outbox_consumers c\n            WHERE c.server <> (SELECT s.system_identifier FROM pg_control_system() s)\n                OR NOT",
		new:  "FROM page))\n        AND NOT EXISTS (\n            SELECT FROM outbox_consumers c\n            WHERE NOT",
		test: "postgres TestAPositionOfAnotherServerHasReadNothing",
	},
	{
		promise: "delivers the events of a type within half an hour after their wall time", in: handlers,
		file: "event.go",
		old:  "	e.ReadyAt = e.spreadStart(spreadOver(o.Occurrence, givenExecution(h).Spread))\n", new: "	e.ReadyAt = time.Time{}\n",
		test: ". TestSpreadEventsStartAtTheirPointOfTheWindow",
	},
	{
		promise: "Each series of a user has a point of the window, the same every year.", in: handlers,
		file: "timezone.go",
		old:  "e.ReadyAt = due.Add(e.ReadyAt.Sub(e.Due))", new: "e.ReadyAt = time.Time{}",
		test: ". TestChangesKeepTheSpreadOfAnEvent",
	},
	{
		promise: "lateness counts from that point", in: handlers,
		file: "postgres/queries/settle_ended.sql",
		old:  "ready_at = n.next_ready", new: "ready_at = NULL",
		test: "postgres TestPostgresRepository/^ReadyAt$",
	},
	{
		promise: "`Spread` alone delivers no event in quiet hours.", in: "docs/adr/0056-quiet-hours.md",
		file: "quiet_hours.go",
		old:  "late = !same.Equal(opens)", new: "late = late && !same.Equal(opens)",
		test: ". TestASpreadLeadsIntoNoQuietHours",
	},
	{
		promise: "Until their end, an edit leaves the event due", in: "docs/adr/0056-quiet-hours.md",
		file: "plan_edit.go",
		old:  "!r.Instant.After(e.Due) && r.Instant.After(p.Now) {", new: "!r.Instant.After(e.Due) {",
		test: ". TestAnEditInTheWindowLosesNoOccurrence",
	},
	{
		promise: "lateness counts from that point", in: handlers,
		file: "quiet_hours.go",
		old:  "now.Sub(later(j.event.Due, j.event.ReadyAt)) > s.grace", new: "now.Sub(j.event.Due) > s.grace",
		test: ". TestAPointOfAWindowInTheQuietHoursIsOnTime",
	},
}
