package almanac

import (
	"context"
	"time"
)

// ClaimMeasurer is the ability of an [Observer] to be notified of each claim that Run
// makes, also of claims that found no event or failed.
type ClaimMeasurer interface {
	// MeasureClaim takes the measurements of one claim. It is called in the goroutine
	// that claims and holds it up, and must be safe for concurrent use.
	MeasureClaim(ctx context.Context, m ClaimMeasurement)
}

// ClaimMeasurement has the durations and the result of one claim.
type ClaimMeasurement struct {
	// Query is how long the repository's statement took (see [Claim.Query]); zero when
	// the claim failed, and where the repository does not measure it.
	Query time.Duration
	// Total is how long the whole call took, with the wait for a connection and with
	// repeated attempts.
	Total     time.Duration
	BatchSize int   // how many events were asked for at most
	Found     int   // how many events were claimed
	Ahead     bool  // whether events before their instant were asked for (see WithLookAhead)
	Err       error // why the claim failed; nil if it did not
}

// UpdateMeasurer is the ability of an [Observer] to be notified of versioned updates:
// writes that name the version that they replace, and fail when another version is
// stored.
type UpdateMeasurer interface {
	// MeasureUpdate takes the measurements of one call that stores versioned updates, in
	// the host's transaction too. It is called in the goroutine that stores them and
	// holds it up, and must be safe for concurrent use.
	MeasureUpdate(ctx context.Context, m UpdateMeasurement)
}

// UpdateKind names what a versioned update replaces.
type UpdateKind string

// The kinds of versioned updates that a scheduler makes.
const (
	UpdateOutcome UpdateKind = "outcome" // of a claimed event, by Run
	UpdateUser    UpdateKind = "user"    // by UpdateUser, Reschedule and DeleteUser
	UpdateEvent   UpdateKind = "event"   // a pending event, by Cancel, RunNow and Operate
)

// UpdateMeasurement counts versioned updates. An update that failed for another reason
// than its version is in neither count.
type UpdateMeasurement struct {
	Kind      UpdateKind
	Stored    int // updates that replaced the version that they named
	Conflicts int // updates that were refused because another version was stored
}
