package mutations_test

// quarantined are safeguards of releases that wait for an operator.
var quarantined = []mutation{
	{
		promise: "So does the answer of an operator who refuses", in: "docs/quarantine.md",
		file: "repository.go",
		old:  "return !q.Accepted && q.key() == k && !k.isNewer(release, q.Release)", new: "return q.Waits() && q.key() == k && !k.isNewer(release, q.Release)",
		test: ". TestARefusalHoldsInAllPrograms",
	},
	{
		promise: "A program without the option obeys them", in: "docs/quarantine.md",
		file: "timezone_view.go",
		old:  "bool { return one.Name == limitsSetting }", new: "bool { return false }",
		test: ". TestStoredLimitsHoldInProgramsWithoutTheOption",
	},
	{
		promise: "or any event by more than 90", in: "docs/quarantine.md",
		file: "timezone_view.go",
		old:  "all > q.limits.events || largest > q.limits.shift", new: "all > q.limits.events",
		test: ". TestZoneRulesWaitForAnOperator",
	},
	{
		promise: "A release within the limits is", in: "docs/quarantine.md",
		file: "timezone_view.go",
		old:  "all > q.limits.events || largest > q.limits.shift", new: "all >= q.limits.events || largest > q.limits.shift",
		test: ". TestZoneRulesWithinTheLimitsDoNotWait",
	},
	{
		promise: "Such an error puts no user into `Refused`.", in: "docs/rollout.md",
		file: "plan_pass.go",
		old:  "return &interruption{user, err}", new: "return err",
		test: "./ops TestARollOutEditsUsersAgainWhenTheDatabaseFails",
	},
	{
		promise: "until a running program with the earlier ones examines it", in: "docs/quarantine.md",
		file: "timezone.go",
		old:  "return s.limits(book) == nil && !book.holds(releaseKey{name: mark.Zone}, mark.Version)", new: "return true",
		test: ". TestAnOperatorRefusesARelease",
	},
	{
		promise: "`Run` logs `new release waits for an operator` once an hour.", in: "docs/quarantine.md",
		file: "run_maintenance.go",
		old:  "isComparable(mark) && !f.holdsZone(book, mark.Zone)", new: "isComparable(mark)",
		test: ". TestAReleaseThatWaitsIsComparedOnceAnHour",
	},
	{
		promise: "A later release is counted anew.", in: "docs/quarantine.md",
		file: "repository.go",
		old:  "return q.Waits() && q.key() == k && !k.isNewer(release, q.Release)", new: "return q.Waits() && q.key() == k",
		test: ". TestAReleaseOfACalendarWaitsForAnOperator",
	},
	{
		promise: "pending events keep their times, also when their user is edited", in: "docs/quarantine.md",
		file: "timezone_days.go",
		old:  "p.zones.held[name] && mine.Release != release", new: "false",
		test: ". TestAReleaseOfACalendarWaitsForAnOperator",
	},
}
