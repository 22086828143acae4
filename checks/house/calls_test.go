package house_test

import (
	"go/ast"
	"slices"
	"testing"
)

// clockReaders maps the files that may call time.Now to the reason. The database clock
// decides what is due; a worker's own clock measures durations.
func clockReaders() map[string]string {
	return map[string]string{
		"timezone_view.go":                 "what was read of zone rules grows old",
		"run_lane.go":                      "a failed search is delayed, and an event waits to be tried alone",
		"run_health.go":                    "says since when deliveries fail",
		"run_work.go":                      "a claim's answer is as old as the question",
		"run_once.go":                      "a pass waits for the rate of a type",
		"run_ahead.go":                     "a confirmation is as old as the question; and pairs the database's time with the worker's own",
		"postgres/claims.go":               "a claim looks for other events each second",
		"postgres/transact.go":             "a claim takes its time",
		"shards/absence.go":                "a schema that was slow is left out for a time",
		"shards/move_steps.go":             "how long neither server takes writes",
		"postgres/idempotency_keys.go":     "keys are looked up for instants that seem over",
		"webhook/bulkhead.go":              "a delivery takes its time",
		"webhook/batch.go":                 "a delivery takes its time",
		"webhook/deliverer.go":             "a delivery takes its time",
		"webhook/receivers.go":             "a receiver is kept for a time",
		"webhook/verify.go":                "a delivery arrives now",
		"httpapi/health.go":                "an answer to a probe grows old",
		"httpapi/limit.go":                 "a rate is counted by the server that limits it",
		"almanactest/memory.go":            "is its own database, and has the clock of one",
		"almanactest/conformance/lanes.go": "a place that is free is found in time",
		"almanactest/memory_claims.go":     "an event of a lane with limits has to start soon after its claim",
		"internal/engine/ahead.go":         "what was claimed ahead is kept until it is due",
		"internal/engine/claim.go":         "a lease counts from before the call that asks for it",
		"internal/engine/context.go":       "an attempt ends at its limit",
		"internal/engine/health.go":        "for how long something has failed",
		"internal/engine/lease.go":         "a lease that is over is not worked on",
		"internal/engine/postpone.go":      "results that wait are tried again after a while",
		"internal/engine/renew.go":         "leases are renewed in time",
		"internal/engine/size.go":          "a quick call may be followed by a larger one",
		"internal/engine/settle.go":        "settling is tried again until a deadline",
		"internal/pgserver/postmaster.go":  "patience with a server that starts or stops",
		"dashboard/dashboard.go":           "what all viewers share grows old",
		"dashboard/live.go":                "a stream that is silent for long needs a sign of life",
		"dashboard/monitor.go":             "counts what this process does in each minute",
		"cmd/command/grammar.go":           "what comes next is seen from now",
		"cmd/command/progress.go":          "says how fast an import goes",
		"contrib/jetstream/inlet.go":       "what was read of pauses grows old",
		"contrib/mail/deliverer.go":        "a delivery takes its time",
		"contrib/mail/pool.go":             "a farewell takes its time",
		"contrib/prometheus/backlog.go":    "compares this machine's clock with the database's, and answers grow old",
		"contrib/prometheus/delivery.go":   "a delivery takes its time",
		"examples/birthdayd/clock.go":      "compares this machine's clock with the database's",
		"examples/birthdayd/receiver.go":   "notes when a greeting arrived",
	}
}

// checkCalls restricts the clock and time zones to a few files, and forbids initializers,
// skips and sleeps. Packages that import testing follow the rules for tests.
func (f file) checkCalls(t *testing.T) {
	t.Helper()
	imported := f.imports()
	forTests := f.test || imported["testing"] != nil
	bubbles := imported["testing/synctest"] != nil
	ast.Inspect(f.File, func(n ast.Node) bool {
		switch {
		case n == nil:
		case !f.test && clockReaders()[f.path] == "" && f.refers(n, "time", "Now"):
			f.breaks(t, n.Pos(), "time.Now: this file has no reason on the list to read the clock")
		case !f.test && !f.in("internal/zoneinfo") && f.usesZone(n):
			f.breaks(t, n.Pos(), "a time zone: wall times become instants in calendar/resolve.go only, by the zones of internal/zoneinfo")
		case forTests && !bubbles && f.refers(n, "time", "Sleep"):
			f.breaks(t, n.Pos(), "time.Sleep: tests sleep under testing/synctest only")
		case forTests && skips(n):
			f.breaks(t, n.Pos(), "a test runs or fails, it is never skipped")
		case initialises(n):
			f.breaks(t, n.Pos(), "func init: nothing happens by being imported")
		}
		return true
	})
}

// usesZone reports whether n loads a zone with the standard library, or converts a wall
// time to an instant in a zone other than UTC.
func (f file) usesZone(n ast.Node) bool {
	for _, name := range []string{"LoadLocation", "LoadLocationFromTZData", "ParseInLocation", "Local"} {
		if f.refers(n, "time", name) {
			return true
		}
	}
	call, ok := n.(*ast.CallExpr)
	return ok && f.refers(call.Fun, "time", "Date") && !f.refers(call.Args[len(call.Args)-1], "time", "UTC")
}

// readsClock reports whether f calls time.Now, or uses it as a value.
func (f file) readsClock() bool {
	found := false
	ast.Inspect(f.File, func(n ast.Node) bool {
		found = found || f.refers(n, "time", "Now")
		return !found
	})
	return found
}

func skips(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	selector, ok := call.Fun.(*ast.SelectorExpr)
	return ok && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, selector.Sel.Name)
}

func initialises(n ast.Node) bool {
	f, ok := n.(*ast.FuncDecl)
	return ok && f.Recv == nil && f.Name.Name == "init"
}
