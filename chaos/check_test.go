package chaos

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
)

// Snapshot looks at the events that have ended, and remembers them byte by byte. One
// that changes afterwards breaks invariant I2.
func (r *Run) Snapshot(ctx context.Context) {
	r.Helper()
	rows, err := r.pool.Query(ctx, "SELECT id, md5(e::text) FROM almanac.events e WHERE status IN ('COMPLETED', 'FAILED', 'CANCELLED')")
	if err != nil {
		return // the fault is in the database; the last snapshot counts
	}
	var id uuid.UUID
	var hash string
	_, _ = pgx.ForEachRow(rows, []any{&id, &hash}, func() error {
		if was, known := r.seen[id]; known && was != hash {
			r.Errorf("I2: event %s changed after it had ended", id)
		}
		r.seen[id] = hash
		return nil
	})
}

// Forget forgets which events have ended, for a server that forgets it too.
func (r *Run) Forget() {
	r.forgetful = true
	clear(r.seen)
}

// row is what the invariants need of an event.
type row struct {
	ID                  uuid.UUID
	User, Occurrence    string
	Status, Reason, Key string
	Due, Executed       time.Time
	Version, Claims     int
	Retries, Crashes    int
}

// Figures are what a run comes to.
type Figures struct {
	Expected, Deliveries, Repeats, Allowed int
	Late                                   []time.Duration // of the first delivery of each, ascending
}

// String writes the figures in a line.
func (f Figures) String() string {
	at := func(share float64) time.Duration {
		if len(f.Late) == 0 {
			return 0
		}
		return f.Late[min(int(share*float64(len(f.Late))), len(f.Late)-1)].Round(time.Millisecond)
	}
	return fmt.Sprintf("expected %d, deliveries %d, repeats %d of at most %d, late p50 %v p99 %v max %v",
		f.Expected, f.Deliveries, f.Repeats, f.Allowed, at(0.5), at(0.99), at(1))
}

// Check checks every invariant once everything is drained, and that each of the
// counters named was not zero: that the fault has met what it was meant to meet.
func (r *Run) Check(bitten ...string) Figures {
	r.Helper()
	return r.check(false, bitten)
}

// CheckEdited is Check for a run in which users are edited: versions then rise by
// edits as well.
func (r *Run) CheckEdited(bitten ...string) Figures {
	r.Helper()
	return r.check(true, bitten)
}

func (r *Run) check(edited bool, bitten []string) Figures {
	r.Helper()
	ctx := r.Within(30 * time.Second)
	r.Snapshot(ctx)
	rows := r.rows(ctx)
	figures := r.checkLedger(rows)
	r.checkRows(ctx, rows, edited)
	r.CheckReports()
	r.Logf("seed %d: %v; %s; %.1f s", r.Seed, figures, r.Counts(), time.Since(r.began).Seconds())
	for _, what := range bitten {
		if r.counts[what] == 0 {
			r.Errorf("vacuous: %q never happened", what)
		}
	}
	return figures
}

func (r *Run) rows(ctx context.Context) map[string]row {
	r.Helper()
	rows, err := r.pool.Query(ctx, `SELECT id, user_id::text, occurrence_key, status, coalesce(failure_reason, ''), idempotency_key,
		target_timestamp_utc, coalesce(executed_at, target_timestamp_utc), version, claim_count, retry_count, crash_count FROM almanac.events
		WHERE origin IS NULL`) // a detached event is in no plan
	require.NoError(r, err)
	events, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	require.NoError(r, err)
	found := make(map[string]row, len(events))
	for _, e := range events {
		name := e.User + " " + e.Occurrence
		if _, twice := found[name]; twice {
			r.Errorf("I3: %s is stored twice", name)
		}
		found[name] = e
	}
	return found
}

// checkRows checks what the database says by itself.
func (r *Run) checkRows(ctx context.Context, rows map[string]row, edited bool) {
	r.Helper()
	for name := range r.expected {
		if _, stored := rows[name]; !stored {
			r.Errorf("I1: %s was never stored", name)
		}
	}
	for name, e := range rows {
		switch {
		case !r.expected[name]:
			r.Errorf("I1: %s was not expected", name)
		case e.Status == "FAILED" && e.Reason == "":
			r.Errorf("I1: %s failed without a reason", name)
		case e.Status != "COMPLETED" && e.Status != "FAILED" && e.Status != "CANCELLED":
			r.Errorf("I4: %s is %s after everything was drained", name, e.Status)
		case e.Executed.Before(e.Due):
			r.Errorf("I6: %s was executed %v early", name, e.Due.Sub(e.Executed))
		}
		// Each claim raises the version, and so does its end. A claim ahead that is released
		// before the instant does not count.
		if more := e.Version - (1 + 2*e.Claims); more < 0 || more%2 != 0 && !edited {
			r.Errorf("I8: %s is at version %d after %d claims", name, e.Version, e.Claims)
		}
	}
	// A claim whose answer was lost leaves a lease that holds nothing, until it expires. So
	// does a settlement that met a renewal of the lease, until the sweep.
	for leases, began := 1, time.Now(); leases > 0; {
		require.NoError(r, r.pool.QueryRow(ctx, "SELECT count(*) FROM almanac.leases").Scan(&leases))
		if leases > 0 && time.Since(began) > Lease+r.sweep+2*time.Second {
			r.Errorf("I9: %d leases are left", leases)
			return
		}
		_ = pause(ctx, 50*time.Millisecond)
	}
}

// CheckReports checks that the worker that ended an event had claimed it last, and that its
// end was notified at most once (I2, I11).
func (r *Run) CheckReports() {
	r.Helper()
	var reports []Report
	for _, w := range r.workers {
		for _, report := range w.Reports() {
			report.Worker = fmt.Sprintf("%s (pid %d)", w.Name, w.command.Process.Pid)
			reports = append(reports, report)
		}
	}
	// A worker that was frozen between storing and reporting reports late.
	slices.SortFunc(reports, func(a, b Report) int { return cmp.Or(cmp.Compare(a.Version, b.Version), a.At.Compare(b.At)) })
	holder, ended := make(map[string]string), make(map[string]string)
	claimer := make(map[uuid.UUID]string) // by lease
	for _, report := range reports {
		switch report.Kind {
		case almanac.EventClaimed:
			if by := ended[report.Event]; by != "" && !r.forgetful {
				r.Errorf("I2: event %s was ended by %s, and claimed by %s later than what that had", report.Event, by, report.Worker)
			}
			holder[report.Event], claimer[report.Lease] = report.Worker, report.Worker
		case almanac.EventCompleted, almanac.EventFailed:
			if by := ended[report.Event]; by != "" && !r.forgetful {
				r.Errorf("I2: event %s was ended by %s and by %s", report.Event, by, report.Worker)
			}
			ended[report.Event] = report.Worker
			// A sweep of any worker ends the events of a deleted user that a dead worker held.
			by := holder[report.Event]
			if r.forgetful { // versions come again, of a claim that is lost too
				by = claimer[report.Lease]
			}
			if by != report.Worker && report.Reason != almanac.ReasonUserDeleted {
				r.Errorf("I2: event %s was ended by %s, but claimed last by %s", report.Event, report.Worker, by)
			}
		default:
		}
	}
}

// checkLedger compares the database with what the receiver saw.
func (r *Run) checkLedger(rows map[string]row) Figures {
	r.Helper()
	ledger, refused := r.Receiver.Ledger()
	if refused > 0 {
		r.Errorf("%d deliveries were not signed by us, and just now", refused)
	}
	f := Figures{Expected: len(r.expected), Deliveries: len(ledger), Allowed: r.allowed}
	first, accepted := make(map[string]Entry), make(map[string]bool)
	for _, d := range ledger {
		e, stored := rows[d.Occurrence]
		was, again := first[d.Occurrence]
		switch {
		case !stored && r.released[strings.Fields(d.Occurrence)[0]]:
			continue // deleted since
		case !stored:
			r.Errorf("delivered, but not stored: %s", d.Occurrence)
		case d.Key != e.Key || again && d.Body != was.Body:
			r.Errorf("I5: %s was delivered as %s with body %s, before as %s with body %s", d.Occurrence, d.Key, d.Body, was.Key, was.Body)
		case d.At.Before(e.Due):
			r.Errorf("I6: %s was delivered %v early", d.Occurrence, e.Due.Sub(d.At))
		case d.Signed.Before(e.Due.Truncate(time.Second)):
			r.Errorf("I6: %s was signed %v early", d.Occurrence, e.Due.Sub(d.Signed))
		}
		if !again {
			first[d.Occurrence] = d
			f.Late = append(f.Late, d.At.Sub(e.Due))
		}
		if accepted[d.Occurrence] {
			f.Repeats++
		}
		accepted[d.Occurrence] = accepted[d.Occurrence] || d.Status/100 == 2
	}
	for name, e := range rows {
		if e.Status == "COMPLETED" && !accepted[name] {
			r.Errorf("I7: %s is COMPLETED, and no delivery was accepted", name)
		}
	}
	if f.Repeats > r.allowed {
		r.Errorf("I12: %d repeats, and the faults explain %d", f.Repeats, r.allowed)
	}
	slices.Sort(f.Late)
	return f
}
