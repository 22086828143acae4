package dashboard

import (
	"errors"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// eventInstant explains how the instant of an event was found.
type eventInstant struct {
	Problem  string            // why this program cannot explain it; "" if it can
	Asked    calendar.WallTime // the wall time that the event asks for
	Chosen   calendar.WallTime // the wall time that clocks show at the instant
	Reason   string            // in words
	Reading  calendar.Reading  // how often clocks show the wall time
	Differs  time.Time         // the instant by the rules of this program, if it is another one
	Policies []eventPolicy     // what each policy would give
	Drawing  *clockDrawing     // nil in an unknown zone
}

// eventPolicy is what one policy would give.
type eventPolicy struct {
	Kind, Name, Meaning string
	At                  time.Time // zero if there is no instant
	Without             string    // what happens without an instant
	Used                bool      // it is the policy of the event
}

var (
	gapMeanings = []struct {
		policy  calendar.GapPolicy
		meaning string
	}{
		{calendar.GapForward, "later by the width of the gap"},
		{calendar.GapBackward, "earlier by the width of the gap"},
		{calendar.GapBoundary, "the first instant after the gap"},
		{calendar.GapSkip, "leave it out"},
		{calendar.GapReject, "refuse it"},
	}
	foldMeanings = []struct {
		policy  calendar.FoldPolicy
		meaning string
	}{
		{calendar.FoldFirst, "the earlier instant"},
		{calendar.FoldSecond, "the later instant"},
		{calendar.FoldReject, "refuse it"},
	}
)

// explain explains the instant of an event by the rules of this program.
func explain(e almanac.Event) eventInstant {
	z := calendar.StoredTimezone(e.Zone)
	chose := e.Policies.WithDefaults()
	x := eventInstant{Asked: e.Wall}
	var unknown *calendar.InvalidTimezoneError
	r, err := z.Resolve(e.Wall, e.Policies)
	if errors.As(err, &unknown) {
		x.Problem = "This program does not know the zone, so it cannot explain the instant. Renew its zone data."
		return x
	}
	x.Chosen = z.WallTime(e.Due)
	drawing := drawClocks(z, e.Wall, e.Due.Truncate(time.Second), []namedInstant{{e.Due, "chosen"}})
	x.Drawing = &drawing
	if err != nil {
		x.Problem = "By the rules of this program the policies of the event give no instant: " + resolveProblem(err) + "."
	} else {
		x.Reason, x.Reading = r.Reason(), r.Reading
		if !r.Instant.Equal(e.Due) {
			x.Differs = r.Instant
		}
	}
	for _, one := range gapMeanings {
		p := chose
		p.Gap = one.policy
		x.Policies = append(x.Policies, policyOf(z, e.Wall, p, eventPolicy{Kind: "gap", Name: string(p.Gap), Meaning: one.meaning, Used: p == chose}))
	}
	for _, one := range foldMeanings {
		p := chose
		p.Fold = one.policy
		x.Policies = append(x.Policies, policyOf(z, e.Wall, p, eventPolicy{Kind: "fold", Name: string(p.Fold), Meaning: one.meaning, Used: p == chose}))
	}
	return x
}

// policyOf completes the row of a policy.
func policyOf(z calendar.Timezone, wall calendar.WallTime, p calendar.Policies, row eventPolicy) eventPolicy {
	r, err := z.Resolve(wall, p)
	if row.At = r.Instant; err != nil {
		row.Without = resolveProblem(err)
	}
	return row
}

// resolveProblem says as a clause why a wall time has no instant.
func resolveProblem(err error) string {
	var refusedBy *calendar.WallTimeError
	switch {
	case errors.As(err, &refusedBy) && refusedBy.Rejected:
		return "refused, because " + refusedBy.Change.String()
	case errors.As(err, &refusedBy):
		return "left out, because " + refusedBy.Change.String()
	}
	return "the wall time or a policy is invalid"
}
