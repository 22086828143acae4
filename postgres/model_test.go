package postgres_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/pgtest"
)

// PostgreSQL answers a random sequence of calls as the repository in memory does, whose
// code is short enough to be checked by reading.
func TestPostgresAgreesWithTheModel(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store := mustStore(t, pool)
	rapid.Check(t, func(rt *rapid.T) {
		m := newModel(t, rt, pool, store)
		rt.Repeat(map[string]func(*rapid.T){
			"":        m.compare,
			"create":  m.create,
			"claim":   m.claim,
			"settle":  m.settle,
			"release": m.release,
			"crash":   m.crash,
			"renew":   m.renew,
			"update":  m.update,
			"edit":    m.edit,
			"delete":  m.delete,
			"find":    m.find,
			"delete none": func(rt *rapid.T) {
				m.same(rt, "delete an unknown user", func(r almanac.Repository) string {
					_, err := r.DeleteUser(t.Context(), uuid.Max, almanac.DeleteOptions{})
					return kind(err)
				})
			},
		})
	})
}

// model is a repository under test and the one that it is compared with.
type model struct {
	*testing.T
	pool          *pgxpool.Pool
	memory, store almanac.Repository
	base          time.Time // of what is due: the past hour for both clocks
	made          int
	users         []uuid.UUID
	tokens        []uuid.UUID
	claims        []almanac.Event            // each as it was claimed, also those that are settled since
	claimants     map[uuid.UUID]almanac.User // by event, as they were when it was claimed last
}

func newModel(t *testing.T, rt *rapid.T, pool *pgxpool.Pool, store almanac.Repository) *model {
	_, err := pool.Exec(t.Context(), "TRUNCATE almanac.series, almanac.queue, almanac.history, almanac.keys, almanac.users, almanac.leases, almanac.due_counts, almanac.due_changes")
	require.NoError(rt, err)
	return &model{T: t, pool: pool, memory: almanactest.NewRepository(nil), store: store, claimants: make(map[uuid.UUID]almanac.User), base: time.Now().Add(-time.Hour).UTC().Truncate(time.Second)}
}

// same does something to both and compares what they say.
func (m *model) same(rt *rapid.T, what string, do func(r almanac.Repository) string) {
	want, got := do(m.memory), do(m.store)
	if got != want {
		rt.Fatalf("%s: PostgreSQL says\n%s\nand the model\n%s", what, got, want)
	}
}

// seen writes what can be compared of an event: all but when it was written. Of
// an instant that a repository's clock made, whether it is past.
func (m *model) seen(e almanac.Event) string {
	return fmt.Sprintf("%s %s %s %s %s %s due %v key %s token %s version %d of user's %d, %d claims %d retries %d crashes, available %v executed %v, %q %q %s\n",
		e.ID, e.UserID, e.Type, e.KeyUnit, e.OccurrenceKey, e.Status, e.Due.Sub(m.base), e.IdempotencyKey, e.LeaseToken, e.Version, e.UserVersion,
		e.ClaimCount, e.RetryCount, e.CrashCount, e.AvailableAt.Sub(m.base) > 90*time.Minute, e.ExecutedAt, e.FailureReason, e.LastError, strings.ReplaceAll(string(e.Payload), " ", ""))
}

// all writes events in an order that does not depend on who was asked.
func (m *model) all(events []almanac.Event, err error) string {
	lines := []string{kind(err)}
	for _, e := range events {
		lines = append(lines, m.seen(e))
	}
	slices.Sort(lines[1:])
	return strings.Join(lines, "\n")
}

// usedText writes used keys without the times of their ends, which the clocks made.
func usedText(used map[almanac.Series]almanac.UsedKeys) string {
	texts := make(map[almanac.Series]almanac.UsedKeys)
	for one, keys := range used {
		keys = slices.Clone(keys)
		for i := range keys {
			keys[i].Ended = calendar.WallTime{}
		}
		texts[one] = keys
	}
	return fmt.Sprint(texts)
}

// kind is what a caller can tell of an error.
func kind(err error) string {
	for _, known := range []error{almanac.ErrNotFound, almanac.ErrExists, almanac.ErrExternalIDTaken, almanac.ErrOptimisticLock, almanac.ErrLeaseLost, almanac.ErrInvalidStateTransition, errUnplanned} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	if err != nil {
		return "another error"
	}
	return "fine"
}

var errUnplanned = errors.New("no plan")

// misplaced is what the queue would find by another instant than its target.
const misplaced = `
	SELECT q.event_id::text || ' ' || q.available_at || ' ' || coalesce(q.delayed_from::text, 'not delayed') || ' ' || s.target_timestamp_utc
	FROM almanac.queue q
	JOIN almanac.series s ON s.id = q.series_id
	WHERE q.delayed_from IS DISTINCT FROM CASE WHEN q.available_at <> s.target_timestamp_utc THEN s.target_timestamp_utc END
		OR q.available_at < s.target_timestamp_utc`

// miscounted is where the counts differ from what is stored.
const miscounted = `
	SELECT x.timezone || ' ' || x.quarter || ' ' || x.event_type || ': ' || sum(x.n)
	FROM (
		SELECT timezone, quarter, event_type, n FROM almanac.due_counts
		UNION ALL
		SELECT timezone, quarter, event_type, n FROM almanac.due_changes
		UNION ALL
		SELECT target_timezone, floor(extract(epoch FROM target_timestamp_utc) / 900)::integer, event_type, -1 FROM almanac.series WHERE event_id IS NOT NULL
		UNION ALL
		SELECT target_timezone, floor(extract(epoch FROM target_timestamp_utc) / 900)::integer, event_type, -1 FROM almanac.history
	) x
	GROUP BY x.timezone, x.quarter, x.event_type
	HAVING sum(x.n) <> 0`

// compare compares everything that is stored.
func (m *model) compare(rt *rapid.T) {
	for what, query := range map[string]string{"found by another instant than its target": misplaced, "counted wrongly": miscounted} {
		rows, err := m.pool.Query(m.Context(), query)
		require.NoError(rt, err)
		wrong, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(rt, err)
		require.Empty(rt, wrong, what)
	}
	m.same(rt, "everything", func(r almanac.Repository) string {
		found, err := r.Find(m.Context(), nil, almanac.Page{Limit: 1000})
		return m.all(found.Items, err)
	})
	for _, id := range m.users {
		m.same(rt, "a user", func(r almanac.Repository) string {
			u, err := r.User(m.Context(), id)
			return fmt.Sprintf("%s %s %d %q", kind(err), u.FirstName, u.Version, u.ExternalID)
		})
	}
	for _, external := range externalIDs {
		m.same(rt, "who has an external id", func(r almanac.Repository) string {
			u, err := r.UserByExternalID(m.Context(), external)
			return kind(err) + u.ID.String()
		})
	}
}

// newEvent makes an event that is due in the past or in the future, and may be of an
// occurrence or a key that is taken.
func (m *model) newEvent(rt *rapid.T, u almanac.User) almanac.Event {
	m.made++
	due := m.base.Add(time.Duration(m.made/3) * time.Second)
	if rapid.IntRange(0, 3).Draw(rt, "later") == 0 {
		due = due.Add(24 * time.Hour)
	}
	e := almanactest.Event(due, almanactest.For(u), almanactest.DueIn(0), almanactest.OfType(rapid.SampledFrom([]string{"A", "B"}).Draw(rt, "type")),
		almanactest.OfSeries(rapid.SampledFrom([]string{"", "a", "a/b", "~b"}).Draw(rt, "series"),
			rapid.SampledFrom([]string{"", "a/", "b/", "~at-"}).Draw(rt, "prefix")+fmt.Sprintf("k%02d", rapid.IntRange(0, 20).Draw(rt, "occurrence"))),
		almanactest.WithOrigin(almanac.Origin{Kind: rapid.SampledFrom([]almanac.OriginKind{
			almanac.OriginPlanned, almanac.OriginPlanned, almanac.OriginScheduled, almanac.OriginFollowUp,
		}).Draw(rt, "origin")}))
	e.KeyUnit = rapid.SampledFrom([]calendar.Unit{calendar.UnitText, calendar.UnitText, calendar.UnitDay, "year:hebrew"}).Draw(rt, "unit")
	e.UserVersion = u.Version
	e.IdempotencyKey = almanac.IdempotencyKey(fmt.Sprintf("event-%016x", rapid.IntRange(0, 50).Draw(rt, "key")))
	return e
}

// externalIDs are few, so that some are taken. "" is none.
var externalIDs = []string{"", "1", "2", "3"}

func (m *model) create(rt *rapid.T) {
	u := almanactest.User(almanactest.LivingIn(rapid.SampledFrom([]string{"Asia/Tokyo", "Europe/London"}).Draw(rt, "zone")),
		almanactest.WithExternalID(rapid.SampledFrom(externalIDs).Draw(rt, "external id")))
	if len(m.users) > 0 && rapid.IntRange(0, 9).Draw(rt, "id taken") == 0 {
		u.ID = rapid.SampledFrom(m.users).Draw(rt, "id")
	}
	m.users = append(m.users, u.ID)
	events := make([]almanac.Event, rapid.IntRange(0, 3).Draw(rt, "events"))
	for i := range events {
		events[i] = m.newEvent(rt, u)
	}
	m.same(rt, "create", func(r almanac.Repository) string {
		_, stored, err := almanactest.CreateUser(m.Context(), r, u, events...)
		return m.all(stored, err)
	})
}

// request asks for everything of some types: which of several is the older may
// depend on the clock.
func (m *model) request(rt *rapid.T) almanac.ClaimRequest {
	types := rapid.SampledFrom([][]string{{"A"}, {"B"}, {"A", "B"}, {"C"}}).Draw(rt, "types")
	request := almanac.ClaimRequest{Token: uuid.New(), Owner: "model", Types: types, Limit: 1000, Lease: time.Hour}
	m.tokens = append(m.tokens, request.Token)
	return request
}

func (m *model) claim(rt *rapid.T) {
	request := m.request(rt)
	var claimed []almanac.Event
	users := make(map[uuid.UUID]almanac.User)
	m.same(rt, "claim", func(r almanac.Repository) string {
		claim, err := r.Claim(m.Context(), request)
		claimed = claim.Events
		text := m.all(claim.Events, err)
		for _, e := range claim.Events {
			users[e.ID] = claim.Users[e.UserID]
			text += fmt.Sprintln(users[e.ID].ID, users[e.ID].FirstName, users[e.ID].Version)
		}
		return text
	})
	m.claims = append(m.claims, claimed...)
	maps.Copy(m.claimants, users)
}

// crash claims for a moment and lets the lease run out. Other leases last.
func (m *model) crash(rt *rapid.T) {
	request := m.request(rt)
	request.Lease = time.Microsecond
	m.same(rt, "crash", func(r almanac.Repository) string {
		claim, err := r.Claim(m.Context(), request)
		if err != nil {
			return kind(err)
		}
		var released []almanac.Event
		for first := true; first || len(released) < len(claim.Events) && err == nil; first = false {
			var more []almanac.Event
			more, err = r.ReleaseExpired(m.Context(), 1000, 1000)
			released = append(released, more...)
		}
		return m.all(released, err)
	})
}

// settle stores outcomes of claims, fresh and stale, some of them twice. The order in
// which a batch is stored is not promised, so no successor depends on another settlement.
func (m *model) settle(rt *rapid.T) {
	if len(m.claims) == 0 {
		return
	}
	batch := make([]almanac.Settlement, rapid.IntRange(1, 4).Draw(rt, "settlements"))
	for i := range batch {
		batch[i].Event = rapid.SampledFrom(m.claims).Draw(rt, "claim")
	}
	keys := make(map[almanac.IdempotencyKey]bool)
	for i := range batch {
		s := &batch[i]
		s.Outcome = rapid.SampledFrom([]almanac.Outcome{
			almanac.Delivered(m.base), almanac.GaveUp("HTTP 404"), almanac.CalledOff(""), almanac.Released(almanac.AfterFailure, "HTTP 503", 0),
			almanac.Released(almanac.AfterFailure, "HTTP 429", 24*time.Hour), almanac.Released(almanac.AfterShutdown, "stopped", 0),
		}).Draw(rt, "outcome")
		if rapid.Bool().Draw(rt, "with the user") {
			s.User = m.claimants[s.Event.ID]
		}
		successor := m.newEvent(rt, almanac.User{ID: s.Event.UserID, Version: 1})
		if rapid.Bool().Draw(rt, "follows") {
			successor.Type, successor.OccurrenceKey = s.Event.Type, s.Event.OccurrenceKey+"x"
		}
		plan := rapid.SampledFrom([]error{nil, nil, calendar.ErrNoOccurrence, errUnplanned}).Draw(rt, "plan")
		if keys[successor.IdempotencyKey] || goesOnWith(batch, *s, successor) {
			plan = calendar.ErrNoOccurrence
		}
		keys[successor.IdempotencyKey] = true
		s.Next = func(almanac.User, time.Time) (almanac.Event, error) { return successor, plan }
	}
	m.same(rt, "settle", func(r almanac.Repository) string {
		settled, err := r.Settle(m.Context(), batch)
		text := kind(err)
		for _, s := range settled {
			text += fmt.Sprintf("\n%s %s ", kind(s.Err), kind(s.PlanErr)) + m.seen(s.Event)
			if s.Successor != nil {
				text += m.seen(*s.Successor)
			}
		}
		return text
	})
}

// goesOnWith reports whether a successor of one settlement belongs to the series of another.
func goesOnWith(batch []almanac.Settlement, one almanac.Settlement, successor almanac.Event) bool {
	return slices.ContainsFunc(batch, func(other almanac.Settlement) bool {
		return other.Event.ID != one.Event.ID && other.Event.UserID == successor.UserID &&
			almanac.SeriesOf(other.Event) == almanac.SeriesOf(successor)
	})
}

func (m *model) release(rt *rapid.T) {
	token := m.token(rt)
	m.same(rt, "release", func(r almanac.Repository) string { return m.all(r.Release(m.Context(), token)) })
}

func (m *model) renew(rt *rapid.T) {
	tokens := []uuid.UUID{m.token(rt), m.token(rt)}
	m.same(rt, "renew", func(r almanac.Repository) string {
		held, err := r.Renew(m.Context(), tokens, time.Hour)
		slices.SortFunc(held, func(a, b uuid.UUID) int { return strings.Compare(a.String(), b.String()) })
		return fmt.Sprint(kind(err), slices.Compact(held))
	})
}

// token is one that was used, or one that was not.
func (m *model) token(rt *rapid.T) uuid.UUID {
	return rapid.SampledFrom(append([]uuid.UUID{uuid.Max}, m.tokens...)).Draw(rt, "token")
}

// update moves an event by hand, at the version that is stored or at another.
func (m *model) update(rt *rapid.T) {
	found, err := m.memory.Find(m.Context(), nil, almanac.Page{Limit: 1000})
	require.NoError(rt, err)
	if len(found.Items) == 0 {
		return
	}
	e := rapid.SampledFrom(found.Items).Draw(rt, "event")
	expected := e.Version + rapid.SampledFrom([]int{0, 0, -1, 1}).Draw(rt, "off by")
	changed := e
	switch rapid.IntRange(0, 3).Draw(rt, "change") {
	case 0:
		changed.Due, changed.AvailableAt = e.Due.Add(time.Minute), e.Due.Add(time.Minute)
	case 1:
		changed.Status, changed.ExecutedAt = almanac.Completed, m.base
	case 2:
		changed.OccurrenceKey = "another"
	case 3:
		changed.Version = 99
	}
	m.same(rt, "update", func(r almanac.Repository) string {
		stored, err := r.Update(m.Context(), changed, expected)
		return kind(err) + " " + m.seen(stored)
	})
}

// edit renames a user, moves what is pending, takes some of it away, cancels or hurries
// events that wait for another attempt, and adds something else.
func (m *model) edit(rt *rapid.T) {
	if len(m.users) == 0 {
		return
	}
	id := rapid.SampledFrom(m.users).Draw(rt, "user")
	added := m.newEvent(rt, almanac.User{ID: id, Version: 1})
	cancels := rapid.Bool().Draw(rt, "cancels")
	external := rapid.SampledFrom(externalIDs).Draw(rt, "external id")
	fails, renames := rapid.IntRange(0, 4).Draw(rt, "fails") == 0, rapid.Bool().Draw(rt, "renames")
	m.same(rt, "edit", func(r almanac.Repository) string {
		var roster string
		edit, err := r.EditUser(m.Context(), id, func(seen almanac.Roster) (edit almanac.Edit, err error) {
			roster = m.all(seen.Pending, nil) + m.all(seen.InFlight, nil) + usedText(seen.Used)
			if fails {
				return edit, errUnplanned
			}
			if renames {
				u := seen.User
				u.FirstName, u.ExternalID, u.Version = u.FirstName+"x", external, u.Version+1
				u.OptOuts = []almanac.OptOut{{Type: "T"}, {Type: "T", Channel: "c"}}[:u.Version%3]
				edit.User = &u
			}
			for i, e := range seen.Pending {
				if i%2 == 0 {
					edit.Removed = append(edit.Removed, e)
					continue
				}
				e.Due, e.AvailableAt, e.Version = e.Due.Add(time.Second), e.Due.Add(time.Second), e.Version+1
				edit.Changed = append(edit.Changed, e)
			}
			for _, e := range seen.InFlight {
				if e.Status != almanac.Pending {
					continue
				}
				next := e
				if next.AvailableAt, next.Version = e.Due.Add(time.Second), e.Version+1; cancels {
					next, err = e.Cancel("by hand")
				}
				edit.Changed = append(edit.Changed, next)
			}
			edit.New = []almanac.Event{added}
			return edit, err
		})
		return kind(err) + roster + m.all(edit.Changed, nil) + m.all(edit.New, nil) + m.all(edit.Removed, nil)
	})
}

func (m *model) delete(rt *rapid.T) {
	if len(m.users) == 0 {
		return
	}
	id, options := rapid.SampledFrom(m.users).Draw(rt, "user"), almanac.DeleteOptions{AtOnce: rapid.Bool().Draw(rt, "at once")}
	m.same(rt, "delete", func(r almanac.Repository) string {
		d, err := r.DeleteUser(m.Context(), id, options)
		// The model removes deleted users as soon as they can be removed.
		_, swept := r.ReleaseExpired(m.Context(), 1000, 1000)
		return fmt.Sprint(kind(err), kind(swept), d.Removed, d.InFlight)
	})
}
