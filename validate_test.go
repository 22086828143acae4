package almanac_test

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

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/jsonb"
	"github.com/almanac-go/almanac/webhook"
)

func TestStockChecks(t *testing.T) {
	t.Parallel()

	due := instant(t, "2026-12-10T09:00:00Z")
	event := almanac.Event{Status: almanac.Processing, Due: due, RetryCount: 2, CrashCount: 4}
	requeued := func(check almanac.Check) almanac.Check { // two hours after its instant
		return func(e almanac.Event, now time.Time) error {
			e.Origin, e.CreatedAt = almanac.Origin{Kind: almanac.OriginRequeued, From: uuid.New()}, due.Add(2*time.Hour)
			return check(e, now)
		}
	}
	scheduled := func(check almanac.Check) almanac.Check {
		return func(e almanac.Event, now time.Time) error {
			e.Origin, e.CreatedAt = almanac.Origin{Kind: almanac.OriginScheduled}, due.Add(2*time.Hour)
			return check(e, now)
		}
	}
	tests := map[string]struct {
		check almanac.Check
		now   time.Time
		want  string // the refusal; "" means that it passes
	}{
		"the status":                      {almanac.HasStatus(almanac.Processing), due, ""},
		"another status":                  {almanac.HasStatus(almanac.Pending), due, "event is PROCESSING, not PENDING"},
		"due just now":                    {almanac.IsDue(), due, ""},
		"due long since":                  {almanac.IsDue(), due.Add(time.Hour), ""},
		"due in a moment":                 {almanac.IsDue(), due.Add(-time.Nanosecond), "event is due in 1ns"},
		"one attempt left":                {almanac.AttemptsLeft(3), due, ""},
		"no attempt left":                 {almanac.AttemptsLeft(2), due, "2 of 2 attempts have failed"},
		"more attempts than there were":   {almanac.AttemptsLeft(1), due, "2 of 1 attempts have failed"},
		"one crash left":                  {almanac.CrashesBelow(5), due, ""},
		"no crash left":                   {almanac.CrashesBelow(4), due, "worker died 4 times"},
		"as old as may be":                {almanac.NotOlderThan(time.Hour), due.Add(time.Hour), ""},
		"older":                           {almanac.NotOlderThan(time.Hour), due.Add(time.Hour + time.Minute), "missed: 1h1m0s after its instant, more than 1h0m0s"},
		"requeued, as old as may be":      {requeued(almanac.NotOlderThan(time.Hour)), due.Add(3 * time.Hour), ""},
		"requeued, older":                 {requeued(almanac.NotOlderThan(time.Hour)), due.Add(4 * time.Hour), "missed: 2h0m0s after it was requeued, more than 1h0m0s"},
		"scheduled, as old as may be":     {scheduled(almanac.NotOlderThan(time.Hour)), due.Add(3 * time.Hour), ""},
		"scheduled, older":                {scheduled(almanac.NotOlderThan(time.Hour)), due.Add(4 * time.Hour), "missed: 2h0m0s after it was scheduled, more than 1h0m0s"},
		"early, which is never too late":  {almanac.NotOlderThan(0), due.Add(-time.Hour), ""},
		"on time, when nothing is waited": {almanac.NotOlderThan(0), due, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got := ""
			if err := tt.check(event, tt.now); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("refusal %q, want %q", got, tt.want)
			}
		})
	}
}

// The refusals of a chain are joined, and each is found by its type.
func TestTheRetryLimitMatchesItsError(t *testing.T) {
	t.Parallel()

	event := almanac.Event{ID: uuid.New(), Status: almanac.Failed, RetryCount: 3}
	err := almanac.Checks{almanac.HasStatus(almanac.Processing), almanac.AttemptsLeft(3)}.All(event, instant(t, "2026-12-10T09:00:00Z"))
	var limit *almanac.MaxRetriesExceededError
	if !errors.Is(err, almanac.ErrMaxRetriesExceeded) || !errors.As(err, &limit) || *limit != (almanac.MaxRetriesExceededError{EventID: event.ID, Failed: 3, Limit: 3}) {
		t.Errorf("refusal %v, %+v", err, limit)
	}
}

func TestChecksAreCalledInOrder(t *testing.T) {
	t.Parallel()

	first, second := errors.New("on holiday"), errors.New("has unsubscribed")
	var asked []string
	check := func(name string, answer error) almanac.Check {
		return func(almanac.Event, time.Time) error {
			asked = append(asked, name)
			return answer
		}
	}
	chain := almanac.Checks{check("a", nil), check("b", first), check("c", nil), check("d", second)}

	if err := chain.First(almanac.Event{}, time.Time{}); !errors.Is(err, first) || errors.Is(err, second) {
		t.Errorf("First = %v, want %v alone", err, first)
	}
	if got := len(asked); got != 2 {
		t.Errorf("First asked %q, want only up to the refusal", asked)
	}
	asked = nil
	err := chain.All(almanac.Event{}, time.Time{})
	if !errors.Is(err, first) || !errors.Is(err, second) || err.Error() != "on holiday\nhas unsubscribed" {
		t.Errorf("All = %v, want both in order", err)
	}
	if got := len(asked); got != 4 {
		t.Errorf("All asked %q, want everybody", asked)
	}
	for name, passing := range map[string]almanac.Checks{"empty": nil, "content": {check("a", nil)}} {
		if first, all := passing.First(almanac.Event{}, time.Time{}), passing.All(almanac.Event{}, time.Time{}); first != nil || all != nil {
			t.Errorf("the %s chain says %v and %v, want nil", name, first, all)
		}
	}
}

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
	verifier := must(webhook.NewVerifier(secret))
	in := new(inbox)
	in.Server = httptest.NewServer(verifier.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if in.refuses.Load() {
			w.WriteHeader(http.StatusGone)
			return
		}
		in.accepted.Add(1)
	})))
	t.Cleanup(in.Close)
	d := must(webhook.New(in.URL, webhook.AllowPrivate(), webhook.WithSecrets(secret), webhook.WithLogger(slog.New(slog.DiscardHandler))))
	t.Cleanup(d.CloseIdleConnections)
	return in, d
}

// What was accepted is not too large for any later call: it can be read, written back, edited,
// delivered, verified and requeued, and its user can opt out.
func TestWhatIsStoredCanBeUsed(t *testing.T) {
	t.Parallel()
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			store := repository(t)
			in, d := verified(t)
			registry := must(almanac.NewRegistry(almanac.OneOff{}))
			s := must(almanac.NewScheduler(store, registry, almanac.WithDeliverer(almanac.ChannelWebhook, d)))
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
				_, err = s.UpdateUser(ctx, created.User.ID, almanac.ProfileChange{FirstName: ptr("Augusta")})
				require.NoError(r, err)
				in.refuses.Store(true)
				did, err := s.RunOnce(ctx, almanac.RunOnceOptions{})
				require.NoError(r, err)
				require.Equal(r, 1, did.Failed)
				in.refuses.Store(false)
				requeued, err := s.Operate(ctx, almanac.OperationRequeue, almanac.ForUser(created.User.ID), almanac.OperateOptions{})
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
				require.Len(r, found.Events, 2)
				for _, e := range found.Events {
					require.True(r, jsonb.Equal(payload, e.Payload))
					require.LessOrEqual(r, len(e.Payload), mostJSON)
				}
				require.Equal(r, almanac.Failed, must(store.Event(ctx, one.Event.ID)).Status)
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
		{LastName: ptr("King")}, {Timezone: ptr("Asia/Tokyo")}, {Merge: json.RawMessage(`{"nothing": null}`)}, {Attributes: u.Attributes},
	} {
		_, err := s.UpdateUser(ctx, id, change)
		require.NoError(t, err, "%+v", change)
	}
	_, err = s.OptOut(ctx, id, almanac.OptOut{})
	require.NoError(t, err)
	_, err = s.OptIn(ctx, id, almanac.OptOut{})
	require.NoError(t, err)
}
