package ops

import (
	"context"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// Statistics describes what is stored, for operators. A scheduler does not use it.
type Statistics interface {
	// Stats returns numbers about what is stored. The cost is bounded, however much that
	// is: numbers that would take long are estimated, or counted up to a limit (see
	// [Count]). All numbers are of one moment. Stats changes nothing and locks nothing.
	Stats(ctx context.Context) (Stats, error)

	// Retries returns what is tried again after a failure. It costs less than Stats, so that a
	// program can ask every few seconds, and measure it. Retries changes nothing and locks nothing.
	Retries(ctx context.Context) (Retries, error)

	// DueCounts counts the events of a zone by the quarter hour in which they are due,
	// whatever their status is. The numbers are exact, or estimates if much was stored in
	// the last moments. The cost is that of the quarter hours that have events, however
	// many events these are. DueCounts changes nothing and locks nothing.
	DueCounts(ctx context.Context, r DueCountsRequest) (DueCountsResult, error)

	// LaneLoads returns the lanes that have limits or a weight, are paused, or whose receiver fails, with what waits for them, in
	// alphabetical order. The cost is bounded, however many lanes there are and however much waits. LaneLoads changes nothing and locks nothing.
	LaneLoads(ctx context.Context) ([]LaneLoad, error)

	// LaneWait returns what a PENDING event that is available waits for: its lane, and the lane that contains it. It is the
	// zero LaneWait for any other event. The event is as stored, and need not be stored any more. LaneWait changes nothing
	// and locks nothing.
	LaneWait(ctx context.Context, e almanac.Event) (LaneWait, error)

	// Leases returns up to limit leases, oldest claim first, then by token. The limit is
	// 1 to 1,000. Zero means 1,000. Any other limit is a [*almanac.ValidationError]. Leases
	// changes nothing and locks nothing.
	Leases(ctx context.Context, limit int) ([]Lease, error)
}

// Stats has numbers about what a repository stores. Deleted users are left out of all numbers of users.
type Stats struct {
	At time.Time // the repository's clock, UTC
	// Analyzed is when the oldest of the estimates was made, UTC. An estimate from the
	// statistics of the database is as old as these statistics. An estimate from a sample
	// was made at At. Zero means that no number is estimated.
	Analyzed time.Time
	// Backlog is the number of PENDING events that are available at At, counted up to
	// 100,000. It includes the types that are paused.
	Backlog Count
	// Oldest is since when the first event of the backlog has been available, UTC. Zero
	// means that there is no backlog.
	Oldest time.Time
	// Delayed is the number of PENDING events that were due before At and become available
	// after it, such as at their next attempt or in a window, counted up to 5,000.
	Delayed Count
	Users   Count
	// Events are the numbers of events by type and status, in alphabetical order of
	// types, then in the order of an event's life. Numbers of zero are left out.
	Events []TypeCount
	// Zones are the time zones of users and of PENDING events. The zone with most users comes first, and
	// zones with the same number of users are in alphabetical order. At most 1,000 zones are listed.
	Zones []ZoneCount
	// Wave has the PENDING events by the quarter hour of [almanac.Event].AvailableAt. The first
	// quarter hour is that of At, including what was available before At. There are
	// always 192 quarter hours, which is 48 hours.
	Wave []QuarterCount
}

// Count is a number of users or events.
type Count struct {
	N    int64
	Kind CountKind
}

// CountKind is how exact a [Count] is.
type CountKind int

// The kinds of counts.
const (
	Exact     CountKind = iota // everything was counted
	AtLeast                    // counting ended at a limit, and there may be more
	Estimated                  // estimated from a sample or from the statistics of the database
)

// String returns the count in words: "1,234", "100,000+" for at least that many, or
// "~1,200,000" for an estimate.
func (c Count) String() string {
	text := strconv.FormatInt(c.N, 10)
	first := 0
	if c.N < 0 {
		first = 1 // the sign
	}
	for i := len(text) - 3; i > first; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	switch c.Kind {
	case AtLeast:
		return text + "+"
	case Estimated:
		return "~" + text
	default:
		return text
	}
}

// TypeCount is the number of events of one type in one status.
type TypeCount struct {
	Type   string
	Status almanac.Status
	Count  Count
}

// ZoneCount has the numbers of one time zone.
type ZoneCount struct {
	Zone    string // an IANA name
	Users   Count  // the users who live in the zone
	Pending Count  // the PENDING events whose [almanac.Event].Zone it is
}

// QuarterCount is the number of events in a quarter hour.
type QuarterCount struct {
	From  time.Time // the beginning of the quarter hour, UTC
	Count Count
}

// Retries has what is tried again after a failure: during an outage of a receiver, events
// wait for another attempt, and none of them has failed yet.
type Retries struct {
	// Events are the PENDING events of which an attempt has failed.
	Events []RetryGroup
	// Series are the stalled series: see [almanac.StalledSeries].
	Series []RetryGroup
}

// RetryGroup has the events or the series of one type that failed with the same error.
// Groups are in alphabetical order of types, and the greatest group of a type comes first.
type RetryGroup struct {
	Type string
	// Error is the error of the last attempt. It is empty for a stalled series that no
	// program with the handler has tried to continue yet.
	Error string
	// Count is how many there are. The errors of up to 1,000 events of a type are read, those of the
	// next attempts. The count is an estimate if the type has more such events, and at least a number if
	// it has 10,000 or more. Of each type up to 1,000 stalled series are counted. If 4,000 events or
	// series of other types were read before, the events of the type form one group without an error.
	Count Count
	// Since is the first due instant of the events that were read, or when the first series
	// stalled. Next is when the first of them is tried again, and may have passed. Both are
	// UTC, and zero if no event of the type was read.
	Since, Next time.Time
}

// DueCountsRequest selects the events that DueCounts counts.
type DueCountsRequest struct {
	Zone string // an IANA name; selects the events whose [almanac.Event].Zone it is
	Type string // an event type; empty means all types
	// The quarter hours that begin at From or later, and before Until. Both must be set.
	From, Until time.Time
}

// DueCountsResult has the events of a zone by the quarter hour of their [almanac.Event].Due.
type DueCountsResult struct {
	At       time.Time      // the repository's clock, UTC
	Quarters []QuarterCount // in order; quarter hours without events are left out
}

// Lease describes the lease of a claim.
type Lease struct {
	Token uuid.UUID
	Owner string // see [almanac.ClaimRequest]
	// Program and ZoneData are as in the [almanac.ClaimRequest]. They are empty if they are
	// unknown, as for a claim of a program of an earlier release.
	Program, ZoneData string
	Events            int       // how many events were leased; some of them may have ended
	ClaimedAt         time.Time // UTC
	ExpiresAt         time.Time // UTC
	// Expired reports whether ExpiresAt has passed by the repository's clock. The events
	// are then released by the next call of [almanac.ClaimRepository].ReleaseExpired.
	Expired bool
}

// AuditStep is a row of the audit trail: one step of an event or of a user.
type AuditStep struct {
	At        time.Time `json:"at"`                  // UTC, by the database clock
	Kind      string    `json:"kind"`                // created, rescheduled, removed, claimed, returned (before it began), released, completed, failed or cancelled; of a user: opt_outs_changed
	Version   int       `json:"version"`             // of the event or the user after the step
	Detail    string    `json:"detail,omitempty"`    // why the event failed, was released or was cancelled; what the user refuses now, as JSON; "" otherwise
	Actor     string    `json:"actor,omitempty"`     // the role and the application_name of the session
	Principal string    `json:"principal,omitempty"` // who asked for the step, such as the operator's name; "" if unknown; see almanac.WithPrincipal
}
