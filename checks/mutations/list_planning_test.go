package mutations_test

// planning are safeguards of events, of their states, and of what is planned for a user.
var planning = []mutation{
	{
		promise: "so no user is greeted twice for one year", in: readme,
		file: "series.go",
		old:  "return o.Key <= k.Key", new: "return false && o.Key <= k.Key",
		test: ". TestUpdateUserNeverGreetsTwiceInAYear",
	},
	{
		promise: "key: `event-` and 16 digits of SHA-256", in: seeds,
		file: "idempotency.go",
		old:  "hashKey(16,", new: "hashKey(17,",
		test: ". TestNewIdempotencyKeyGivesKnownAnswers",
	},
	{
		promise: "key: other inputs, another key", in: seeds,
		file: "idempotency.go",
		old:  "due, eventType, occurrenceKey)", new: "due, eventType)",
		test: ". TestNewLongIdempotencyKeyDiffersByOccurrence",
	},
	{
		promise: "its instant stays once it is claimed", in: seeds,
		file: "event.go",
		old:  "if e.Status != Pending || e.ClaimCount > 0 {\n\t\treturn e, &InvalidStateTransitionError{e.ID, e.Status, Pending}\n\t}\n\tnext := e\n\tif err := next.plan(", new: "next := e\n\tif err := next.plan(",
		test: ". TestReschedule",
	},
	{
		promise: "key: never changes, stored, unique", in: seeds,
		file: "event.go",
		old:  "if err := next.plan(&u, h, &o); err != nil {\n\t\treturn e, err\n\t}\n", new: "if err := next.plan(&u, h, &o); err != nil {\n\t\treturn e, err\n\t}\n\tnext.IdempotencyKey = NewIdempotencyKey(u.ID.String(), next.Due, next.Type)\n",
		test: ". TestReschedule",
	},
	{
		promise: "`version` rises with every update", in: seeds,
		file: "event.go",
		old:  "calendar.Consulted{}\n\te.Version++", new: "calendar.Consulted{}",
		test: ". TestTransitions",
	},
	{
		promise: "event: nothing else", in: seeds,
		file: "event.go",
		old:  "return to == Processing || to == Cancelled\n", new: "return to == Processing || to == Cancelled || to == Completed\n",
		test: ". TestStatusCanBecome",
	},
	{
		promise: "event: a terminal one never changes", in: seeds,
		file: "event.go",
		old:  "to == Cancelled || to == Pending\n\t}\n\treturn false", new: "to == Cancelled || to == Pending\n\t}\n\treturn to == Pending",
		test: ". TestStatusCanBecome",
	},
	{
		promise: "`markFailed` counts the attempt", in: seeds,
		file: "event.go",
		old:  "next.FailureReason = storable(reason)\n\tnext.RetryCount++", new: "next.FailureReason = storable(reason)",
		test: ". TestTransitionsRecordWhatHappened",
	},
	{
		promise: "event: `executedAt` when it was executed", in: seeds,
		file: "event.go",
		old:  "next.ExecutedAt = at.UTC()", new: "_ = at",
		test: ". TestTransitionsRecordWhatHappened",
	},
	{
		promise: "two handlers of one type are refused", in: seeds,
		file: "handler.go",
		old:  "if _, taken := r[eventType]; taken {", new: "if _, taken := r[eventType]; taken && false {",
		test: ". TestNewRegistryRefuses",
	},
	{
		promise: "an unknown type is `UnsupportedEventTypeError`", in: seeds,
		file: "handler.go",
		old:  "return nil, &UnsupportedEventTypeError{eventType}", new: "return nil, errors.New(eventType)",
		test: ". TestRegistryFindsHandlers",
	},
	{
		promise: "birthday: 09:00 where the user lives", in: seeds,
		file: "handler_announce.go",
		old:  "return calendar.Clock{Hour: 9}", new: "return calendar.Clock{Hour: 10}",
		test: ". TestBirthdayGreetsAtNineInTheUsersZone",
	},
	{
		promise: `birthday: the text "Hey, John Doe it's your birthday"`, in: seeds,
		file: "handler_birthday.go",
		old:  `"it's your birthday"`, new: `"it is your birthday"`,
		test: ". TestBirthdayByDefault",
	},
	{
		promise: "user: no birth in the future, at creation and edit", in: seeds,
		file: "user.go",
		old:  "if bornWell && ", new: "if false && bornWell && ",
		test: ". TestNewUserChecksTheDateOfBirthInTheUsersZone",
	},
	{
		promise: "an update names the version that it replaces", in: seeds,
		file: "user.go",
		old:  "if version != 0 && version != u.Version {", new: "if false {",
		test: ". TestUpdateUserChecksTheVersion",
	},
	{
		promise: "W3: only PENDING events move", in: seeds,
		file: "postgres/queries/lock_pending.sql",
		old:  " AND s.claim_count = 0", new: "",
		test: "postgres TestPostgresRepository/^EditUser$",
	},
	{
		promise: "its instant stays once it is claimed", in: seeds,
		file: "event_operation.go",
		old:  "rescheduled := stays && from.ClaimCount == 0", new: "rescheduled := stays",
		test: ". TestCheckChange",
	},
	{
		promise: "W3: only PENDING events move", in: seeds,
		file: "event_operation.go",
		old:  " || from.ClaimCount > 0 {", new: " {",
		test: "almanactest TestMemoryRepository/^EditUser$",
	},
	{
		promise: "an edit locks the user and replans", in: reliability,
		file: "postgres/queries/lock_user.sql",
		old:  "\nFOR NO KEY UPDATE", new: "",
		test: "postgres TestAnEditWaitsForTheSuccessorThatItMustMove",
	},
	{
		promise: "one flow for each execution: validate, do, after", in: seeds,
		file: "run_work.go",
		old:  "range slices.Backward(s.middleware) {", new: "range slices.All(s.middleware) {",
		test: ". TestMiddlewareWrapsEveryDelivery",
	},
	{
		promise: "a host adds checks of its own", in: seeds,
		file: "run_lane.go",
		old:  "append(checks, s.checks...)", new: "checks",
		test: ". TestRunAppliesTheHostsChecks",
	},
	{
		promise: "check: fewer than three retries", in: seeds,
		file: "run_lane.go",
		old:  ", AttemptsLeft(x.RetryPolicy.Attempts)}", new: "}",
		test: ". TestRunChecksStatusAndAttemptsAgain",
	},
	{
		promise: "check: the status", in: seeds,
		file: "run_lane.go",
		old:  "Checks{HasStatus(Processing), ", new: "Checks{",
		test: ". TestRunChecksStatusAndAttemptsAgain",
	},
	{
		promise: "all refusals can be had at once", in: seeds,
		file: "validate.go",
		old:  "errs = append(errs, check(e, now))", new: "if errs == nil {\n\t\t\terrs = append(errs, check(e, now))\n\t\t}",
		test: ". TestChecksAreCalledInOrder",
	},
	{
		promise: "`findBySpecification` of any combination", in: seeds,
		file: "postgres/spec.go",
		old:  `return "NOT " + r.render(spec.Spec)`, new: `return r.render(spec.Spec)`,
		test: "postgres TestPostgresRepository/^Spec$",
	},
	{
		promise: "specification: ready", in: seeds,
		file: "postgres/spec.go",
		old:  `"(e.available_at <= now() AND `, new: `"(e.target_timestamp_utc <= now() AND `,
		test: "postgres TestPostgresRepository/^Spec$",
	},
}

// edits are safeguards of opt-outs and of quiet hours.
var edits = []mutation{
	{
		promise: "Workers check opt-outs before each attempt, so an opt-out also holds for events that other programs have planned.", in: handlers,
		file: "run_work.go",
		old:  `if !j.event.Origin.Forced && unwantedThen(j.route.handler, j.user, j.event, j.clock.now()) {`, new: "if false {",
		test: "almanactest TestMemoryRepository/^OptOut$",
	},
	{
		promise: "So meanwhile the only edits that can be stored are opt-outs", in: reliability,
		file: "plan_edit.go",
		old:  "if len(c.OptIn)+len(c.OptOut) == 0 || ", new: "if len(types) > 0 || ",
		test: ". TestAnOptOutIsStoredWhateverHandlersDo",
	},
	{
		promise: "So an opt-out of a channel ends the event at delivery, as CANCELLED, and the series goes on.", in: handlers,
		file: "run_work.go",
		old:  "if !d.Event.Origin.Forced && d.User.refuses(d.Event, channel, d.At) && !givenExecution(h).OverrideOptOuts {", new: "if false {",
		test: "almanactest TestMemoryRepository/^OptOut$",
	},
	{
		promise: "delivers the type to users who have opted out too, as for notices that the law requires", in: handlers,
		file: "user_opt_out.go",
		old:  `return u.refuses(e, "", now) && !givenExecution(h).OverrideOptOuts`, new: `return u.refuses(e, "", now)`,
		test: "almanactest TestMemoryRepository/^OptOut$",
	},
	{
		promise: "first event on or after the day is planned at once", in: handlers,
		file: "user_opt_out.go",
		old:  "return later(after, begins.Instant.Add(-time.Second))", new: "return after",
		test: "almanactest TestMemoryRepository/^OptOut$",
	},
	{
		promise: "What lies before it is not delivered, also not later.", in: handlers,
		file: "user_opt_out.go",
		old:  "o.covers(day, u.Timezone) ||", new: "",
		test: "almanactest TestMemoryRepository/^OptOut$",
	},
	{
		promise: "ten users opt out while a worker stands still at each point, and three opt in again", in: reliability,
		file: "user_opt_out.go",
		old:  "done, err := e.Cancel(ReasonOptedOut)\n\t\tif err != nil {\n\t\t\treturn nil, err\n\t\t}\n\t\tevents = append(events, done)", new: "",
		test: "almanactest TestMemoryRepository/^OptOut$",
	},
	{
		promise: "In the quiet hours of the user's present zone a late event is postponed to their end, and no attempt is counted.", in: handlers,
		file: "quiet_hours.go",
		old:  "late := j.event.RetryCount > 0 || j.of.asked.IsZero() && now.Sub(later(j.event.Due, j.event.ReadyAt)) > s.grace", new: "late := false",
		test: ". TestQuietHoursHoldLateEventsOnly",
	},
	{
		promise: "delivered: a user who chose 06:00 gets the event at 06:00", in: handlers,
		file: "quiet_hours.go",
		old:  "late := j.event.RetryCount > 0 || j.of.asked.IsZero() && now.Sub(later(j.event.Due, j.event.ReadyAt)) > s.grace", new: "late := true",
		test: ". TestQuietHoursHoldLateEventsOnly",
	},
}

// usedDays are safeguards of what counts as used after a changed rule.
var usedDays = []mutation{
	{
		promise: "it is the same birthday until 176 days after the last one", in: handlers,
		file: "series.go",
		old:  "<= halfYear\n", new: "<= 0\n",
		test: ". TestAChangeOfTheRulePlansWhatTheUserIsStillOwed",
	},
	{
		promise: "later ones are delivered", in: handlers,
		file: "series.go",
		old:  "const halfYear = 353 / 2", new: "const halfYear = 366 / 2",
		test: "contrib/calendars TestAnotherCalendarGreetsNobodyTwiceAndLeavesOneOut",
	},
	{
		promise: "Which occurrences the new rule still delivers depends on the unit of its keys", in: handlers,
		file: "plan.go",
		old:  "done.UsedBefore.With(done.Uses(u, now))", new: "UsedKeys(nil).With(done.Uses(u, now))",
		test: ". TestASuccessorKnowsTheUsedKeysOfEachUnit",
	},
	{
		promise: "Which occurrences the new rule still delivers depends on the unit of its keys", in: handlers,
		file: "plan.go",
		old:  "next.OccurrenceKey != e.OccurrenceKey || next.KeyUnit != e.KeyUnit", new: "next.OccurrenceKey != e.OccurrenceKey",
		test: ". TestTheSameTextOfAnotherUnitIsAnotherOccurrence",
	},
	{
		promise: "the rest of the day is delivered, after the last event", in: handlers,
		file: "series.go",
		old:  "return !k.Nominal.Before(nominal) && !k.Ended.Before(nominal)", new: "return !k.Ended.Before(nominal)",
		test: ". TestAFinerRuleContinuesAfterTheOccurrenceThatWasLate",
	},
	{
		promise: "the rest of the day is delivered, after the last event", in: handlers,
		file: "series.go",
		old:  "return !k.Nominal.Before(nominal) && !k.Ended.Before(nominal)", new: "return !k.Nominal.Before(nominal)",
		test: ". TestAChangeOfTheRulePlansWhatTheUserIsStillOwed",
	},
	{
		promise: "the day that had its event has no second one; the next day is free", in: handlers,
		file: "series.go",
		old:  "return nominalOf(o).Date == k.Ended.Date || o.Wall.Date == k.Ended.Date", new: "return false",
		test: ". TestAChangeOfTheRulePlansWhatTheUserIsStillOwed",
	},
	{
		promise: "Only keys of one unit are compared.", in: handlers,
		file: "series.go",
		old:  "case k.Unit == o.Unit:\n", new: "case true:\n",
		test: ". TestAChangeOfTheRulePlansWhatTheUserIsStillOwed",
	},
	{
		promise: "Only keys of one unit are compared.", in: handlers,
		file: "schema.sql",
		old:  "NEW.used_key = OLD.used_key AND NEW.used_unit = OLD.used_unit THEN", new: "NEW.used_key = OLD.used_key THEN",
		test: "postgres TestTheTrailTellsKeysOfOtherUnitsApart",
	},
	{
		promise: "Only keys of one unit are compared.", in: handlers,
		file: "postgres/migrate_examine.go",
		old:  "new.used_key = old.used_key AND new.used_unit = old.used_unit", new: "new.used_key = old.used_key",
		test: "postgres TestTheTrailAndTheOutboxKnowTheUnitOfAKey",
	},
	{
		promise: "An edit waits for a call until the edit's context is done, but at most five seconds.", in: handlers,
		file: "series.go",
		old:  "Context: g.ctx,", new: "Context: context.Background(),",
		test: ". TestNoOperationWaitsForAHandlerThatIsBlocked",
	},
	{
		promise: "An edit waits for a call until the edit's context is done, but at most five seconds.", in: handlers,
		file: "quiet_hours.go",
		old:  "window, err := guarded(g, ", new: "window, err := guarded(unbound(), ",
		test: ". TestNoOperationWaitsForAHandlerThatIsBlocked",
	},
	{
		promise: "is not made again for that user", in: handlers,
		file: "series.go",
		old:  "Type: eventType, User: g.user}", new: "Type: eventType}",
		test: ". TestNoOperationWaitsForAHandlerThatIsBlocked",
	},
	{
		promise: "is not made again for that user", in: handlers,
		file: "scheduler_backfill.go",
		old:  "p.blocked[id], err = failure, failure", new: "err = failure",
		test: ". TestBackfillEndsThoughTheHandlerIsSlow",
	},
	{
		promise: "The earlier occurrence is planned instead.", in: "docs/adr/0007-edits.md",
		file: "plan.go",
		old:  "return err == nil && first.KeyUnit == e.KeyUnit && first.OccurrenceKey < e.OccurrenceKey", new: "return err != nil && first.Type == \"\" && false",
		test: ". TestAnEditLeavesWhatAPreviewShows",
	},
	{
		promise: "it searches again from up to 375 days before, until such a\n// search fails", in: "plan.go",
		file: "plan.go",
		old:  "if failed != nil {\n\t\t\tbreak\n\t\t}", new: "if failed != nil {\n\t\t\terr = failed\n\t\t\tbreak\n\t\t}",
		test: ". TestARejectedTimeOfWeeksAgoRefusesNoEdit",
	},
	{
		promise: "A `declared` zone stays until another one is declared or it is withdrawn.", in: "docs/adr/0074-uncertain-zones.md",
		file: "validate.go",
		old:  "declared := u.ZoneSource == ZoneDeclared || u.ZoneSource == \"\" && !u.Timezone.IsZero()", new: "declared := false",
		test: ". TestAZoneNeverGivesWayToAWorseSource",
	},
	{
		promise: "Without a guess, the zone and its source stay.", in: "docs/adr/0074-uncertain-zones.md",
		file: "validate.go",
		old:  "\tcase !u.Timezone.IsZero():\n\tcase rules.fallback", new: "\tcase rules.fallback",
		test: ". TestABetterSourceReplacesTheZone",
	},
	{
		promise: "profile without a zone is refused, as the seeds say.", in: "docs/adr/0074-uncertain-zones.md",
		file: "httpapi/users.go",
		old:  "!a.zoneless && empty(c.Timezone) || ", new: "",
		test: "httpapi TestTheAPIRequiresNamesAndADateOfBirthByDefault",
	},
	{
		promise: "worst off is the least outside.", in: "docs/clocks.md",
		file: "calendar/shared_time.go",
		old:  "ending[len(ending)-1].at)/2", new: "ending[len(ending)-1].at)/4",
		test: "calendar TestATimeForAWholeCountry",
	},
}
