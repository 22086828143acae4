package almanac_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// name is how an occurrence is owed.
func name(e almanac.Event) string { return e.UserID.String() + " " + e.OccurrenceKey }

// look checks what must hold at every moment.
func (s *stage) look(t *testing.T) {
	open, known := make(map[uuid.UUID]int), make(map[uuid.UUID]int)
	for _, e := range s.events(t) {
		known[e.UserID]++
		if !e.Status.Terminal() {
			open[e.UserID]++
		}
		if leased := e.LeaseToken != uuid.Nil; e.Status == almanac.Processing && !leased {
			s.complain("I9: %s is PROCESSING without a lease", name(e))
		}
		was, seen := s.ended[name(e)]
		switch {
		case seen && (was.ID != e.ID || !same(was, e)):
			s.complain("I2: %s changed after it had ended: %+v, was %+v", name(e), e, was)
		case e.Status.Terminal():
			s.ended[name(e)] = e
		}
	}
	for user, n := range known {
		if over := n == s.Count && open[user] == 0; open[user] != 1 && !over {
			s.complain("I4: %s has %d open events after %d of %d", user, open[user], n, s.Count)
		}
	}
}

// same compares what is stored of an event.
func same(a, b almanac.Event) bool {
	return a.Status == b.Status && a.Version == b.Version && a.LeaseToken == b.LeaseToken && a.FailureReason == b.FailureReason &&
		a.ExecutedAt.Equal(b.ExecutedAt) && a.UpdatedAt.Equal(b.UpdatedAt) && string(a.Payload) == string(b.Payload)
}

// check checks what must hold in the end.
func (s *stage) check(t *testing.T) {
	rows, people := make(map[string]almanac.Event), make(map[uuid.UUID]bool)
	for _, e := range s.events(t) {
		if _, twice := rows[name(e)]; twice {
			s.complain("I3: %s is stored twice", name(e))
		}
		rows[name(e)], people[e.UserID] = e, true
	}
	for user := range people {
		for _, key := range s.keys {
			e, stored := rows[user.String()+" "+key]
			switch {
			case !stored:
				s.complain("I1: %s at %s was never stored", user, key)
			case !e.Status.Terminal() || e.Status == almanac.Failed && e.FailureReason == "":
				s.complain("I1: %s is %s because of %q", name(e), e.Status, e.FailureReason)
			case e.Version != 1+2*e.ClaimCount:
				s.complain("I8: %s is at version %d after %d claims", name(e), e.Version, e.ClaimCount)
			}
		}
	}
	if len(rows) != len(people)*len(s.keys) || len(people) != s.People {
		s.complain("I1: %d events of %d people, want %d of each of %d", len(rows), len(people), len(s.keys), s.People)
	}
	s.checkDeliveries(rows)
	s.checkTold(rows)
	s.checkLeases(t)
}

// checkDeliveries compares what is stored with what was sent.
func (s *stage) checkDeliveries(rows map[string]almanac.Event) {
	accepted, first := make(map[string]int), make(map[string]almanac.Event)
	for _, d := range s.sent {
		e := d.Event
		if d.At.Before(e.Due) {
			s.complain("I6: %s was sent %v early", name(e), e.Due.Sub(d.At))
		}
		if was, again := first[name(e)]; again && (was.IdempotencyKey != e.IdempotencyKey || string(was.Payload) != string(e.Payload)) {
			s.complain("I5: %s was sent as %s with %s, before as %s with %s", name(e), e.IdempotencyKey, e.Payload, was.IdempotencyKey, was.Payload)
		}
		first[name(e)] = e
	}
	for _, d := range s.ledger {
		accepted[name(d.Event)]++
	}
	for who, e := range rows {
		if e.Status == almanac.Completed && accepted[who] == 0 {
			s.complain("I7: %s is COMPLETED, and nobody accepted it", who)
		}
		if repeats := accepted[who] - 1; repeats > e.CrashCount {
			s.complain("I12: %s was accepted %d times more, and was %d times in the hands of one that lost it", who, repeats, e.CrashCount)
		}
		if e.CrashCount > 0 && s.harmless() {
			s.complain("I12: %s lost its worker, and nothing happened to any", who)
		}
	}
}

// checkTold checks that whoever ended an event had claimed it last, and that its end
// was told once, as it is stored.
func (s *stage) checkTold(rows map[string]almanac.Event) {
	holder, ended := make(map[string]int), make(map[string]int)
	for _, told := range s.told {
		e := told.Event
		switch told.Kind {
		case almanac.EventClaimed:
			holder[name(e)] = told.process
			if e.UpdatedAt.Before(e.Due) {
				s.complain("I6: %s was claimed %v early", name(e), e.Due.Sub(e.UpdatedAt))
			}
		case almanac.EventCompleted, almanac.EventFailed:
			ended[name(e)]++
			if !same(e, rows[name(e)]) {
				s.complain("I11: told of %+v, stored is %+v", e, rows[name(e)])
			}
			if by, held := holder[name(e)]; !held || by != told.process {
				s.complain("I2: %s was ended by process %d, and claimed last by %d", name(e), told.process, by)
			}
		default:
		}
	}
	for who := range rows {
		if n := ended[who]; n > 1 || n == 0 && !s.silenced() {
			s.complain("I11: the end of %s was told %d times", who, n)
		}
	}
}

// silenced reports whether a process may have stored something without ever hearing of it:
// when it dies in between, or when it loses the answer and then the lease, which what it
// stored has ended, before a try is answered.
func (s *stage) silenced() bool {
	lost := false
	for f, times := range s.bit {
		if times > 0 && (f.Answer == dies || f.Answer == diesAfter) {
			return true
		}
		lost = lost || times > 0 && f.Call == "settle" && f.Answer == loses
	}
	return lost && (!s.harmless() || s.longestSettling() > faultLease/3)
}

// checkLeases checks that no lease is left of the claims that anybody heard of.
func (s *stage) checkLeases(t *testing.T) {
	var tokens []uuid.UUID
	for _, told := range s.told {
		if told.Kind == almanac.EventClaimed {
			tokens = append(tokens, told.Event.LeaseToken)
		}
	}
	held, err := s.repository.Renew(t.Context(), tokens, faultLease)
	if err != nil || len(held) > 0 {
		s.complain("I9: %d leases are left (%v)", len(held), err)
	}
}
