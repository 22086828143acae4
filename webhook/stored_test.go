package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/jsonb"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/ops"
	"github.com/almanac-go/almanac/postgres"
	"github.com/almanac-go/almanac/webhook"
)

const mostJSON = 64 << 10 // bytes of attributes or of a payload

// drawList draws a member with a list of equal values, in a text of at most 64 KiB. PostgreSQL
// writes many of them longer, some of them fifty times as long.
func drawList(t *rapid.T, name string) json.RawMessage {
	value := rapid.SampledFrom([]string{
		"1", "1e308", "-1.5e-300", "0e-300", `""`, `"a"`, `"\u0041"`, `"\u2028"`, `"\u0001\n"`, `"é🎂"`, "[]", `{"a":1}`, "null", " 1 ", "[1,2]",
		"12345678901234567890.10", `"` + strings.Repeat("x", 1000) + `"`,
	}).Draw(t, name)
	room := rapid.OneOf(rapid.IntRange(20, mostJSON), rapid.IntRange(mostJSON-200, mostJSON), rapid.IntRange(20, 300)).Draw(t, "bytes")
	key := rapid.SampledFrom([]string{"a", strings.Repeat("\u2028", 5), `\u0041`, "e\u0301"}).Draw(t, "key")
	n := max((room-len(`{"":[]}`)-len(key))/(len(value)+1), 1)
	return json.RawMessage(`{"` + key + `":[` + strings.Repeat(value+",", n-1) + value + `]}`)
}

// inbox is a receiver that accepts what the library's own Verifier does, or refuses it for good.
type inbox struct {
	*httptest.Server
	refuses  atomic.Bool
	accepted atomic.Int64
}

// verified returns a receiver and a deliverer to it.
func verified(t *testing.T) (*inbox, *webhook.Deliverer) {
	t.Helper()
	const secret = "whsec_YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE="
	verifier, err := webhook.NewVerifier(secret)
	require.NoError(t, err)
	in := new(inbox)
	in.Server = httptest.NewServer(verifier.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if in.refuses.Load() {
			w.WriteHeader(http.StatusGone)
			return
		}
		in.accepted.Add(1)
	})))
	t.Cleanup(in.Close)
	d, err := webhook.New(in.URL, webhook.AllowPrivate(), webhook.WithSecrets(secret), webhook.WithLogger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	t.Cleanup(d.CloseIdleConnections)
	return in, d
}

// What was accepted is not too large for any later call: it can be read, written back, edited,
// delivered, verified and requeued, and its user can opt out.
func TestWhatIsStoredCanBeUsed(t *testing.T) {
	t.Parallel()
	for where, repository := range map[string]func(*testing.T) almanac.Repository{
		"on Postgres": func(t *testing.T) almanac.Repository {
			store, err := postgres.New(pgtest.Pool(t))
			require.NoError(t, err)
			return store
		},
		"in memory": func(*testing.T) almanac.Repository { return almanactest.NewRepository(nil) },
	} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			store := repository(t)
			in, d := verified(t)
			registry, err := almanac.NewRegistry(almanac.OneOff{})
			require.NoError(t, err)
			s, err := almanac.NewScheduler(store, registry, almanac.WithDeliverer(almanac.ChannelWebhook, d))
			require.NoError(t, err)
			ctx := t.Context()
			rapid.Check(t, func(r *rapid.T) {
				attributes, payload := drawList(r, "attributes"), drawList(r, "payload")
				created, err := s.CreateUser(ctx, almanac.Profile{
					FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Europe/Berlin", Attributes: attributes})
				if tooLong(r, attributes, err) {
					return
				}
				useUser(r, s, store, created.User)

				past := calendar.WallTimeOf(time.Now().UTC().Add(-time.Minute))
				one, err := s.ScheduleAt(ctx, created.User.ID, almanac.TypeOneOff, almanac.ScheduleAtOptions{At: past, Timezone: calendar.StoredTimezone("UTC"), Payload: payload})
				if tooLong(r, payload, err) {
					return
				}
				_, err = s.UpdateUser(ctx, created.User.ID, almanac.ProfileChange{FirstName: new("Augusta")})
				require.NoError(r, err)
				in.refuses.Store(true)
				did, err := s.RunOnce(ctx, almanac.RunOnceOptions{})
				require.NoError(r, err)
				require.Equal(r, 1, did.Failed)
				in.refuses.Store(false)
				requeued, err := ops.Operate(ctx, s, ops.Requeue, almanac.ForUser(created.User.ID), ops.OperateOptions{})
				require.NoError(r, err)
				require.Empty(r, requeued.Refused)
				require.Len(r, requeued.Events, 1)
				before := in.accepted.Load()
				did, err = s.RunOnce(ctx, almanac.RunOnceOptions{})
				require.NoError(r, err)
				require.Equal(r, 1, did.Completed)
				require.Equal(r, before+1, in.accepted.Load())
				found, err := store.Find(ctx, almanac.ForUser(created.User.ID), almanac.Page{})
				require.NoError(r, err)
				require.Len(r, found.Items, 2)
				for _, e := range found.Items {
					require.True(r, jsonb.Equal(payload, e.Payload))
					require.LessOrEqual(r, len(e.Payload), mostJSON)
				}
				failed, err := store.Event(ctx, one.Event.ID)
				require.NoError(r, err)
				require.Equal(r, almanac.Failed, failed.Status)
				_, err = s.DeleteUser(ctx, created.User.ID, almanac.DeleteOptions{})
				require.NoError(r, err)
			})
		})
	}
}

// tooLong reports whether a value was refused, and requires that this was for its length.
func tooLong(t *rapid.T, text json.RawMessage, err error) bool {
	length, problem := jsonb.Check(text)
	if refused := errors.Is(err, almanac.ErrInvalid); refused != (length > mostJSON) || problem != "" || !refused && err != nil {
		t.Fatalf("%.100s has %d bytes as it is stored: %v", text, length, err)
	}
	return err != nil
}

// useUser reads a user with attributes, and changes everything about them that can be changed.
func useUser(t *rapid.T, s almanac.Scheduler, store almanac.Repository, created almanac.User) {
	t.Helper()
	ctx := context.Background()
	id := created.ID
	u, err := store.User(ctx, id)
	require.NoError(t, err)
	require.True(t, jsonb.Equal(created.Attributes, u.Attributes))
	require.LessOrEqual(t, len(u.Attributes), mostJSON)
	for _, change := range []almanac.ProfileChange{
		{LastName: new("King")}, {Timezone: new("Asia/Tokyo")}, {Merge: json.RawMessage(`{"nothing": null}`)}, {Attributes: u.Attributes},
	} {
		_, err := s.UpdateUser(ctx, id, change)
		require.NoError(t, err, "%+v", change)
	}
	_, err = s.OptOut(ctx, id, almanac.OptOut{})
	require.NoError(t, err)
	_, err = s.OptIn(ctx, id, almanac.OptOut{})
	require.NoError(t, err)
}
