package shards

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// maxClaim is the greatest limit of a claim: as many events as a page has at most, because a claim looks what is due first.
const maxClaim = 1000

// Claim looks what is due in all schemas, divides the limit by that, and claims in all at once. What schemas leave of their parts is
// claimed in the others. Each schema claims under a token of its own, so that a lease is held or lost as a whole. A schema that does
// not answer in a quarter of [Options].Patience is left out, unless none does: then the error is a [*PartialError].
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
	answered := false
	left := request.Limit
	for _, p := range parts {
		left -= p.quota
	}
	for round := range 2 {
		open := spread(parts, left, round, int(s.claims.Load()))
		for i, p := range open {
			if p.token = uuid.New(); i == 0 && round == 0 {
				p.token = request.Token
			}
		}
		claims := s.claimParts(ctx, request, open)
		if err := s.refusal(ctx, claims, m.result.Events); err != nil {
			return almanac.ClaimResult{}, err
		}
		for i, claim := range claims {
			p := open[i]
			if claim.err != nil {
				failed.add(p.schema, claim.err)
				m.partial, p.failed = true, true
				continue
			}
			answered = true
			m.add(*p, claim.is, p.limit)
			p.note(claim.is)
		}
		if left = request.Limit - len(m.result.Events); left == 0 {
			break
		}
	}
	for _, p := range parts {
		if !p.asked && !p.failed {
			m.skip(p)
		}
	}
	if !answered {
		return almanac.ClaimResult{}, failed.partial()
	}
	return m.merged(), nil
}

// spread sets the limits of the parts that claim in a round, and returns these parts. In the first round, they are the quotas, and the rest of the limit in
// equal parts, because there may be events before the mark, which have waited for their lanes. In the second round, what is left is for
// those that may have more. first says which part is the first to have one more than others.
func spread(parts []part, left, round, first int) (open []*part) {
	var may []*part
	for i := range parts {
		if p := &parts[i]; round == 0 || !p.failed && (!p.asked || p.full) {
			may = append(may, p)
		}
	}
	for i := range may {
		p := may[(first+i)%len(may)]
		if p.limit = left / len(may); i < left%len(may) {
			p.limit++
		}
		if round == 0 {
			p.some = p.limit == 0 && len(p.types) > 0
			p.limit += p.quota
		} else {
			p.some = false
		}
	}
	return slices.DeleteFunc(may, func(p *part) bool { return p.limit == 0 })
}

// outcome is the claim of a part.
type outcome struct {
	is  almanac.ClaimResult
	err error
}

// claimParts claims in several schemas at once.
func (s *Store) claimParts(ctx context.Context, request almanac.ClaimRequest, parts []*part) []outcome {
	claims := make([]outcome, len(parts))
	var wg sync.WaitGroup
	for i, p := range parts {
		wg.Go(func() {
			one := request
			one.Token = p.token
			if one.Limit = p.limit; p.some {
				one.Types = p.types // an event of another type is not its turn
			}
			claims[i].is, claims[i].err = quicklyIn(ctx, s, p.schema, claiming, func(ctx context.Context) (almanac.ClaimResult, error) {
				return s.schemas[p.schema].Repository.Claim(ctx, one)
			})
			if claims[i].err != nil && !errors.Is(claims[i].err, errAbsent) {
				s.releaseLost(ctx, p.schema, p.token)
			}
		})
	}
	wg.Wait()
	return claims
}

// refusal returns the error of a claim that is about the call. Then it releases what other parts have claimed, and what was claimed before.
func (s *Store) refusal(ctx context.Context, claims []outcome, before []almanac.Event) error {
	i := slices.IndexFunc(claims, func(one outcome) bool { return isRefusal(one.err) })
	if i < 0 {
		return nil
	}
	for _, one := range claims {
		before = append(before, one.is.Events...)
	}
	released := make(map[uuid.UUID]bool)
	for _, e := range before {
		if !released[e.LeaseToken] {
			released[e.LeaseToken] = true
			s.releaseLost(ctx, s.of(e.UserID), e.LeaseToken)
		}
	}
	return claims[i].err
}

// releaseLost releases what a claim may have taken whose answer was lost, even if the claim used up its time. If that fails too, the lease expires.
func (s *Store) releaseLost(ctx context.Context, schema int, token uuid.UUID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askedFor)
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
	some   bool     // whether only these types are claimed
	limit  int      // of the present round
	token  uuid.UUID
	asked  bool // whether it has claimed
	full   bool // whether it has claimed as many as the limit
	failed bool
}

// note notes the claim of a round.
func (p *part) note(claim almanac.ClaimResult) {
	p.asked, p.full = true, len(claim.Events) >= p.limit
	claimed := make(map[uuid.UUID]bool, len(claim.Events))
	for _, e := range claim.Events {
		claimed[e.ID] = true
	}
	p.events = slices.DeleteFunc(p.events, func(e almanac.Event) bool { return claimed[e.ID] })
}

// divide returns the parts of a claim. Those with a quota come first, the oldest events first.
func (s *Store) divide(ctx context.Context, request almanac.ClaimRequest) ([]part, error) {
	answers, err := allQuickly(ctx, s, func(ctx context.Context, schema int) (part, error) {
		return s.look(ctx, schema, request, request.Types)
	})
	total := 0
	for _, one := range answers {
		total += len(one.is.events)
	}
	if total > request.Limit && len(request.Types) > 1 { // a type may hide behind the backlog of another one
		answers, err = allQuickly(ctx, s, func(ctx context.Context, schema int) (part, error) {
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
	turn := s.claims.Add(1)
	if total > 0 {
		share(parts, request.Limit, turn)
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

// Until returns the shortest time of the schemas that answer.
func (s *Store) Until(ctx context.Context, types []string, mark time.Time) (time.Duration, bool, error) {
	type wait struct {
		d     time.Duration
		known bool
	}
	answers, err := allQuickly(ctx, s, func(ctx context.Context, schema int) (w wait, err error) {
		w.d, w.known, err = s.schemas[schema].Repository.Until(ctx, types, mark)
		return w, err
	})
	if len(answers) == 0 {
		return 0, false, err
	}
	var first wait
	for _, one := range answers {
		if one.is.known && (!first.known || one.is.d < first.d) {
			first = one.is
		}
	}
	return first.d, first.known, nil
}

// Renew extends the leases of all schemas. If a schema does not answer, it returns the tokens that the others hold, and a
// [*PartialError].
func (s *Store) Renew(ctx context.Context, tokens []uuid.UUID, lease time.Duration) ([]uuid.UUID, error) {
	answers, err := gathered(ctx, s, func(schema int) ([]uuid.UUID, error) {
		return quicklyIn(ctx, s, schema, renewing, func(ctx context.Context) ([]uuid.UUID, error) {
			return ask(s, schema, func(r almanac.Repository) ([]uuid.UUID, error) { return r.Renew(ctx, tokens, lease) })
		})
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
	groups := bySchema(s, settlements, func(one almanac.Settlement) uuid.UUID { return one.Event.UserID })
	settled, errs := make([][]almanac.SettleResult, len(groups)), make([]error, len(groups))
	var wg sync.WaitGroup
	for schema, group := range groups {
		if group != nil {
			wg.Go(func() {
				settled[schema], errs[schema] = quicklyIn(ctx, s, schema, settling, func(ctx context.Context) ([]almanac.SettleResult, error) {
					return ask(s, schema, func(r almanac.Repository) ([]almanac.SettleResult, error) {
						return r.Settle(ctx, pick(settlements, group))
					})
				})
			})
		}
	}
	wg.Wait()
	failed := s.failures()
	answered := len(settlements) == 0
	for schema, group := range groups {
		err := errs[schema]
		if isRefusal(err) || ctx.Err() != nil && err != nil {
			return nil, err
		}
		failed.add(schema, err)
		answered = answered || group != nil && err == nil
		for k, i := range group {
			if err != nil {
				results[i].Err = &laterError{err}
			} else {
				results[i] = settled[schema][k]
			}
		}
	}
	if !answered {
		return nil, failed.partial()
	}
	return results, nil
}
