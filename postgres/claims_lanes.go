package postgres

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
)

// withLimited adds events of lanes with limits to a claim. If that fails, the claim stays as it is unless it is empty.
func (s *Store) withLimited(ctx context.Context, claim almanac.ClaimResult, r almanac.ClaimRequest) (almanac.ClaimResult, error) {
	limited, asked, err := s.claimLimited(ctx, r)
	if len(limited.Events) == 0 {
		if err != nil && len(claim.Events) > 0 {
			s.earlier.limited.Store(&err)
			err = nil
		}
		return claim, err
	}
	if claim.At.IsZero() {
		claim.At, claim.Users = limited.At, limited.Users
	} else {
		maps.Copy(claim.Users, limited.Users)
	}
	claim.Placed, claim.Failing = limited.Placed, claim.Failing || limited.Failing
	claim.Limited = make(map[uuid.UUID]time.Time, len(limited.Events))
	for _, e := range limited.Events {
		claim.Limited[e.ID] = asked
	}
	claim.Events = append(claim.Events, limited.Events...)
	slices.SortFunc(claim.Events, func(a, b almanac.Event) int {
		return cmp.Or(a.Due.Compare(b.Due), bytes.Compare(a.ID[:], b.ID[:]))
	})
	return claim, nil
}

// addMissingVisits adds the visits of lanes that they lack: see schema.sql.
func (s *Store) addMissingVisits(ctx context.Context) error {
	return s.transact(ctx, "add missing visits", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, s.statements.MissingVisits)
		return err
	})
}

// clock is what an answer has shown of the database's clock. The time was read while the question was on its way: between
// two times of this process's monotonic clock. So a slow answer says little about the clock, and is no step of it.
type clock struct {
	read            time.Time
	asked, answered time.Time
	emptied         *time.Time // lane_clock's, at the last claim from lanes; nil if it is -infinity
}

const (
	clockTolerance = time.Second // a clock that moved by no more was not set; claim_lanes has it, too
	clockDrift     = 2000        // the clocks of two machines drift apart by such a part of the time at most
)

// between returns the earliest and the latest time that the database's clock can show at a later time.
func (c clock) between(at time.Time) (earliest, latest time.Time) {
	drift := at.Sub(c.answered) / clockDrift
	return c.read.Add(at.Sub(c.answered) - drift), c.read.Add(at.Sub(c.asked) + drift)
}

// wasSetBy reports whether the database's clock was certainly set between this answer and a later one.
func (c clock) wasSetBy(later clock) bool {
	earliest, _ := c.between(later.asked)
	_, latest := c.between(later.answered)
	return later.read.Before(earliest.Add(-clockTolerance)) || later.read.After(latest.Add(clockTolerance))
}

// wasSet reports whether the database's clock was certainly set since an earlier answer. The visits of lanes with names
// may then be ahead of the clock, so that no claim would follow them: only a claim from lanes makes them due.
func (s *Store) wasSet(now clock) bool {
	was := s.earlier.clock.Load()
	switch {
	case was == nil:
		return false
	case was.wasSetBy(now):
		return true
	}
	if now.asked.Sub(was.answered) > time.Minute { // the clocks of two machines drift apart
		now.emptied = was.emptied
		s.earlier.clock.CompareAndSwap(was, &now)
	}
	return false
}

// mostLooks is how many lanes a claim looks at, at most.
const mostLooks = 100

// visits is what a claim has left of the visits of lanes.
type visits struct {
	from     time.Time // no visit that was due before that
	searched time.Time // when a claim last looked for all, by the monotonic clock of this process
}

// visitsMargin is how far visits may be before the clock when another process adds them.
const visitsMargin = 200 * time.Millisecond

// followed notes that a claim that began at a time has followed the visits from a time on, or all, and what it has left.
func (s *Store) followed(from *time.Time, began, left time.Time) {
	searched := began
	if v := s.earlier.visits.Load(); v != nil && from != nil {
		searched = v.searched
	}
	s.earlier.visits.Store(&visits{left, searched})
}

// visitsFrom returns where a search for visits begins, or nil for the beginning: every second, and if the search for
// events begins there.
func (s *Store) visitsFrom(mark time.Time) *time.Time {
	v := s.earlier.visits.Load()
	if v == nil || mark.IsZero() || time.Since(v.searched) > time.Second {
		return nil
	}
	return &v.from
}

// onlyLanes says when no event of some types was due but those that have lanes with limits or names.
type onlyLanes struct {
	types []string
	asked time.Time // before a claim looked for other events, by the monotonic clock of this process
}

// hold reports whether a claim can begin with the lanes: it looks for other events of its types each second.
func (o *onlyLanes) hold(r almanac.ClaimRequest) bool {
	return o != nil && !r.Mark.IsZero() && time.Since(o.asked) < time.Second && slices.Equal(o.types, r.Types)
}

// backlog is how far claims of several types have come in each, while the claims leave events. The types take turns, so that
// one of them can be behind the others, and the mark with it.
type backlog struct {
	types   []string
	reached []time.Time // of each type: what was available before is claimed, or was locked
	mark    time.Time   // of the next claim, unless this process has stored an event that is overdue
	until   time.Time   // when a claim begins at the mark for all types again, by the monotonic clock of this process
}

// known returns how far earlier claims have come in each type, or nil if the search begins at the mark. It does so when this process has
// stored an event that is overdue, and every second, because other processes may store some.
func (b *backlog) known(r almanac.ClaimRequest) []time.Time {
	if b == nil || r.Mark.IsZero() || r.Mark.Before(b.mark) || time.Since(b.until) > 0 || !slices.Equal(b.types, r.Types) {
		return nil
	}
	return b.reached
}

// searched is where and when a claim has searched.
type searched struct {
	began time.Time
	known []time.Time // where it began in each type; nil for the mark
	live  []string    // the types that had something to claim; nil if each had a share
}

// idle reports whether a type had nothing to claim.
func (of searched) idle(eventType string, events []almanac.Event) bool {
	if of.live != nil {
		return !slices.Contains(of.live, eventType)
	}
	return !slices.ContainsFunc(events, func(e almanac.Event) bool { return e.Type == eventType })
}

// after returns how far the claims have come after one more. An event was not available before its due instant.
func (b *backlog) after(r almanac.ClaimRequest, claim almanac.ClaimResult, of searched) *backlog {
	switch {
	case r.Ahead > 0: // an event that is not claimed ahead may be due before those that are
		return b
	case len(r.Types) < 2 || len(claim.Events) < r.Limit:
		return nil
	}
	next := &backlog{types: r.Types, reached: make([]time.Time, len(r.Types)), mark: claim.Reached}
	if claim.At.Before(next.mark) {
		next.mark = claim.At
	}
	next.until = of.began.Add(max(time.Second, 5*time.Since(of.began))) // a search that takes long is rare
	if of.known != nil {
		copy(next.reached, of.known)
		next.until = b.until
	} else {
		for i, t := range r.Types {
			if of.idle(t, claim.Events) {
				next.reached[i] = claim.At.Add(-time.Since(of.began)) // no later than when the search began
			}
		}
	}
	for i := range claim.Events {
		e := &claim.Events[i]
		if at := &next.reached[slices.Index(r.Types, e.Type)]; e.Due.After(*at) {
			*at = e.Due
		}
	}
	return next
}

func claimArgs(r almanac.ClaimRequest) pgx.StrictNamedArgs {
	return pgx.StrictNamedArgs{
		"token": r.Token, "owner": r.Owner, "program": r.Program, "zone_data": r.ZoneData, "types": r.Types, "limit": r.Limit, "lease": r.Lease, "ahead": r.Ahead,
	}
}

// claimLimited claims events of lanes with limits or names, under a token of its own. It returns a time before their admission, too.
func (s *Store) claimLimited(ctx context.Context, r almanac.ClaimRequest) (claim almanac.ClaimResult, asked time.Time, err error) {
	r.Token = uuid.New()
	var was *clock
	var now clock
	var from *time.Time
	var left time.Time
	wasSet := false // whether the clock certainly was set since the last claim
	args := func(began time.Time) pgx.StrictNamedArgs {
		asked, now.asked = began, began
		args := claimArgs(r)
		from = s.visitsFrom(r.Mark)
		args["looks"], args["from"], args["mark"] = min(mostLooks, r.Limit), from, r.Mark
		args["reached"] = s.earlier.backlog.Load().known(r)
		args["earliest"], args["latest"], args["known"], args["certain"] = nil, nil, nil, wasSet
		if was = s.earlier.clock.Load(); was != nil {
			args["earliest"], args["latest"] = was.between(began)
			args["known"] = was.emptied
		}
		return args
	}
	events, placed, failing, late, others := 0, false, false, false, false
	for removed, calls := 1, 0; removed > 0 && events == 0 && calls < mostClaims && err == nil; calls++ {
		err = s.transactOne(ctx, "claim from lanes", s.statements.ClaimLanes, args, func(rows pgx.Rows) error {
			_, err := pgx.ForEachRow(rows, []any{&removed, &events, &placed, &failing, &now.read, &left, &now.emptied, &late, &others}, func() error { return nil })
			return err
		})
		now.answered = asked.Add(time.Since(asked))
		switch {
		case err != nil:
		case late: // or the clock was set forward: the next answer may take as long, and then is not late
			if removed, wasSet = 1, was.wasSetBy(now); !wasSet {
				s.earlier.clock.Store(&clock{now.read, now.asked, now.answered, was.emptied})
			}
		default:
			s.earlier.clock.Store(&clock{now.read, now.asked, now.answered, now.emptied})
			s.followed(from, asked, left)
		}
		if others || events == 0 || err != nil {
			s.earlier.only.Store(nil)
		}
	}
	if err == nil && events > 0 {
		err = s.do(ctx, "read a claim", func(ctx context.Context, db DB) error {
			rows, err := query(ctx, db, s.statements.Claimed, pgx.StrictNamedArgs{"token": r.Token})
			if err == nil {
				claim, _, err = s.claimed(rows, r)
				claim.Placed, claim.Failing = placed, failing
			}
			return err
		})
	}
	if err == nil {
		return claim, asked, nil
	}
	var certain interface{ SafeToRetry() bool }
	if events > 0 || !errors.As(err, &certain) || !certain.SafeToRetry() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_, failed := s.Release(ctx, r.Token) // or else the lease expires
		err = errors.Join(err, failed)
	}
	return almanac.ClaimResult{}, asked, err
}
