package shards

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// maxClaim is the greatest limit of a claim: as many events as a page has at most, because a claim looks what is due first.
const maxClaim = 1000

// Claim looks what is due in all schemas, divides the limit by that, and claims in one schema after another. What a schema
// leaves of its part goes to the next ones. All leases have the same token. A schema that does not answer is left out,
// unless none does: then the error is a [*PartialError].
func (s *Store) Claim(ctx context.Context, request almanac.ClaimRequest) (almanac.ClaimResult, error) {
	if s.bound >= 0 || len(s.names) == 1 || request.Limit < 1 {
		return s.schemas[max(s.bound, 0)].Repository.Claim(ctx, request)
	}
	request.Memory, request.Limit = nil, min(request.Limit, maxClaim)
	parts, err := s.divide(ctx, request)
	if _, partial := asPartial(err); !partial && err != nil {
		return almanac.ClaimResult{}, err
	}
	failed := s.failures()
	if len(parts) == 0 || !failed.takes(err) {
		return almanac.ClaimResult{}, err
	}
	m := merger{request: request, partial: err != nil}
	m.result.Users = make(map[uuid.UUID]almanac.User)
	left, later, answered := request.Limit, 0, false
	for _, p := range parts {
		later += p.quota
	}
	for _, p := range parts {
		later -= p.quota
		one := request
		if one.Limit = left - later; one.Limit < 1 {
			m.skip(p)
			continue
		}
		p.some = one.Limit == p.quota && len(p.types) < len(request.Types)
		if p.some {
			one.Types = p.types // an event of another type is not its turn
		}
		claim, err := s.schemas[p.schema].Repository.Claim(ctx, one)
		if err != nil {
			if isRefusal(err) {
				return almanac.ClaimResult{}, err
			}
			failed.add(p.schema, err)
			m.partial = true
			s.releaseLost(ctx, p.schema, request.Token)
			continue
		}
		answered = true
		left -= len(claim.Events)
		m.add(p, claim, one.Limit)
	}
	if !answered {
		return almanac.ClaimResult{}, failed.partial()
	}
	return m.merged(), nil
}

// releaseLost releases what a claim may have taken whose answer was lost. If that fails too, the lease expires.
func (s *Store) releaseLost(ctx context.Context, schema int, token uuid.UUID) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, _ = s.schemas[schema].Repository.Release(ctx, token)
}

// part is what a schema has for a claim.
type part struct {
	schema int
	now    time.Time       // its clock, before events was read
	events []almanac.Event // which can be claimed, in the order of AvailableAt
	bound  time.Time       // events that become available later than this were not all read; zero if all were
	quota  int
	types  []string // of the quota
	some   bool     // whether only these types were claimed
}

// divide returns the parts of a claim. Those with a quota come first, the oldest events first.
func (s *Store) divide(ctx context.Context, request almanac.ClaimRequest) ([]part, error) {
	answers, err := allIndexed(ctx, s, func(ctx context.Context, schema int) (part, error) {
		return s.look(ctx, schema, request, request.Types)
	})
	total := 0
	for _, one := range answers {
		total += len(one.is.events)
	}
	if total > request.Limit && len(request.Types) > 1 { // a type may hide behind the backlog of another one
		answers, err = allIndexed(ctx, s, func(ctx context.Context, schema int) (part, error) {
			var p part
			for i, t := range request.Types {
				of, err := s.look(ctx, schema, request, []string{t})
				if err != nil {
					return part{}, err
				}
				if i == 0 {
					p.schema, p.now = schema, of.now
				}
				p.events, p.bound = append(p.events, of.events...), earliest(p.bound, of.bound)
			}
			slices.SortStableFunc(p.events, inOrder(almanac.NextFirst))
			return p, nil
		})
	}
	parts := make([]part, len(answers))
	for i, one := range answers {
		parts[i] = one.is
	}
	if total > 0 {
		share(parts, request.Limit, s.claims.Add(1))
	}
	slices.SortStableFunc(parts, func(a, b part) int {
		if a.quota == 0 || b.quota == 0 {
			return cmp.Compare(b.quota, a.quota)
		}
		return a.events[0].AvailableAt.Compare(b.events[0].AvailableAt)
	})
	return parts, err
}

// look reads which events of types a schema has for a claim.
func (s *Store) look(ctx context.Context, schema int, request almanac.ClaimRequest, types []string) (part, error) {
	r := s.schemas[schema].Repository
	p := part{schema: schema}
	var err error
	if p.now, err = r.Now(ctx); err != nil {
		return p, err
	}
	ofTypes := make(almanac.Or, len(types))
	for i, t := range types {
		ofTypes[i] = almanac.OfType(t)
	}
	page := almanac.Page{Limit: request.Limit, Order: almanac.NextFirst}
	if !request.Mark.IsZero() && !request.Mark.After(p.now) {
		page.After = cursorAt(request.Mark)
	}
	found, err := r.Find(ctx, almanac.And{almanac.InStatus(almanac.Pending), ofTypes}, page)
	if err != nil {
		return p, err
	}
	if n := len(found.Items); found.Next != "" && n > 0 {
		p.bound = found.Items[n-1].AvailableAt
	}
	p.events = slices.DeleteFunc(found.Items, func(e almanac.Event) bool {
		ahead := e.AvailableAt.After(p.now)
		return ahead && (e.ClaimCount > 0 || e.AvailableAt.After(p.now.Add(request.Ahead)))
	})
	return p, nil
}

// cursorAt returns the cursor of the page that begins with the events which become available at an instant.
func cursorAt(at time.Time) almanac.Cursor {
	return almanac.PageOf([]almanac.Event{{AvailableAt: at}, {}}, 1, almanac.NextFirst).Next
}

// share divides a limit. The types take turns, beginning with one that changes from claim to claim, and of each type the oldest events
// come first. A schema lets the types of its part take turns again. So it may claim a few more events of one type than were
// chosen, and fewer of another one.
func share(parts []part, limit int, first uint32) {
	type chosen struct {
		almanac.Event
		part int
	}
	byType := make(map[string][]chosen)
	for i, p := range parts {
		for _, e := range p.events {
			byType[e.Type] = append(byType[e.Type], chosen{e, i})
		}
	}
	types := slices.Sorted(maps.Keys(byType))
	for _, list := range byType {
		slices.SortStableFunc(list, func(a, b chosen) int { return inOrder(almanac.NextFirst)(a.Event, b.Event) })
	}
	for turn, given := 0, true; given && limit > 0; turn++ {
		given = false
		for i := range types {
			t := types[(i+int(first%uint32(len(types))))%len(types)]
			if list := byType[t]; turn < len(list) && limit > 0 {
				p := &parts[list[turn].part]
				p.quota, limit, given = p.quota+1, limit-1, true
				if !slices.Contains(p.types, t) {
					p.types = append(p.types, t)
				}
			}
		}
	}
}

// merger merges the claims of schemas.
type merger struct {
	request almanac.ClaimRequest
	result  almanac.ClaimResult
	partial bool      // whether a schema is missing
	reached time.Time // until when the events of all schemas are claimed
	any     bool      // whether reached is known
}

// until notes until when the events of a schema are claimed.
func (m *merger) until(at time.Time) {
	if !m.any || at.Before(m.reached) {
		m.reached, m.any = at, true
	}
}

// skip notes a schema that was not asked.
func (m *merger) skip(p part) {
	if len(p.events) > 0 {
		m.until(p.events[0].AvailableAt)
	}
	m.until(p.now)
}

// add adds the claim of a schema.
func (m *merger) add(p part, claim almanac.ClaimResult, limit int) {
	r := &m.result
	switch {
	case claim.At.IsZero(): // it has not searched
	case r.At.IsZero():
		r.At = claim.At
	case m.request.Ahead > 0 && claim.At.Before(r.At): // an event that is due by its schema's clock may seem ahead, but not the reverse
		r.At = claim.At
	case m.request.Ahead <= 0 && claim.At.After(r.At):
		r.At = claim.At
	}
	r.Events = append(r.Events, claim.Events...)
	maps.Copy(r.Users, claim.Users)
	if claim.Limited != nil && r.Limited == nil {
		r.Limited = make(map[uuid.UUID]time.Time)
	}
	maps.Copy(r.Limited, claim.Limited)
	r.Placed, r.Failing = r.Placed || claim.Placed, r.Failing || claim.Failing
	r.Query += claim.Query
	if claim.Reached.After(r.Reached) {
		r.Reached = claim.Reached
	}
	m.until(p.until(claim, limit))
}

// until returns until when the events of a schema are claimed after its claim.
func (p part) until(claim almanac.ClaimResult, limit int) time.Time {
	if claim.At.IsZero() {
		return p.now
	}
	if len(claim.Events) < limit && !p.some {
		return claim.At
	}
	claimed := make(map[uuid.UUID]bool, len(claim.Events))
	for _, e := range claim.Events {
		claimed[e.ID] = true
	}
	at := claim.At
	if !p.now.IsZero() && p.now.Before(at) {
		at = p.now
	}
	if !p.bound.IsZero() && p.bound.Before(at) {
		at = p.bound
	}
	known := 0
	for _, e := range p.events {
		if claimed[e.ID] {
			known++
		} else if e.AvailableAt.Before(at) {
			at = e.AvailableAt
		}
	}
	if known < len(claim.Events) { // others were claimed than those that were read, so some of them may have gone before these
		return earliest(at, claim.Reached)
	}
	return at
}

func (m *merger) merged() almanac.ClaimResult {
	r := m.result
	slices.SortFunc(r.Events, func(a, b almanac.Event) int { return cmp.Or(a.Due.Compare(b.Due), bytes.Compare(a.ID[:], b.ID[:])) })
	if m.any && m.reached.Before(r.Reached) {
		r.Reached = m.reached
	}
	if m.partial && !r.Reached.IsZero() {
		r.Reached = m.request.Mark // of the schema that is missing, nothing was claimed
	}
	return r
}

// Until returns the shortest time of the schemas that answer.
func (s *Store) Until(ctx context.Context, types []string, mark time.Time) (time.Duration, bool, error) {
	type wait struct {
		d     time.Duration
		known bool
	}
	answers, err := copies(ctx, s, func(ctx context.Context, r almanac.Repository) (w wait, err error) {
		w.d, w.known, err = r.Until(ctx, types, mark)
		return w, err
	})
	var first wait
	for _, one := range answers {
		if one.is.known && (!first.known || one.is.d < first.d) {
			first = one.is
		}
	}
	return first.d, first.known, err
}

// Renew extends the leases of all schemas. If a schema does not answer, it returns the tokens that the others hold, and a
// [*PartialError].
func (s *Store) Renew(ctx context.Context, tokens []uuid.UUID, lease time.Duration) ([]uuid.UUID, error) {
	answers, err := all(ctx, s, func(ctx context.Context, r almanac.Repository) ([]uuid.UUID, error) {
		return r.Renew(ctx, tokens, lease)
	})
	held := joined(answers)
	is := make(map[uuid.UUID]bool, len(held))
	return slices.DeleteFunc(held, func(token uuid.UUID) bool {
		was := is[token]
		is[token] = true
		return was
	}), err
}

// Settle stores the outcomes of each schema. If a schema does not answer, the results of its events match
// [almanac.ErrLocked], so that they are settled later. The call fails if no schema answers.
func (s *Store) Settle(ctx context.Context, settlements []almanac.Settlement) ([]almanac.SettleResult, error) {
	results := make([]almanac.SettleResult, len(settlements))
	failed := s.failures()
	answered := len(settlements) == 0
	for schema, group := range bySchema(s, settlements, func(one almanac.Settlement) uuid.UUID { return one.Event.UserID }) {
		if group == nil {
			continue
		}
		settled, err := ask(s, schema, func(r almanac.Repository) ([]almanac.SettleResult, error) {
			return r.Settle(ctx, pick(settlements, group))
		})
		if isRefusal(err) || ctx.Err() != nil && err != nil {
			return nil, err
		}
		failed.add(schema, err)
		answered = answered || err == nil
		for k, i := range group {
			if err != nil {
				results[i].Err = &laterError{err}
			} else {
				results[i] = settled[k]
			}
		}
	}
	if !answered {
		return nil, failed.partial()
	}
	return results, nil
}
