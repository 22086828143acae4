package httpapi

import (
	"container/list"
	"crypto/sha256"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// WithLimit adds a limit to how much the API is used. The function is asked about
// each request that the [Authenticator] let in, before anything else is done; when
// it says no, the answer is 429 (RFC 6585) with the wait in Retry-After, rounded up
// to a second. All limits must say yes. The function must be safe for concurrent
// use. There is none by default. See [WithRate] for a ready-made one.
func WithLimit(limit func(r *http.Request) (wait time.Duration, ok bool)) Option {
	return func(a *api) { a.limits = append(a.limits, limit) }
}

// WithRate adds a limit that each principal (see [WithPrincipal]) has for
// themselves: perSecond requests a second, 0.001 to 1,000,000, and after a pause up
// to burst of them at once, 1 to 1,000,000: in any second at most perSecond + burst.
// Requests that are not let in have the same rate for all of them together, so nobody
// uses up a principal's: past it they are answered 429 instead of what they were
// refused for. Probes are not counted. It counts in this process only, and remembers
// the 10,000 principals that came last: who is forgotten begins anew.
func WithRate(perSecond float64, burst int) Option {
	return func(a *api) {
		if !(perSecond >= 0.001 && perSecond <= 1e6) || burst < 1 || burst > 1e6 {
			a.bad = append(a.bad, errors.New("httpapi: rate is not 0.001 to 1,000,000 a second, 1 to 1,000,000 at once"))
			return
		}
		spent := newSpending(perSecond, burst)
		a.refusals = append(a.refusals, newSpending(perSecond, burst))
		WithLimit(func(r *http.Request) (time.Duration, bool) { return spent.take(a.principal(r), time.Now()) })(a)
	}
}

// within asks the limits.
func (a *api) within(r *http.Request) error {
	for _, limit := range a.limits {
		if wait, ok := limit(r); !ok {
			return tooMany(wait)
		}
	}
	return nil
}

// refuse counts a request that is not let in, and returns what it is answered.
func (a *api) refuse(refusal error) error {
	for _, spent := range a.refusals {
		if wait, ok := spent.take("", time.Now()); !ok {
			return tooMany(wait)
		}
	}
	return refusal
}

func tooMany(wait time.Duration) error {
	p := newProblem(http.StatusTooManyRequests, "these are more requests than are allowed; try again later")
	seconds := max(1, (wait+time.Second-1)/time.Second)
	p.header = http.Header{"Retry-After": {strconv.FormatInt(int64(seconds), 10)}}
	return p
}

// maxPrincipals keeps the memory of a rate below some three megabytes, whoever
// comes.
const maxPrincipals = 10_000

// spending is what principals have taken of their rate. Of each it keeps only the
// time at which all that was taken will have been earned: what lies ahead of now is
// the debt (the generic cell rate algorithm, ITU-T I.371).
type spending struct {
	every time.Duration // earns one request
	ahead time.Duration // how far the debt of a burst goes

	mu     sync.Mutex
	of     map[[sha256.Size]byte]*list.Element
	recent *list.List // of *account, the one that came last in front
}

type account struct {
	principal [sha256.Size]byte // a digest, since names may be of any length
	earned    time.Time
}

func newSpending(perSecond float64, burst int) *spending {
	every := time.Duration(float64(time.Second) / perSecond)
	return &spending{
		every: every, ahead: every * time.Duration(burst-1),
		of: make(map[[sha256.Size]byte]*list.Element), recent: list.New(),
	}
}

// take takes one request, or says how long it is until there is one.
func (s *spending) take(principal string, now time.Time) (wait time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.account(sha256.Sum256([]byte(principal)))
	if a.earned.Before(now) {
		a.earned = now
	}
	if wait := a.earned.Sub(now) - s.ahead; wait > 0 {
		return wait, false
	}
	a.earned = a.earned.Add(s.every)
	return 0, true
}

func (s *spending) account(principal [sha256.Size]byte) *account {
	if e, ok := s.of[principal]; ok {
		s.recent.MoveToFront(e)
		return e.Value.(*account)
	}
	if len(s.of) == maxPrincipals {
		delete(s.of, s.recent.Remove(s.recent.Back()).(*account).principal)
	}
	a := &account{principal: principal}
	s.of[principal] = s.recent.PushFront(a)
	return a
}
