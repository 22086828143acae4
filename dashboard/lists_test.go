package dashboard

import (
	"context"
	"html"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
)

// allowing lets viewers do these things to all users.
func allowing(actions ...Action) Option {
	return WithPermissions(func(_ *http.Request, a Action, _ uuid.UUID) (bool, error) { return slices.Contains(actions, a), nil })
}

// everything lets viewers do everything.
func everything() Option {
	return WithPermissions(func(*http.Request, Action, uuid.UUID) (bool, error) { return true, nil })
}

// exceptFor lets viewers do everything, but one action to one user.
func exceptFor(action Action, user uuid.UUID) Option {
	return WithPermissions(func(_ *http.Request, a Action, about uuid.UUID) (bool, error) {
		return a != action || about != user, nil
	})
}

// newHostOf returns a dashboard of a reader and a scheduler that stand before a repository.
func newHostOf(t *testing.T, repository *almanactest.Repository, reader Reader, options ...Option) host {
	t.Helper()
	registry, err := almanac.NewRegistry(almanac.Birthday{}, almanac.Anniversary{}, nightly{})
	require.NoError(t, err)
	none := almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { return nil })
	scheduler, err := almanac.NewScheduler(repository, registry,
		almanac.WithDeliverer(almanac.ChannelWebhook, none), almanac.WithLogger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	options = append([]Option{AllowAll(), WithLogger(slog.New(slog.DiscardHandler))}, options...)
	h, err := New(scheduler, reader, options...)
	require.NoError(t, err)
	return host{Handler: h, repository: repository, scheduler: scheduler}
}

// nightly is a type whose occurrences are at 02:30, every night. Its policy refuses wall
// times that clocks skip.
type nightly struct{ almanac.Birthday }

func (nightly) EventType() string { return "NIGHTLY" }

func (nightly) Next(u almanac.User, after time.Time) (calendar.Occurrence, error) {
	p := calendar.Policies{Gap: calendar.GapReject}
	return calendar.Next(calendar.Daily{At: calendar.Clock{Hour: 2, Minute: 30}}, u.Timezone, p, after)
}

// store stores a user with events as they are.
func (h host) store(t *testing.T, u almanac.User, events ...almanac.Event) almanac.User {
	t.Helper()
	results, err := h.repository.CreateUsers(t.Context(), []almanac.UserWithEvents{{User: u, Events: events}})
	require.NoError(t, err)
	require.NoError(t, results[0].Err)
	for i, e := range events {
		h.move(t, results[0].Events[i], e)
	}
	return results[0].User
}

// move takes an event from PENDING to its status, as a program that delivers does.
func (h host) move(t *testing.T, from, to almanac.Event) {
	t.Helper()
	steps := []almanac.Event{to}
	to.IdempotencyKey = from.IdempotencyKey
	switch claimed := to; {
	case to.Status == almanac.Pending:
		return
	case to.Status != almanac.Processing && !byOperator(to):
		claimed.Status, claimed.FailureReason, claimed.ExecutedAt = almanac.Processing, "", time.Time{}
		steps = []almanac.Event{claimed, to}
	}
	for i, step := range steps {
		step.IdempotencyKey = from.IdempotencyKey
		_, err := h.repository.Update(t.Context(), step, from.Version+i)
		require.NoError(t, err)
	}
}

var (
	addresses = regexp.MustCompile(`(?:href|src|action)="([^"]*)"`)
	nextPage  = regexp.MustCompile(`href="([^"]*)" rel="next"`)
)

// requireRelative fails if a link of a page would leave the path at which the dashboard is
// mounted.
func requireRelative(t *testing.T, body string) {
	t.Helper()
	for _, found := range addresses.FindAllStringSubmatch(body, -1) {
		to := found[1]
		require.False(t, strings.HasPrefix(to, "/") || strings.Contains(strings.SplitN(to, "?", 2)[0], ":"), "link %q", to)
	}
	require.NotContains(t, body, " style=")
	require.NotRegexp(t, ` on[a-z]+=`, body)
	require.Equal(t, 1, strings.Count(body, "<h1>"))
	require.NotContains(t, body, "ZgotmplZ")
}

// next returns the path of the next page of a list, or "".
func next(body string) string {
	found := nextPage.FindStringSubmatch(body)
	if found == nil {
		return ""
	}
	return "/" + strings.TrimPrefix(html.UnescapeString(found[1]), "./")
}

// hostile are texts that try to break pages.
const hostile = "<script>alert(1)</script>\u202e\"'&"

// requireHarmless fails if hostile texts are part of the page's structure.
func requireHarmless(t *testing.T, body string) {
	t.Helper()
	require.NotContains(t, body, "<script>alert")
	require.NotContains(t, body, "=\"'&")
}

// blocked fails each call of Find after the first n.
type blocked struct {
	Reader
	n     int
	calls int
}

func (b *blocked) Find(ctx context.Context, spec almanac.Spec, page almanac.Page) (almanac.List[almanac.Event], error) {
	if b.calls++; b.calls > b.n {
		return almanac.List[almanac.Event]{}, context.DeadlineExceeded
	}
	return b.Reader.Find(ctx, spec, page)
}

// endless has ever more events in UTC.
type endless struct {
	Reader
	calls *int
}

func (e endless) Find(_ context.Context, _ almanac.Spec, page almanac.Page) (almanac.List[almanac.Event], error) {
	*e.calls++
	events := make([]almanac.Event, page.Limit)
	for i := range events {
		events[i] = almanac.Event{ID: uuid.Max, Type: "A", Zone: "UTC", Status: almanac.Completed, CreatedAt: time.Unix(1e9, 0)}
	}
	return almanac.List[almanac.Event]{Items: events, Next: almanac.Cursor(uuid.Max.String())}, nil
}

func TestListStyleIsWithinItsBudget(t *testing.T) {
	t.Parallel()
	style := string(assets["dashboard.css"].content)
	require.LessOrEqual(t, len(style), 16<<10)
}
