package dashboard

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/broadcast"
)

// host is a dashboard before a repository in memory.
type host struct {
	http.Handler
	repository *almanactest.Repository
	scheduler  almanac.Scheduler
	sender     *broadcast.Sender
}

// newHost returns a dashboard that lets every request in.
func newHost(t *testing.T, options ...Option) host {
	t.Helper()
	repository := almanactest.NewRepository(time.Now)
	registry, err := almanac.NewRegistry(almanac.Birthday{}, almanac.Anniversary{})
	require.NoError(t, err)
	none := almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { return nil })
	scheduler, err := almanac.NewScheduler(repository, registry,
		almanac.WithDeliverer(almanac.ChannelWebhook, none), almanac.WithLogger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	sender, err := broadcast.New(scheduler, repository)
	require.NoError(t, err)
	options = append([]Option{AllowAll(), WithBroadcasts(sender), WithLogger(slog.New(slog.DiscardHandler))}, options...)
	h, err := New(scheduler, repository, options...)
	require.NoError(t, err)
	return host{h, repository, scheduler, sender}
}

// sqlError is an error with which a database answers, as a driver returns it.
type sqlError string

func (e sqlError) Error() string    { return "SQLSTATE " + string(e) + " about 10.0.0.7" }
func (e sqlError) SQLState() string { return string(e) }

// get returns the status and the body of a page.
func (h host) get(t *testing.T, path string) (int, string) {
	t.Helper()
	return h.do(t, httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil))
}

// post sends a form as a page of the dashboard does.
func (h host) post(t *testing.T, path string, form url.Values) (int, string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "http://localhost"+path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return h.do(t, r)
}

func (h host) do(t *testing.T, r *http.Request) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	func() {
		defer func() { // a download that is broken off on purpose
			if cause := recover(); cause != nil && cause != http.ErrAbortHandler {
				panic(cause)
			}
		}()
		h.ServeHTTP(w, r.WithContext(t.Context()))
	}()
	body, err := io.ReadAll(w.Result().Body)
	require.NoError(t, err)
	return w.Code, string(body)
}

// createUser stores a user with events.
func (h host) createUser(t *testing.T, p almanac.Profile) almanac.UserWithEvents {
	t.Helper()
	if p.ID == uuid.Nil {
		p.ID = uuid.New()
	}
	u, err := h.scheduler.CreateUser(t.Context(), p)
	require.NoError(t, err)
	return u
}

// ada is a profile.
func ada() almanac.Profile {
	return almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Europe/London"}
}

// waitForNumbers has the dashboard read its numbers, so that the next page has them.
func (h host) waitForNumbers(t *testing.T) {
	t.Helper()
	_, err := h.Handler.(*dashboard).numbers.get(t.Context(), time.Minute)
	require.NoError(t, err)
}
