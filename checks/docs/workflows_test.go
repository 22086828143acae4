package docs_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/httpapi"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
	"github.com/almanac-go/almanac/webhook"
)

// The five workflows of the seeds, as they tell them: an HTTP API, PostgreSQL, schedulers
// and an HTTP receiver, all real. docs/seeds.md names them W1 to W5.
const (
	patience  = 2 * time.Minute
	pollEvery = 20 * time.Millisecond
	isoMillis = "2006-01-02T15:04:05.000Z"
)

// deployment is a system of its own: a database, an API, and a receiver of greetings.
type deployment struct {
	t         *testing.T
	count     func(table string) int // of its rows
	store     *postgres.Store
	api       *httptest.Server
	receiver  *httptest.Server
	scheduler almanac.Scheduler
	birthday  almanac.Birthday
	zone      string    // where it is about noon now
	moment    time.Time // the instant of a birthday that is today, in that zone

	mu       sync.Mutex
	greeted  []greeting
	log      bytes.Buffer
	answer   func(greeting) int // the receiver's, 200 where nil
	everyone sync.WaitGroup
}

// greeting is one request as the receiver saw it.
type greeting struct{ key, body string }

// deploy makes a deployment in which today's birthdays come after ahead. Nothing runs yet.
func deploy(t *testing.T, ahead time.Duration) *deployment {
	t.Helper()
	pool := pgtest.ReusedPool(t)
	count := func(table string) (n int) {
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM almanac."+table).Scan(&n))
		return n
	}
	d := &deployment{t: t, count: count, moment: time.Now().Add(ahead).UTC().Truncate(time.Second)}
	d.zone = "UTC"
	if hours := 12 - d.moment.Hour(); hours != 0 {
		d.zone = fmt.Sprintf("Etc/GMT%+d", -hours) // whose sign is that of POSIX
	}
	at := d.wall().Clock
	d.birthday = almanac.Birthday{At: func(almanac.User) calendar.Clock { return at }}
	d.birthday.RetryPolicy = almanac.RetryPolicy{First: 100 * time.Millisecond, Factor: 1}
	d.receiver = httptest.NewServer(http.HandlerFunc(d.receive))
	t.Cleanup(d.receiver.Close)
	var err error
	d.store, err = postgres.New(pool)
	require.NoError(t, err)
	d.scheduler = d.newScheduler()
	api, err := httpapi.New(d.scheduler, d.store, httpapi.NoAuthentication{})
	require.NoError(t, err)
	d.api = httptest.NewServer(api)
	t.Cleanup(d.api.Close)
	return d
}

func (d *deployment) newScheduler() almanac.Scheduler {
	d.t.Helper()
	registry, err := almanac.NewRegistry(d.birthday)
	require.NoError(d.t, err)
	log := slog.New(slog.NewJSONHandler(d, nil))
	post, err := webhook.New(d.receiver.URL, webhook.AllowPrivate(), webhook.WithLogger(log), webhook.WithTimeout(patience))
	require.NoError(d.t, err)
	d.t.Cleanup(post.CloseIdleConnections)
	s, err := almanac.NewScheduler(d.store, registry, almanac.WithDeliverer(almanac.ChannelWebhook, post), almanac.WithWorkers(1),
		almanac.WithMissedGrace(0), almanac.WithLogger(log))
	require.NoError(d.t, err)
	return s
}

// run starts schedulers, which end with the test.
func (d *deployment) run(schedulers ...almanac.Scheduler) {
	for _, s := range schedulers {
		d.everyone.Go(func() {
			if err := s.Run(d.t.Context()); err != nil {
				d.t.Errorf("Run: %v", err)
			}
		})
	}
	d.t.Cleanup(d.everyone.Wait) // the context has ended
}

// receive is the receiver of greetings.
func (d *deployment) receive(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	g := greeting{r.Header.Get("X-Idempotency-Key"), string(body)}
	d.mu.Lock()
	d.greeted = append(d.greeted, g)
	answer := d.answer
	d.mu.Unlock()
	if answer != nil {
		w.WriteHeader(answer(g))
	}
}

func (d *deployment) greetings() []greeting {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.greeted)
}

// Write takes lines of the log.
func (d *deployment) Write(line []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.Write(line)
}

// logged waits for a line of the log and returns its fields.
func (d *deployment) logged(message string) (fields map[string]any) {
	d.t.Helper()
	require.Eventually(d.t, func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		for lines := bufio.NewScanner(bytes.NewReader(d.log.Bytes())); lines.Scan(); {
			fields = nil
			if json.Unmarshal(lines.Bytes(), &fields) == nil && fields["msg"] == message {
				return true
			}
		}
		return false
	}, patience, pollEvery, message)
	return fields
}

// wall is what clocks show where today's birthdays are, at their moment.
func (d *deployment) wall() calendar.WallTime {
	return calendar.StoredTimezone(d.zone).WallTime(d.moment)
}

// profile is the profile of a user whose birthday comes at the deployment's moment.
func (d *deployment) profile(lastName string) string {
	return fmt.Sprintf(`{"firstName":"John","lastName":%q,"dateOfBirth":"1992-%02d-%02d","timezone":%q}`,
		lastName, int(d.wall().Date.Month), d.wall().Date.Day, d.zone)
}

// send asks the API.
func (d *deployment) send(method, path, body string) (status int, answer map[string]any) {
	d.t.Helper()
	request, err := http.NewRequestWithContext(d.t.Context(), method, d.api.URL+path, strings.NewReader(body))
	require.NoError(d.t, err)
	request.Header.Set("Content-Type", "application/json")
	response, err := d.api.Client().Do(request)
	require.NoError(d.t, err)
	defer response.Body.Close()
	_ = json.NewDecoder(response.Body).Decode(&answer) // nil is seen by what the test looks for
	return response.StatusCode, answer
}

// create creates a user by POST /user and returns their birthday as it is stored.
func (d *deployment) create(profile string) almanac.Event {
	d.t.Helper()
	status, answer := d.send(http.MethodPost, "/user", profile)
	require.Equal(d.t, http.StatusCreated, status, answer)
	return d.event(uuid.MustParse(answer["nextBirthdayEvent"].(map[string]any)["id"].(string)))
}

func (d *deployment) event(id uuid.UUID) almanac.Event {
	d.t.Helper()
	e, err := d.store.Event(d.t.Context(), id)
	require.NoError(d.t, err)
	return e
}

// becomes waits until an event has a status.
func (d *deployment) becomes(id uuid.UUID, status almanac.Status) (e almanac.Event) {
	d.t.Helper()
	require.Eventually(d.t, func() bool {
		e = d.event(id)
		return e.Status == status
	}, patience, pollEvery, "event %s becomes %s", id, status)
	return e
}

// successor waits for the user's pending event that is not the given one.
func (d *deployment) successor(of almanac.Event) (next almanac.Event) {
	d.t.Helper()
	require.Eventually(d.t, func() bool {
		found, err := d.store.Find(d.t.Context(), almanac.And{almanac.ForUser(of.UserID), almanac.InStatus(almanac.Pending)}, almanac.Page{})
		if err != nil || len(found.Items) != 1 || found.Items[0].ID == of.ID {
			return false
		}
		next = found.Items[0]
		return true
	}, patience, pollEvery)
	return next
}

// W1: input and zone are validated, and the user and their first event are stored together.
func TestWorkflow1UserCreationAndInitialEventGeneration(t *testing.T) {
	t.Parallel()
	d := deploy(t, time.Hour)

	for _, bad := range []string{
		`{"firstName":"","lastName":"Doe","dateOfBirth":"1990-01-01","timezone":"UTC"}`,
		`{"firstName":"John","lastName":"Doe","dateOfBirth":"1990-01-01","timezone":"Mars/Base"}`,
		`{"firstName":"John","lastName":"Doe","dateOfBirth":"2999-01-01","timezone":"UTC"}`,
	} {
		status, answer := d.send(http.MethodPost, "/user", bad)
		require.Equal(t, http.StatusBadRequest, status, answer)
	}
	require.Zero(t, d.count("users")+d.count("events"), "nothing is stored")

	status, answer := d.send(http.MethodPost, "/user", d.profile("Doe"))

	require.Equal(t, http.StatusCreated, status, answer)
	user, event := answer["user"].(map[string]any), answer["nextBirthdayEvent"].(map[string]any)
	require.Equal(t, []any{d.zone, event["userId"]}, []any{user["timezone"], user["id"]})
	require.Equal(t, "PENDING", event["status"])
	require.Equal(t, d.moment.Format(isoMillis), event["targetTimestampUTC"])
	require.Equal(t, map[string]any{"message": "Hey, John Doe it's your birthday"}, event["deliveryPayload"])
	require.Equal(t, []int{1, 1}, []int{d.count("users"), d.count("events")})
}

// W2: events are claimed when they are due, delivered, and completed, tried again or failed.
func TestWorkflow2ScheduledEventClaimingAndExecution(t *testing.T) {
	t.Parallel()
	d := deploy(t, 15*time.Second)
	busy := true
	d.answer = func(g greeting) int {
		d.mu.Lock()
		defer d.mu.Unlock()
		switch {
		case strings.Contains(g.body, "Gone"):
			return http.StatusNotFound
		case strings.Contains(g.body, "Busy") && busy:
			busy = false
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	}
	ready, retried, gone := d.create(d.profile("Ready")), d.create(d.profile("Busy")), d.create(d.profile("Gone"))
	require.Equal(t, d.moment, ready.Due)

	d.run(d.scheduler, d.newScheduler(), d.newScheduler())

	done := d.becomes(ready.ID, almanac.Completed)
	require.Equal(t, 3, done.Version, "PENDING, PROCESSING, COMPLETED")
	require.False(t, done.ExecutedAt.Before(d.moment), "not before its instant")
	require.Equal(t, 1, d.becomes(retried.ID, almanac.Completed).RetryCount, "a transient failure")
	require.Contains(t, d.becomes(gone.ID, almanac.Failed).FailureReason, "404")
	next := d.successor(done)
	require.Equal(t, d.wall().Date.Year+1, next.Wall.Date.Year, "the event of the following year")
	require.Equal(t, d.wall().Clock, next.Wall.Clock)

	attempts := map[string][]string{}
	for _, g := range d.greetings() {
		attempts[g.key] = append(attempts[g.key], g.body)
	}
	for e, want := range map[*almanac.Event]int{&ready: 1, &retried: 2, &gone: 1} {
		bodies := attempts[e.IdempotencyKey.String()]
		require.Len(t, bodies, want, "three schedulers share no event")
		require.Equal(t, bodies[0], bodies[len(bodies)-1], "a repeat has the same key and body")
	}
	require.Len(t, attempts, 3)
	fields := d.logged("Webhook delivery succeeded")
	require.EqualValues(t, http.StatusOK, fields["status_code"])
	require.Contains(t, fields, "duration_ms")
	require.Contains(t, fields, "idempotency_key")
}

// W3: a user's change moves their pending event, and an unknown user is not found.
func TestWorkflow3UserUpdateWithRescheduling(t *testing.T) {
	t.Parallel()
	d := deploy(t, time.Hour)
	status, _ := d.send(http.MethodPut, "/user/"+uuid.NewString(), `{"timezone":"America/Los_Angeles"}`)
	require.Equal(t, http.StatusNotFound, status)
	before := d.create(`{"firstName":"John","lastName":"Doe","dateOfBirth":"1990-06-15","timezone":"America/New_York"}`)

	status, answer := d.send(http.MethodPut, "/user/"+before.UserID.String(), `{"timezone":"America/Los_Angeles"}`)

	require.Equal(t, http.StatusOK, status, answer)
	require.Equal(t, "America/Los_Angeles", answer["user"].(map[string]any)["timezone"])
	after := d.event(before.ID)
	require.Equal(t, before.Wall, after.Wall, "the same local time")
	require.Equal(t, before.Due.Add(3*time.Hour), after.Due, "in the new zone")
	require.Equal(t, "America/Los_Angeles", after.Zone)
	require.Equal(t, before.Version+1, after.Version)
	fields := d.logged("Birthday events rescheduled")
	require.Equal(t, before.UserID.String(), fields["user_id"])
	require.Equal(t, []any{1.0, 0.0}, []any{fields["rescheduled_count"], fields["skipped_count"]})
}

// W4: what a downtime missed is logged at the start, then executed, oldest first.
func TestWorkflow4FailureRecoveryAfterDowntime(t *testing.T) {
	t.Parallel()
	quiet := deploy(t, time.Hour)
	quiet.run(quiet.scheduler)
	quiet.logged("No missed events found")

	d := deploy(t, time.Hour)
	now := time.Now().UTC().Truncate(time.Second)
	oldest, newest := now.Add(-7*24*time.Hour), now.Add(-time.Hour)
	for _, due := range []time.Time{newest, oldest, now.Add(-3 * 24 * time.Hour)} {
		d.missed(due)
	}

	d.run(d.scheduler)

	d.logged("Starting recovery check")
	fields := d.logged("Missed events found")
	require.EqualValues(t, 3, fields["count"])
	require.Equal(t, oldest.Format(isoMillis), fields["oldest_event_timestamp"])
	require.Equal(t, newest.Format(isoMillis), fields["newest_event_timestamp"])
	require.Eventually(t, func() bool {
		n, err := d.store.Count(t.Context(), almanac.InStatus(almanac.Completed))
		return err == nil && n == 3
	}, patience, pollEvery)
	got := d.greetings()
	require.Len(t, got, 3)
	require.Contains(t, got[0].body, oldest.Format(time.DateOnly))
	require.Contains(t, got[2].body, newest.Format(time.DateOnly))
}

// missed stores a user whose birthday came at an instant at which nothing ran.
func (d *deployment) missed(due time.Time) {
	d.t.Helper()
	wall := calendar.WallTimeOf(due)
	u, err := almanac.NewUser(almanac.Profile{FirstName: "Due", LastName: due.Format(time.DateOnly), Timezone: "UTC",
		DateOfBirth: fmt.Sprintf("1992-%02d-%02d", int(wall.Date.Month), wall.Date.Day)}, due)
	require.NoError(d.t, err)
	birthday := almanac.Birthday{At: func(almanac.User) calendar.Clock { return wall.Clock }}
	o, err := birthday.Next(u, due.Add(-time.Second))
	require.NoError(d.t, err)
	e, err := almanac.NewEvent(u, birthday, almanac.Occurrence{Occurrence: o})
	require.NoError(d.t, err)
	require.Equal(d.t, due, e.Due)
	almanactest.Store(d.t, d.store, u, e)
}

// W5: an edit leaves alone what is being executed, says so, and the next event follows it.
func TestWorkflow5RaceConditionProtectionDuringUserUpdates(t *testing.T) {
	t.Parallel()
	d := deploy(t, 15*time.Second)
	arrived, release := make(chan struct{}), make(chan struct{})
	arrive := sync.OnceFunc(func() { close(arrived) })
	d.answer = func(greeting) int {
		arrive()
		<-release
		return http.StatusOK
	}
	free := sync.OnceFunc(func() { close(release) })
	event := d.create(d.profile("Doe"))
	d.run(d.scheduler)
	t.Cleanup(free) // before the schedulers are waited for
	<-arrived       // T1: the event is being executed

	status, answer := d.send(http.MethodPut, "/user/"+event.UserID.String(), `{"dateOfBirth":"1990-02-20"}`) // T2, T3

	require.Equal(t, http.StatusOK, status, answer)
	during := d.event(event.ID)
	require.Equal(t, almanac.Processing, during.Status)
	require.Equal(t, event.Due, during.Due, "skipped")
	skipped := d.logged("Skipping reschedule for event in PROCESSING state")
	require.Equal(t, []any{event.ID.String(), event.UserID.String(), "PROCESSING"}, []any{skipped["event_id"], skipped["user_id"], skipped["current_status"]})
	require.NotEmpty(t, skipped["reason"])
	counts := d.logged("Birthday events rescheduled")
	require.EqualValues(t, 0, counts["rescheduled_count"])
	require.Equal(t, []any{event.ID.String()}, counts["skipped_event_ids"])
	d.logged("Some events could not be rescheduled")

	free() // T4: it ends with the old birthday
	done := d.becomes(event.ID, almanac.Completed)
	require.Equal(t, event.Due, done.Due)
	next := d.successor(done)
	require.Equal(t, []int{2, 20}, []int{int(next.Wall.Date.Month), next.Wall.Date.Day}, "the next follows the new one")
	require.Len(t, d.greetings(), 1)
}
