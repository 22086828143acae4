package mutations_test

// support are safeguards of what support staff and operators are told and can do.
var support = []mutation{
	{
		promise: "the new one follows its user to another zone as the old one did, and can be run now", in: "docs/operations.md",
		file: "event_operation.go",
		old:  "e.ClaimCount == 0 && !first.Before(now)", new: "false",
		test: ". TestEditsMoveRequeuedEventsThatWereNeverClaimed",
	},
	{
		promise: "But a requeued event is CANCELLED, not removed", in: "docs/handlers.md",
		file: "event_operation.go",
		old:  "if e.Origin.Kind != OriginRequeued {", new: "if true {",
		test: "almanactest TestMemoryRepository/^Requeue$",
	},
	{
		promise: "they follow their users, and can be run now", in: "docs/broadcasts.md",
		file: "event_operation.go",
		old:  "if err != nil || next.ClaimCount > 0 {", new: "if true {",
		test: "almanactest TestMemoryRepository/^Broadcasts$",
	},
	{
		promise: "If a part of the facts cannot be read", in: "docs/why.md",
		file: "ops/why_broadcast.go",
		old:  "if f.sent, err = g.repository.UsedKeys(ctx, f.user.ID, series); err != nil {", new: "if f.sent, err = g.repository.UsedKeys(ctx, f.user.ID, series); false {",
		test: "ops TestWhyAnswersNothingWithoutAllFacts",
	},
	{
		promise: "is in a zone where the time had passed when the broadcast was created", in: "docs/why.md",
		file: "ops/why_broadcast.go",
		old:  "case b.Zone.Skipped:", new: "case false:",
		test: "almanactest TestMemoryRepository/^Broadcasts$",
	},
	{
		promise: "count as such, and `Merged` has `limits`", in: "docs/rehearsal.md",
		file: "ops/rehearsal_peaks.go",
		old:  "l.lost = true", new: "l.lost = false",
		test: "ops TestARehearsalSaysThatLimitsAreLeftOut",
	},
	{
		promise: "A part of a copy is refused", in: "docs/rehearsal.md",
		file: "ops/rehearsal.go",
		old:  "|| end.User != nil || end.Users != r.done.Users {", new: "{",
		test: "ops TestAnIncompleteCopyIsRefused",
	},
}
