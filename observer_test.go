package almanac_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

var kinds = []almanac.NoticeKind{
	almanac.EventCreated, almanac.EventClaimed, almanac.EventReleased, almanac.EventRescheduled, almanac.EventRemoved,
	almanac.EventCompleted, almanac.EventFailed, almanac.EventCancelled, almanac.EventRequeued, almanac.EventSkipped,
	almanac.UserCreated, almanac.UserTimezoneChanged, almanac.UserBirthdayChanged, almanac.UserDeleted,
}

func TestHooksHearWhatTheyListenTo(t *testing.T) {
	t.Parallel()

	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "passed on")
	was, is := ada(t), ada(t)
	is.Version = 2
	e := planned(t)
	var heard []string
	event := func(name string) func(context.Context, almanac.Event) {
		return func(ctx context.Context, got almanac.Event) {
			if ctx.Value(key{}) != "passed on" || got.ID != e.ID {
				t.Errorf("%s was told of %v, context %v", name, got.ID, ctx)
			}
			heard = append(heard, name)
		}
	}
	user := func(name string) func(context.Context, almanac.User, almanac.User) {
		return func(_ context.Context, before, after almanac.User) {
			if before.Version != 1 || after.Version != 2 {
				t.Errorf("%s was told of versions %d and %d, want 1 and 2", name, before.Version, after.Version)
			}
			heard = append(heard, name)
		}
	}
	hooks := almanac.Hooks{
		Created: event("created"), Claimed: event("claimed"), Released: event("released"), Rescheduled: event("rescheduled"),
		Removed: event("removed"), Completed: event("completed"), Failed: event("failed"),
		Cancelled: event("cancelled"), Requeued: event("requeued"), Skipped: event("skipped"),
		TimezoneChanged: user("timezone changed"), BirthdayChanged: user("birthday changed"),
	}

	for _, kind := range kinds {
		hooks.Observe(ctx, almanac.Notice{Kind: kind, Event: e, User: is, Was: was})
		almanac.Hooks{}.Observe(ctx, almanac.Notice{Kind: kind, Event: e, User: is, Was: was})
	}

	want := []string{"created", "claimed", "released", "rescheduled", "removed", "completed", "failed", "cancelled", "requeued", "skipped", "timezone changed", "birthday changed"}
	if !slices.Equal(heard, want) {
		t.Errorf("heard %q, want %q", heard, want)
	}
}

func TestLogObserverWritesOneLinePerNotice(t *testing.T) {
	t.Parallel()

	levels := map[almanac.NoticeKind]string{
		almanac.EventClaimed: "INFO", almanac.EventCompleted: "INFO", almanac.EventReleased: "WARN", almanac.EventCancelled: "WARN", almanac.EventFailed: "ERROR",
	}
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			observer := almanac.LogObserver(slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))

			observer.Observe(t.Context(), noticeOf(t, kind))

			var line map[string]any
			if err := json.Unmarshal(out.Bytes(), &line); err != nil || strings.Count(out.String(), "\n") != 1 {
				t.Fatalf("wrote %q: %v; want one line", out.String(), err)
			}
			want := levels[kind]
			if want == "" {
				want = "DEBUG"
			}
			if line["level"] != want || line["msg"] != string(kind) || line["user_id"] != ada(t).ID.String() {
				t.Errorf("wrote %s, want %s at %s about the user", out.String(), kind, want)
			}
			if _, hasEvent := line["event_id"]; hasEvent != strings.HasPrefix(string(kind), "event.") {
				t.Errorf("wrote %s, event named: %v", out.String(), hasEvent)
			}
			for _, private := range []string{"Ada", "Lovelace", "birthday\"", "1990-", "hush"} {
				if strings.Contains(out.String(), private) {
					t.Errorf("wrote %s, which tells %q", out.String(), private)
				}
			}
		})
	}
}

// A scheduler has the observers that it was made with, and a scheduler without them tells
// nobody.
func TestObserversAreThoseOfTheirScheduler(t *testing.T) {
	t.Parallel()
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	if err != nil {
		t.Fatal(err)
	}
	repository := almanactest.NewRepository(nil)
	told := make(map[string][]almanac.NoticeKind)
	tells := func(name string) almanac.Option {
		return almanac.WithObserver(almanac.ObserverFunc(func(_ context.Context, n almanac.Notice) { told[name] = append(told[name], n.Kind) }))
	}
	for _, options := range [][]almanac.Option{{tells("first"), tells("second")}, {tells("second")}, nil} {
		s, err := almanac.NewScheduler(repository, registry, options...)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.CreateUser(t.Context(), grace); err != nil {
			t.Fatal(err)
		}
	}
	once := []almanac.NoticeKind{almanac.UserCreated, almanac.EventCreated}
	if want := map[string][]almanac.NoticeKind{"first": once, "second": slices.Concat(once, once)}; !maps.EqualFunc(told, want, slices.Equal) {
		t.Errorf("told %v, want %v", told, want)
	}
}

// noticeOf is a notice as the library would tell it, with secrets in it.
func noticeOf(t *testing.T, kind almanac.NoticeKind) almanac.Notice {
	t.Helper()
	if strings.HasPrefix(string(kind), "user.") {
		u := ada(t)
		u.Attributes = json.RawMessage(`{"secret":"hush"}`)
		return almanac.Notice{Kind: kind, User: u, Was: u}
	}
	e := in(t, almanac.Processing)
	e.Payload = json.RawMessage(`{"message":"hush, Ada Lovelace"}`)
	e.ExecutedAt, e.FailureReason, e.LastError = e.Due.Add(1234567*time.Nanosecond), "HTTP 404", "HTTP 503"
	return almanac.Notice{Kind: kind, Event: e}
}

func TestLogObserverTellsWhatMatters(t *testing.T) {
	t.Parallel()

	tests := map[almanac.NoticeKind][]string{
		almanac.EventCreated:   {"event_type=BIRTHDAY", "idempotency_key=event-", "target_timestamp_utc=2026-12-10T09:00:00.000Z", "version=2"},
		almanac.EventCompleted: {"lateness=1.235ms"},
		almanac.EventFailed:    {`reason="HTTP 404"`, "retry_count=0"},
		almanac.EventSkipped:   {"current_status=PROCESSING"},
		almanac.EventReleased:  {`reason="HTTP 503"`, "available_at="},
	}
	for kind, want := range tests {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer

			almanac.LogObserver(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))).Observe(t.Context(), noticeOf(t, kind))

			for _, part := range want {
				if !strings.Contains(out.String(), part) {
					t.Errorf("wrote %q, which lacks %q", out.String(), part)
				}
			}
		})
	}
}

func TestLogObserverIsSilentBelowTheLevel(t *testing.T) {
	t.Parallel()

	var out bytes.Buffer
	observer := almanac.LogObserver(slog.New(slog.NewTextHandler(&out, nil))) // Info and above
	observer.Observe(t.Context(), noticeOf(t, almanac.EventCreated))
	observer.Observe(t.Context(), noticeOf(t, almanac.UserDeleted))
	if out.Len() > 0 {
		t.Errorf("wrote %q, want nothing at Debug", out.String())
	}
}
