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

// WithLimit adds a limit on requests. The function limit is called for each request that the
// [Authenticator] let in, before anything else is done. When it returns false, the answer is 429 (RFC
// 6585) with wait in Retry-After, rounded up to a second. A request must pass all limits. The function
// must be safe for concurrent use. By default there is no limit. See [WithRate] for a ready-made one.
func WithLimit(limit func(r *http.Request) (wait time.Duration, ok bool)) Option {
	return func(a *api) { a.limits = append(a.limits, limit) }
}

// WithRate limits the requests of each principal (see [WithPrincipal]) to perSecond
// requests a second, 0.001 to 1,000,000. After a pause, up to burst requests are let
// through at once, 1 to 1,000,000. A principal therefore has at most perSecond + burst
// requests in any second. Further requests are answered 429.
//
// Requests that are not let in share one limit of the same size, so that they do not use up
// the rate of a principal. Above that limit they are answered 429 rather than 401. Probes
// are not counted. The limit counts in this process only, and stores the last 10,000
// principals; a principal that it has dropped starts anew.
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

// within returns the refusal of the first limit that the request exceeds.
func (a *api) within(r *http.Request) error {
	for _, limit := range a.limits {
		if wait, ok := limit(r); !ok {
			return tooMany(wait)
		}
	}
	return nil
}

// refuse counts a request that is not let in. It returns refusal, or a 429 above the rate of such requests.
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

// maxPrincipals keeps the memory of a rate below about three megabytes.
const maxPrincipals = 10_000

// spending is how much of their rate principals have used. For each it stores only the time
// at which all used requests will have been earned. That time minus now is the debt (the
// generic cell rate algorithm, ITU-T I.371).
type spending struct {
	every time.Duration // the time in which one request is earned
	ahead time.Duration // the debt at which a burst is used up

	mu     sync.Mutex
	of     map[[sha256.Size]byte]*list.Element
	recent *list.List // of *account, the most recent first
}

type account struct {
	principal [sha256.Size]byte // a digest, because names may have any length
	earned    time.Time
}

func newSpending(perSecond float64, burst int) *spending {
	every := time.Duration(float64(time.Second) / perSecond)
	return &spending{
		every: every, ahead: every * time.Duration(burst-1),
		of: make(map[[sha256.Size]byte]*list.Element), recent: list.New(),
	}
}

// take uses one request. If none is available, it returns the wait until the next one and false.
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
