package mutations_test

// lanes are safeguards of limits, of receivers that fail, and of batches.
var lanes = []mutation{
	{
		promise: "they hold over all processes together", in: operating,
		file: "schema.sql",
		old:  "AND n.step = s.step FOR UPDATE SKIP LOCKED;", new: "AND n.step = s.step;",
		test: "postgres TestARateHoldsAmongConcurrentClaims",
	},
	{
		promise: "they hold over all processes together", in: operating,
		file: "schema.sql",
		old:  ")) + ceil(taken / l.rate * 1000000) * interval '1 microsecond';", new: "));",
		test: "postgres TestARateHoldsAmongConcurrentClaims",
	},
	{
		promise: "lanes begin without tokens", in: operating,
		file: "schema.sql",
		old:  "CASE WHEN emptied >= s.at THEN emptied + refill END", new: "NULL",
		test: "chaos TestARateHoldsWhenTheClockIsSet",
	},
	{
		promise: "share its room by weight", in: operating,
		file: "schema.sql",
		old:  "ORDER BY n.pass + (n.nth - 1) / n.weight::float8, ", new: "ORDER BY ",
		test: "postgres TestPostgresRepository/^Lanes$",
	},
	{
		promise: "one of each 100 that start", in: operating,
		file: "schema.sql",
		old:  "r.pass + of_lane.n / r.weight::float8", new: "r.pass + of_lane.n",
		test: "postgres TestPostgresRepository/^Lanes$",
	},
	{
		promise: "types without limits take turns", in: operating,
		file: "postgres/queries/claim.sql",
		old:  "ORDER BY pg_catalog.random()", new: "ORDER BY live.name",
		test: "postgres TestPostgresRepository/^Claim$",
	},
	{
		promise: "types without limits take turns", in: operating,
		file: "postgres/queries/claim.sql",
		old:  "SELECT min(least(filled.since, now())) FROM filled", new: "SELECT max(least(due.available_at, now())) FROM due",
		test: "postgres TestTypesInTurnLeaveNoEventBehindTheMark",
	},
	{
		promise: "All processes share the *breaker*", in: operating,
		file: "schema.sql",
		old:  "places := least(l.places, s.allowed);", new: "places := l.places;",
		test: "postgres TestPostgresRepository/^Breakers$",
	},
	{
		promise: "when the last five events have failed", in: operating,
		file: "breaker.go",
		old:  "return inRow || lately >= leastAnswers", new: "return lately >= leastAnswers",
		test: ". TestABreakerOpensAfterFailures",
	},
	{
		promise: "Each event counts once", in: operating,
		file: "breaker.go",
		old:  "func(was Answer) bool { return was.EventID == a.EventID }", new: "func(Answer) bool { return false }",
		test: ". TestABreakerOpensAfterFailures",
	},
	{
		promise: "no failed attempt while it is open", in: operating,
		file: "breaker.go",
		old:  "if is.Allowed == 1 && was.Allowed < 2 && j.answer.Failed {", new: "if false && j.answer.Failed {",
		test: ". TestAnOutageOfAReceiverUsesUpNoAttempts",
	},
	{
		promise: "the first try that fails after a day pauses the lane", in: operating,
		file: "breaker.go",
		old:  "now.Sub(b.OpenedAt) >= after {", new: "now.Sub(b.OpenedAt) < 0 {",
		test: ". TestALongOutagePausesTheLane",
	},
	{
		promise: "A lane that an operator has paused keeps that pause", in: operating,
		file: "schema.sql",
		old:  "WHERE l.paused_since IS NULL OR l.paused_until <= now();\n    RETURN FOUND;", new: "WHERE true;\n    RETURN FOUND;",
		test: "postgres TestPostgresRepository/^Breakers$",
	},
	{
		promise: "two events may be in flight, then 4, and so on up to 64", in: operating,
		file: "breaker.go",
		old:  "case succeeded < b.Allowed && now.Sub(b.RetryAt) < longestAllowed:", new: "case false:",
		test: ". TestABreakerClosesInSteps",
	},
	{
		promise: "when they are claimed for the first time, without an attempt", in: handlers,
		file: "run_work.go",
		old:  "if lane := j.laneSince(); lane != \"\" {", new: "if lane := j.laneSince(); false {",
		test: ". TestAnEventMovesToTheLaneThatItsHandlerNamesSince",
	},
	{
		promise: "Each event keeps its attempts, its key and its outcome", in: handlers,
		file: "batch.go",
		old:  "return call.errs[i]", new: "return call.errs[i*0]",
		test: ". TestEachEventOfABatchHasItsOutcome",
	},
	{
		promise: "Each event keeps its attempts, its key and its outcome", in: handlers,
		file: "webhook/batch.go",
		old:  "if refused && len(of) > 1 {", new: "if refused && false {",
		test: "webhook TestAPoisonousEventOfABatchFailsAlone",
	},
	{
		promise: "If the tenant has moved to another lane, the event moves, too", in: handlers,
		file: "webhook/receivers.go",
		old:  "return nil, almanac.InLane(f.lane)", new: "return nil, errors.New(\"moved\")",
		test: "webhook TestAReceiverMovesItsEventsToItsLane",
	},
	{
		promise: "It is an estimate from the rate, the share of another lane", in: operating,
		file: "ops/lanes.go",
		old:  "return later(is, in.start(max(place, n), now))", new: "return is",
		test: "ops TestALaneInAnotherOneHasItsShare",
	},
	{
		promise: "up to 100,000 in a lane, and about 200,000 in all lanes", in: operating,
		file: "postgres/queries/lane_loads.sql",
		old:  "WHEN part.of_all < 50 THEN 5 ELSE", new: "WHEN false THEN 5 ELSE",
		test: "postgres TestLaneLoadsCountsUpToATotal",
	},
	{
		promise: "delivered if it was due in these quiet hours. Otherwise it is postponed to their end, even if it is not late", in: handlers,
		file: "quiet_hours.go",
		old:  "late = !same.Equal(opens)", new: "late = !same.Equal(opens) && false",
		test: ". TestQuietHoursHoldLateEventsOnly",
	},
	{
		promise: "So they hold over all schemas and programs", in: "docs/shards.md",
		file: "shards/lanes.go",
		old:  "l.Rate*float64(n)/Slots", new: "l.Rate",
		test: "shards TestLimitsHoldOverSchemas",
	},
	{
		promise: "leave it out for one second, and up to 15", in: "docs/shards.md",
		file: "shards/absence.go",
		old:  "if all.calls.leave(); own == &all.outcomes {", new: "if own == &all.outcomes {",
		test: "shards TestAServerThatHangsDelaysOtherClaimsOnce",
	},
}
