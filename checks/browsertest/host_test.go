package browsertest

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/broadcast"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/dashboard"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// host is a dashboard before a database with users and events in every state.
type host struct {
	server    *httptest.Server
	queries   atomic.Int64 // that the dashboard has sent
	root      string       // the address of the first page
	store     *postgres.Store
	scheduler almanac.Scheduler

	ada                                almanac.User // has all the events below, in London
	pending, completed, failed, leased almanac.Event
	cancelled                          almanac.Event
	hanako                             almanac.UserWithEvents
	birthday, anniversary              almanac.Event // of hanako
}

// mount returns the handler of a server for the dashboard, and the path of its first page.
type mount func(dashboard http.Handler) (http.Handler, string)

// atRoot mounts the dashboard at the root of the server.
func atRoot(pages http.Handler) (http.Handler, string) { return pages, "/" }

// newHost returns a dashboard in which viewers may do everything, unless options say otherwise.
func newHost(t *testing.T, at mount, options ...dashboard.Option) *host {
	t.Helper()
	h := &host{}
	pool := pgtest.Pool(t)
	var err error
	h.store, err = postgres.New(pool)
	require.NoError(t, err)
	require.NoError(t, postgres.EnableAudit(t.Context(), pool))
	reader, err := postgres.New(h.counted(t, pool), postgres.ReadOnly(0))
	require.NoError(t, err)
	registry, err := almanac.NewRegistry(almanac.Birthday{}, almanac.Anniversary{})
	require.NoError(t, err)
	monitor := dashboard.NewMonitor()
	deliver := almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { return nil })
	quiet := slog.New(slog.DiscardHandler)
	work, err := postgres.New(h.counted(t, pool))
	require.NoError(t, err)
	h.scheduler, err = almanac.NewScheduler(work, registry, almanac.WithLogger(quiet), almanac.WithObserver(monitor),
		almanac.WithDeliverer(almanac.ChannelWebhook, monitor.Middleware(deliver)))
	require.NoError(t, err)
	h.fill(t)
	sender, err := broadcast.New(h.scheduler, work)
	require.NoError(t, err)
	_, err = sender.Start(t.Context(), broadcast.Broadcast{Name: "sale", Type: almanac.TypeBirthday, At: calendar.WallTime{Date: calendar.Date{Year: 2999, Month: time.June, Day: 1}, Clock: calendar.Clock{Hour: 10}},
		Passed: broadcast.Skip, Audience: broadcast.Audience{Zones: []string{"Pacific/Apia"}}})
	require.NoError(t, err)
	require.NoError(t, sender.RunOnce(t.Context(), broadcast.RunOptions{}))
	for _, n := range []almanac.Notice{{Kind: almanac.EventCompleted, Event: h.completed}, {Kind: almanac.EventReleased, Event: h.pending, Cause: almanac.AfterFailure}} {
		monitor.Observe(t.Context(), n) // so that the throughput has bars
	}

	all := dashboard.WithPermissions(func(*http.Request, dashboard.Action, uuid.UUID) (bool, error) { return true, nil })
	options = append([]dashboard.Option{all, dashboard.WithLogger(quiet), dashboard.WithMonitor(monitor), dashboard.WithTrail(reader.Audit), dashboard.WithBroadcasts(sender),
		dashboard.WithContext(t.Context()), dashboard.WithHealth(func(context.Context) error { return nil })}, options...)
	pages, err := dashboard.New(h.scheduler, reader, options...)
	require.NoError(t, err)
	handler, path := at(pages)
	h.server = httptest.NewServer(handler)
	t.Cleanup(h.server.Close)
	h.root = h.server.URL + path
	return h
}

// counted returns a pool for the same database that counts its queries.
func (h *host) counted(t *testing.T, pool *pgxpool.Pool) *pgxpool.Pool {
	t.Helper()
	config := pool.Config()
	config.MaxConns, config.ConnConfig.Tracer = 2, counter{&h.queries}
	counted, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(counted.Close)
	return counted
}

// counter counts queries.
type counter struct{ n *atomic.Int64 }

func (c counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.n.Add(1)
	return ctx
}

func (counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// fill stores users and events.
func (h *host) fill(t *testing.T) {
	t.Helper()
	now := time.Now().UTC().Truncate(time.Microsecond)
	h.ada = almanactest.User(almanactest.Named("Ada", "Lovelace"), almanactest.LivingIn("Europe/London"), almanactest.BornOn("1990-12-10"),
		almanactest.WithEmail("ada@example.com"), almanactest.WithExternalID("crm-1"), almanactest.WithAttributes(`{"team":"engine"}`))
	of := func(key string, options ...almanactest.EventOption) almanac.Event {
		return almanactest.Event(now, append([]almanactest.EventOption{almanactest.For(h.ada), almanactest.OfSeries(key, key)}, options...)...)
	}
	stored := almanactest.Store(t, h.store, h.ada,
		of("pending", almanactest.DueIn(3*time.Hour)),
		of("completed", almanactest.DueIn(-time.Hour), almanactest.InStatus(almanac.Completed)),
		of("failed", almanactest.DueIn(-2*time.Hour), almanactest.Tried(3), almanactest.FailedBecause("receiver answered 404")),
		of("leased", almanactest.DueIn(-time.Minute), almanactest.InStatus(almanac.Processing)),
		of("cancelled", almanactest.DueIn(-24*time.Hour), almanactest.InStatus(almanac.Cancelled)))
	h.pending, h.completed, h.failed, h.leased, h.cancelled = stored[0], stored[1], stored[2], stored[3], stored[4]
	var err error
	h.hanako, err = h.scheduler.CreateUser(t.Context(), almanac.Profile{FirstName: "花子", LastName: "山田", DateOfBirth: "1992-02-29",
		Timezone: "Asia/Tokyo", Attributes: []byte(`{"anniversary":"2020-06-01"}`)})
	require.NoError(t, err)
	for _, e := range h.hanako.Events {
		if e.Type == almanac.TypeBirthday {
			h.birthday = e
		} else {
			h.anniversary = e
		}
	}
	for _, zone := range []string{"America/New_York", "Pacific/Apia", "Asia/Kolkata", "Europe/Berlin"} {
		_, err = h.scheduler.CreateUser(t.Context(), almanac.Profile{FirstName: "Zoë", LastName: "of " + zone, DateOfBirth: "1985-03-29", Timezone: zone})
		require.NoError(t, err)
	}
	require.NoError(t, h.scheduler.Pause(t.Context(), almanac.Pause{Lane: almanac.TypeAnniversary}))
}

// failing stores an event that waits for another attempt, and a stalled series of the user that it returns.
func (h *host) failing(t *testing.T) almanac.User {
	t.Helper()
	u := almanactest.User()
	almanactest.Store(t, h.store, u, almanactest.Event(time.Now(), almanactest.For(u), almanactest.OfSeries("a", "2027"), almanactest.ReadyFor(time.Hour)))
	claimed, err := h.store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.TypeBirthday}, Limit: 1, Lease: time.Minute})
	require.NoError(t, err)
	settled, err := h.store.Settle(t.Context(), []almanac.Settlement{{
		Event: claimed.Events[0], Outcome: almanac.Delivered(time.Now()),
		Next: func(almanac.User, time.Time) (almanac.Event, error) { return almanac.Event{}, errors.New("no plan") },
	}})
	require.NoError(t, err)
	require.NotNil(t, settled[0].Stalled)
	other := almanactest.User()
	almanactest.Store(t, h.store, other, almanactest.Event(time.Now(), almanactest.For(other), almanactest.ReadyFor(time.Hour), almanactest.Tried(1), almanactest.DelayedFor(time.Hour)))
	return u
}

// pages are the paths of all pages, below the first page, each in its states.
func (h *host) pages() []string {
	user, tokyo := h.ada.ID.String(), h.hanako.User.ID.String()
	return []string{
		"", "map", "map?by=events&hour=09:00&ahead=7", "map?hour=25:00",
		"calendar?zone=America/New_York&year=2026", "calendar?zone=Nowhere&year=x", "calendar/2026-03-08?zone=America/New_York",
		"calendar/2011-12-30?zone=Pacific/Apia",
		"events", "events?order=next", "events?status=FAILED&reason=receiver", "events?type=NONE", "events?from=yesterday&zone=Nowhere",
		"events/" + h.pending.ID.String(), "events/" + h.completed.ID.String(), "events/" + h.failed.ID.String(),
		"events/" + h.leased.ID.String(), "events/" + h.cancelled.ID.String(), "events/" + h.birthday.ID.String(),
		"events/" + h.pending.ID.String() + "/cancel", "events/" + h.pending.ID.String() + "/run-now", "events/" + h.failed.ID.String() + "/requeue",
		"users", "users?name=ada", "users?name=nobody", "users?email=x", "users/" + user, "users/" + tokyo + "?zone=America/Los_Angeles",
		"users/" + tokyo + "?zone=Nowhere&born=x",
		"users/" + tokyo + "/opt-outs?do=out&all=true", "users/" + tokyo + "/opt-outs?do=in&type=BIRTHDAY", "users/" + tokyo + "/opt-outs?do=out&until=x",
		"users/" + user + "/why?type=BIRTHDAY&day=2030-01-01",
		"zones", "zones?q=york", "zones?q=nothing", "zones?doubt=1", "zones/America/New_York", "zones/UTC", "zones/reconcile", "rehearsal", "rehearsal?days=30",
		"when", "when?zone=Europe/Berlin&at=2026-10-25T02:30", "when?zone=America/New_York&at=2026-03-08T02:30",
		"when?zone=Europe/Paris&rule=monthly&on=31&at=09:00", "when?zone=Nowhere&at=x",
		"failures", "leases", "lanes", "lanes?remove=BIRTHDAY", "pauses", "pauses?pause=BIRTHDAY", "operations", "operations?operation=cancel&zone=Asia/Tokyo",
		"operations?operation=cancel", "broadcasts", "broadcasts?name=sale", "broadcasts?stop=sale", "broadcasts?resume=sale", "roll-out", "roll-out?type=BIRTHDAY", "nothing",
	}
}

// waitForNumbers returns when the dashboard has read its numbers.
func (h *host) waitForNumbers(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return !strings.Contains(h.get(t, ""), "Being read") }, patience, 50*time.Millisecond)
}

// get returns the body of a page.
func (h *host) get(t *testing.T, path string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.root+path, nil)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return string(body)
}
