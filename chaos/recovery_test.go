package chaos

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
)

// Death is the end of a worker that was killed, and what it had in flight.
type Death struct {
	At    time.Time // it was gone
	Held  []Held
	pulse func() stalls // of the machine since then
}

// Held is an event that a dead worker holds until its lease runs out.
type Held struct {
	ID, Occurrence string
	Expires        time.Time // the lease, by the database's clock, which is this machine's
}

// Kill kills a worker, and notes what it had in flight. As many repeats are allowed.
func (r *Run) Kill(p *Process) Death {
	r.Helper()
	pulse := r.pulse()
	require.NoError(r, p.Kill())
	d := Death{At: time.Now(), pulse: pulse}
	// What it sent in its last moment may yet take effect: a claim whose answer is lost, or an
	// outcome, after which the event is not in flight.
	rows, err := r.pool.Query(r.Context(), `SELECT e.id::text, e.user_id || ' ' || e.occurrence_key, l.expires_at
		FROM almanac.leases l JOIN almanac.events e ON e.lease_token = l.token
		WHERE e.status = 'PROCESSING' AND split_part(l.owner, '/', 2) = $1`, strconv.Itoa(p.command.Process.Pid))
	require.NoError(r, err)
	d.Held, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Held])
	require.NoError(r, err)
	r.Allow(len(d.Held))
	r.Count("killed", 1)
	r.Count("held", len(d.Held))
	return d
}

// Recovered checks, once everything is drained, that others came to what a dead
// worker had in flight: not before its lease ran out, and no later than a lease, a sweep
// and two seconds after the kill, as long again as the machine stood still, and as long
// as their lane may be full.
func (r *Run) Recovered(d Death, full time.Duration) {
	r.Helper()
	promised := Lease + Sweep + 2*time.Second + full
	stalls := d.pulse()
	ledger, _ := r.Receiver.Ledger()
	var leased, swept, claimed, delivered, whole time.Duration // the longest of each part, and of all
	for _, h := range d.Held {
		var sent time.Time
		for _, e := range ledger {
			if e.Occurrence == h.Occurrence && e.At.After(d.At) && (sent.IsZero() || e.At.Before(sent)) {
				sent = e.At
			}
		}
		released, taken := r.notifiedAt(h.ID, almanac.EventReleased, d.At), r.notifiedAt(h.ID, almanac.EventClaimed, d.At)
		if released.IsZero() {
			continue // its outcome was under way
		}
		r.Count("recovered", 1)
		if released.Before(h.Expires) {
			r.Errorf("recovery: %s was taken %v before its lease ran out", h.Occurrence, h.Expires.Sub(released))
		}
		if took, stood := sent.Sub(d.At), stalls.before(sent); took < 0 || took > promised+stood {
			r.Errorf("recovery: %s was delivered %v after the kill, which is more than %v and %v in which the machine stood still",
				h.Occurrence, took, promised, stood)
		}
		leased, swept = max(leased, h.Expires.Sub(d.At)), max(swept, released.Sub(h.Expires))
		claimed, delivered = max(claimed, taken.Sub(released)), max(delivered, sent.Sub(taken))
		whole = max(whole, sent.Sub(d.At))
	}
	if len(d.Held) == 0 {
		return
	}
	ms := func(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }
	r.Logf("recovery: %d held, all delivered within %s of the kill (at most: lease %s, sweep %s, claim %s, delivery %s); the machine stood still for %s",
		len(d.Held), ms(whole), ms(leased), ms(swept), ms(claimed), ms(delivered), ms(stalls.before(d.At.Add(whole))))
}

// notifiedAt returns when a worker first reported a notice of an event after a moment, or zero if
// none did.
func (r *Run) notifiedAt(id string, kind almanac.NoticeKind, after time.Time) (first time.Time) {
	for _, w := range r.workers {
		for _, report := range w.Reports() {
			if report.Event == id && report.Kind == kind && report.At.After(after) && (first.IsZero() || report.At.Before(first)) {
				first = report.At
			}
		}
	}
	return first
}

// stalls are how long the machine stood still, and until when.
type stalls []struct {
	until time.Time
	lost  time.Duration
}

// before sums up what was lost until a moment.
func (s stalls) before(moment time.Time) (sum time.Duration) {
	for _, one := range s {
		if one.until.Before(moment) {
			sum += one.lost
		}
	}
	return sum
}

// pulse measures how long the machine stands still: a row is written every fiftieth
// of a second. Time beyond a tenth of a second between two writes counts as stopped, for want
// of a processor or of the disk. The result is what was measured until the first call.
func (r *Run) pulse() func() stalls {
	r.Helper()
	const every, usual = 20 * time.Millisecond, 100 * time.Millisecond
	conn, err := pgx.Connect(r.Context(), r.Cluster.Direct(r.Database))
	require.NoError(r, err)
	_, err = conn.Exec(r.Context(), "CREATE TABLE IF NOT EXISTS pulse (n integer); TRUNCATE pulse; INSERT INTO pulse VALUES (0)")
	require.NoError(r, err)
	var measured stalls
	ctx, cancel := context.WithCancel(r.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() { _ = conn.Close(context.Background()) }()
		for last := time.Now(); pause(ctx, every) == nil; {
			if _, err := conn.Exec(ctx, "UPDATE pulse SET n = n + 1"); err != nil {
				return
			}
			now := time.Now()
			if lost := now.Sub(last) - usual; lost > 0 {
				measured = append(measured, struct {
					until time.Time
					lost  time.Duration
				}{now, lost})
			}
			last = now
		}
	}()
	stop := func() stalls { cancel(); <-ended; return measured }
	r.Cleanup(func() { stop() })
	return stop
}
