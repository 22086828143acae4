package icalendar

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// Previewer returns the next occurrences of a user. An [almanac.Scheduler] is one.
type Previewer interface {
	// Preview returns the next n occurrences of a type; see [almanac.Scheduler].
	Preview(ctx context.Context, userID uuid.UUID, eventType string, n int) (almanac.PreviewResult, error)
}

// Reader is the part of an [almanac.Repository] that the feed reads from.
type Reader interface {
	// User returns a user, or an [*almanac.NotFoundError].
	User(ctx context.Context, id uuid.UUID) (almanac.User, error)
	// Find returns a page of the events that match spec.
	Find(ctx context.Context, spec almanac.Spec, page almanac.Page) (almanac.List[almanac.Event], error)
	// Now returns the repository's time.
	Now(ctx context.Context) (time.Time, error)
}

// Settings are the settings of a feed. Zero in a field means its default.
type Settings struct {
	// Name is the name of the calendar. The default is "Events".
	Name string
	// Types are the event types in the calendar. The default is every type of the registry.
	Types []string
	// Ahead is how many occurrences of each type are in the calendar, from the present on: 1
	// to 1,000. The default is 10.
	Ahead int
	// Past is for how long an event stays in the calendar after its instant. The default is
	// 30 days. Of stored events, the calendar has at most the 1,000 that were created last.
	Past time.Duration
	// Refresh is how often calendar programs should read the calendar again, at least a
	// minute. Programs may keep the calendar for as long. The default is 6 hours.
	Refresh time.Duration
	// Summary returns the title of an event, in any characters. An occurrence that is not
	// stored yet is passed as the event that [almanac.NewEvent] makes of it. Summary must be
	// safe for concurrent use. The default is the event type.
	Summary func(u almanac.User, e almanac.Event) string
	// Log receives a line at Error when a calendar cannot be made, with the user's id. The
	// default is slog.Default().
	Log *slog.Logger
}

// Feed makes calendars. It is safe for concurrent use.
type Feed struct {
	previews Previewer
	reader   Reader
	registry almanac.Registry
	settings Settings
}

// New returns a feed of the events of a registry. The previewer usually is the scheduler of
// that registry, and the reader its repository. The error names every nil argument and every
// setting that is out of bounds.
func New(previews Previewer, reader Reader, registry almanac.Registry, s Settings) (*Feed, error) {
	if previews == nil || reader == nil || registry == nil {
		return nil, errors.New("icalendar: the previewer, the reader or the registry is nil")
	}
	s.Name = cmp.Or(s.Name, "Events")
	s.Ahead = cmp.Or(s.Ahead, 10)
	s.Past = cmp.Or(s.Past, 30*24*time.Hour)
	s.Refresh = cmp.Or(s.Refresh, 6*time.Hour)
	if s.Types = slices.Clone(s.Types); len(s.Types) == 0 {
		s.Types = registry.EventTypes()
	}
	if s.Summary == nil {
		s.Summary = func(_ almanac.User, e almanac.Event) string { return e.Type }
	}
	s.Log = cmp.Or(s.Log, slog.Default())
	var errs []error
	for _, t := range s.Types {
		if _, err := registry.Handler(t); err != nil {
			errs = append(errs, fmt.Errorf("icalendar: Types: %w", err))
		}
	}
	if s.Ahead < 1 || s.Ahead > 1000 {
		errs = append(errs, fmt.Errorf("icalendar: Ahead of %d is not between 1 and 1000", s.Ahead))
	}
	if s.Past < 0 {
		errs = append(errs, fmt.Errorf("icalendar: Past of %v is negative", s.Past))
	}
	if s.Refresh < time.Minute {
		errs = append(errs, fmt.Errorf("icalendar: Refresh of %v is less than a minute", s.Refresh))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &Feed{previews, reader, registry, s}, nil
}

// Calendar returns the calendar of a user, as text/calendar in UTF-8. The error is an
// [*almanac.NotFoundError] if the user does not exist. Other errors are those of the repository and of
// the handlers. If a policy rejects a wall time, the later occurrences of that series are left out. Those
// of a birthday by a calendar that this program does not know are left out, too.
func (f *Feed) Calendar(ctx context.Context, userID uuid.UUID) ([]byte, error) {
	u, err := f.reader.User(ctx, userID)
	if err != nil {
		return nil, err
	}
	now, err := f.reader.Now(ctx)
	if err != nil {
		return nil, err
	}
	var types almanac.Or
	for _, t := range f.settings.Types {
		types = append(types, almanac.OfType(t))
	}
	spec := almanac.And{almanac.ForUser(u.ID), types, almanac.DueBetween{From: now.Add(-f.settings.Past)}}
	found, err := f.reader.Find(ctx, spec, almanac.Page{Limit: 1000, Order: almanac.NewestFirst})
	if err != nil {
		return nil, err
	}
	stored := found.Items
	shown, err := f.ahead(ctx, u, stored)
	if err != nil {
		return nil, err
	}
	repeated := make(map[uuid.UUID]bool)
	for _, e := range stored {
		if e.Origin.Kind == almanac.OriginRequeued {
			repeated[e.Origin.From] = true
		}
	}
	for _, e := range stored {
		if !repeated[e.ID] && f.owes(u, e) {
			shown = append(shown, e)
		}
	}
	slices.SortFunc(shown, func(a, b almanac.Event) int {
		return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(uid(a), uid(b)))
	})
	return f.write(u, shown), nil
}

// ahead returns the occurrences that are owed to u after the stored events of their series, as events.
func (f *Feed) ahead(ctx context.Context, u almanac.User, stored []almanac.Event) ([]almanac.Event, error) {
	shown := make(map[almanac.Series]almanac.UsedKeys)
	for _, e := range stored {
		shown[almanac.SeriesOf(e)] = shown[almanac.SeriesOf(e)].With(e.Uses(u, e.Due))
	}
	var events []almanac.Event
	for _, t := range f.settings.Types {
		h, err := f.registry.Handler(t)
		if err != nil {
			return nil, err
		}
		next, err := f.previews.Preview(ctx, u.ID, t, f.settings.Ahead)
		if err != nil && !errors.Is(err, calendar.ErrRejectedWallTime) && !errors.Is(err, calendar.ErrUnknownSystem) {
			return nil, err
		}
		for _, o := range next.Ahead {
			if shown[almanac.Series{Type: t, Name: o.Series}].Has(o.Occurrence) {
				continue
			}
			e, err := almanac.NewEvent(u, h, o)
			if err != nil {
				return nil, err
			}
			e.UpdatedAt = u.UpdatedAt
			events = append(events, e)
		}
	}
	return events, nil
}

// owes reports whether a stored event is in the calendar of u. One that its attempt will refuse is not.
func (f *Feed) owes(u almanac.User, e almanac.Event) bool {
	h, err := f.registry.Handler(e.Type)
	if err != nil {
		return false
	}
	if c, able := h.(almanac.Configurer); able && c.Settings().OverrideOptOuts {
		return true
	}
	from, owed := u.OwedFrom(e.Type)
	return owed && (e.Status.Terminal() || !e.Wall.Date.Before(from))
}
