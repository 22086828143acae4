package chaos_test

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// check checks, once everything is drained, what must hold whatever happened.
func (s *stress) check() {
	s.Helper()
	until(s.Run, "SELECT NOT EXISTS (SELECT FROM almanac.leases) AND NOT EXISTS (SELECT FROM almanac.users WHERE deleted_at IS NOT NULL)")
	s.CheckReports()
	start, err := time.Parse("2006-01-02T15:04:05", s.plan.Start)
	require.NoError(s, err)
	for what, query := range faults {
		var args []any
		if strings.Contains(query, "$1") {
			args = []any{start, start.Add(time.Duration(s.plan.Count-1) * time.Second)}
		}
		if found := s.texts(s.Context(), query, args...); len(found) > 0 {
			s.Errorf("%s: %d, such as %s", what, len(found), found[0])
		}
	}
	s.checkLedger()
	log, err := s.Cluster.Log()
	require.NoError(s, err)
	for line := range strings.Lines(log) {
		// On a busy machine a worker gives a call up, and the server cancels its statement.
		tolerated := strings.Contains(line, "due to lock timeout") || strings.Contains(line, "due to user request")
		if strings.Contains(line, "ERROR:") && !tolerated || strings.Contains(line, "PANIC:") {
			s.Errorf("the server says: %s", line)
		}
	}
	bitten := []string{"edits", "enrolled", "committed", "locked", "killed", "stopped"}
	if *stressed >= 30*time.Second { // and a busy machine comes to the others too
		bitten = append(bitten, "deleted", "cancelled", "requeued", "pauses", "pruned", "rolled back", "recoveries")
	}
	for _, what := range bitten {
		if s.Counted(what) == 0 {
			s.Errorf("vacuous: %q never happened", what)
		}
	}
}

// checkLedger compares what the receiver saw with the notes.
func (s *stress) checkLedger() {
	s.Helper()
	type note struct {
		User, Occurrence string
		Crashes, Events  int       // more than one if it was requeued
		Cancelled, Over  time.Time // of the year 1 if it was not
	}
	rows, err := s.pool.Query(s.Context(), `SELECT b.key, min(b.user_id::text), min(b.occurrence),
		coalesce(sum(e.crashes), 0)::int, count(*)::int, coalesce(max(e.at) FILTER (WHERE e.cancelled), '0001-01-01'), coalesce(max(e.at), '0001-01-01')
		FROM born b LEFT JOIN ended e USING (id) GROUP BY b.key`)
	require.NoError(s, err)
	known := make(map[string]note)
	var key string
	var n note
	_, err = pgx.ForEachRow(rows, []any{&key, &n.User, &n.Occurrence, &n.Crashes, &n.Events, &n.Cancelled, &n.Over}, func() error { known[key] = n; return nil })
	require.NoError(s, err)

	keys, bodies := make(map[string]string), make(map[string][]string) // by occurrence, by key
	accepted, late := make(map[string]int), make(map[string]int)       // by key, by user
	ledger, unsigned := s.Receiver.Ledger()
	repeats := 0
	for _, d := range ledger {
		n, born := known[d.Key]
		if !born {
			s.Errorf("delivered, but not stored: %s as %s", d.Occurrence, d.Key)
			continue
		}
		if !slices.Contains(bodies[d.Key], d.Body) {
			bodies[d.Key] = append(bodies[d.Key], d.Body)
		}
		if keys[d.Occurrence] == "" {
			keys[d.Occurrence] = d.Key
		}
		left, gone := s.gone[uuid.MustParse(n.User)]
		due, _ := time.Parse("2006-01-02T15:04:05", n.Occurrence)
		switch {
		case d.Occurrence != n.User+" "+n.Occurrence:
			s.Errorf("delivered: %s as %s, which is the key of %s", d.Occurrence, d.Key, n.Occurrence)
		case d.Key != keys[d.Occurrence]:
			s.Errorf("%s was delivered as %s, before as %s", d.Occurrence, d.Key, keys[d.Occurrence])
		case len(bodies[d.Key]) > n.Events: // each has a body of its own, with its id
			s.Errorf("%s was delivered with %d bodies, for %d events", d.Occurrence, len(bodies[d.Key]), n.Events)
		case d.At.Before(due):
			s.Errorf("%s was delivered %v early", d.Occurrence, due.Sub(d.At))
		case n.Cancelled.Year() > 1 && n.Cancelled.Equal(n.Over) && d.At.After(n.Cancelled):
			s.Errorf("%s was delivered %v after it was cancelled", d.Occurrence, d.At.Sub(n.Cancelled))
		case n.Crashes == 0 && !gone && d.At.After(n.Over):
			s.Errorf("%s was delivered %v after its end", d.Occurrence, d.At.Sub(n.Over))
		case gone && d.At.After(left.at):
			if late[n.User]++; late[n.User] > left.inFlight {
				s.Errorf("%s was delivered after its user was deleted with %d in flight", d.Occurrence, left.inFlight)
			}
		}
		if d.Status == http.StatusOK {
			if accepted[d.Key]++; accepted[d.Key] > 1 {
				if repeats++; n.Crashes == 0 && !gone {
					s.Errorf("%s was accepted again, and no lease ran out: %+v", d.Occurrence, n)
				}
			}
		}
	}
	crashes := 0
	for _, n := range known {
		crashes += n.Crashes
	}
	if held := s.Counted("held"); repeats > held {
		s.Errorf("%d repeats, and the kills explain %d", repeats, held)
	}
	if unsigned > 0 {
		s.Errorf("%d deliveries were not signed by us", unsigned)
	}
	s.Logf("seed %d: %d events, %d deliveries, %d repeats of at most %d held, %d leases ran out under an event; %s",
		s.Seed, len(known), len(ledger), repeats, s.Counted("held"), crashes, s.Counts())
}
