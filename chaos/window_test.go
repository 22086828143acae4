package chaos_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/chaos"
)

// out is a zone an hour behind UTC, all the year: a user who moves there has no event
// before the run is over.
const out = "Atlantic/Cape_Verde"

// far is as far as these rows look ahead: nearly every event that is due a second later is
// held when an edit comes by.
const far = 900 * time.Millisecond

// watchTakenBack makes the database count the events that editors release while a worker
// holds them ahead of their instant. No other change by an edit raises a version by two.
const watchTakenBack = `
CREATE SEQUENCE taken_back MINVALUE 0 START 0;
SELECT nextval('taken_back');
CREATE FUNCTION count_taken_back() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF current_setting('application_name') = 'editor' THEN
		PERFORM nextval('taken_back');
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER taken_back AFTER UPDATE OF version ON almanac.series FOR EACH ROW
WHEN (NEW.event_id = OLD.event_id AND NEW.version = OLD.version + 2) EXECUTE FUNCTION count_taken_back()`

// heldBy is how many events a process holds that are not due yet.
const heldBy = `SELECT count(*) FROM almanac.leases l JOIN almanac.processing_events e ON e.lease_token = l.token
	WHERE e.target_timestamp_utc > clock_timestamp() AND split_part(l.owner, '/', 2) = $1`

// window is a run in which users are edited about the instants at which their events
// begin.
type window struct {
	*edited
	mu    sync.Mutex
	lives map[uuid.UUID][]stretch
}

// stretch is how a user was after an edit, which each of their events that begins is
// to follow.
type stretch struct {
	zone, born       string
	began, committed time.Time // of the edit
}

func newWindow(r *chaos.Run, plan chaos.Plan) (*window, []uuid.UUID) {
	r.Helper()
	w := &window{edited: newEdited(r), lives: make(map[uuid.UUID][]stretch)}
	_, err := r.Pool().Exec(r.Context(), watchTakenBack)
	require.NoError(r, err)
	ids := r.CreateUsers(people, plan)
	for _, id := range ids {
		w.lives[id] = []stretch{{zone: "UTC", born: "1990-01-01"}}
	}
	return w, ids
}

// waitForTheSecond waits until d before a full second, at which occurrences are due.
func waitForTheSecond(d time.Duration) {
	now := time.Now()
	time.Sleep((now.Truncate(time.Second).Add(2*time.Second-d).Sub(now) % time.Second))
}

// edit changes a user, in a transaction that stays open for a while. Of one user
// there is one at a time.
func (w *window) edit(id uuid.UUID, c almanac.ProfileChange, open time.Duration) {
	w.Helper()
	w.mu.Lock()
	life := w.lives[id]
	w.mu.Unlock()
	is := life[len(life)-1]
	if c.Timezone != nil {
		is.zone = *c.Timezone
	}
	if c.DateOfBirth != nil {
		is.born = *c.DateOfBirth
	}
	is.began = time.Now()
	var committed func()
	if open == 0 {
		committed = w.change(w.Context(), w.planner, id, c)
	} else {
		tx, err := w.pool.Begin(w.Context())
		require.NoError(w, err)
		committed = w.change(w.Context(), w.PlannerOn(tx), id, c)
		time.Sleep(open)
		require.NoError(w, tx.Commit(w.Context()))
	}
	is.committed = time.Now()
	committed()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lives[id] = append(life, is)
}

// follows reports whether a delivery is what the user's profile planned when it
// began: no edit was committed before its instant that it does not know of, and none
// that it knows of came after it.
func (w *window) follows(life []stretch, key string, d chaos.Entry) bool {
	for i, was := range life {
		zone, err := time.LoadLocation(was.zone)
		require.NoError(w, err)
		due, err := time.ParseInLocation("2006-01-02T15:04:05", key, zone)
		require.NoError(w, err)
		passed := i+1 < len(life) && life[i+1].committed.Before(due)
		if was.born == d.Born && !passed && !d.At.Before(due) && !d.At.Before(was.began) {
			return true
		}
	}
	return false
}

// check is that of edited, and besides that everything began as it was planned then.
func (w *window) check(bitten ...string) {
	w.Helper()
	var back int
	require.NoError(w, w.Pool().QueryRow(w.Context(), "SELECT last_value FROM taken_back").Scan(&back))
	w.Count("taken back", back)
	ledger, _ := w.Receiver.Ledger()
	wrong := 0
	for _, d := range ledger {
		person, key, _ := strings.Cut(d.Occurrence, " ")
		id, err := uuid.Parse(person)
		require.NoError(w, err)
		if !w.follows(w.lives[id], key, d) {
			if wrong++; wrong < 5 {
				w.Errorf("I10: %s was delivered at %v to a user born %s", d.Occurrence, d.At, d.Born)
			}
		}
	}
	if wrong > 0 {
		w.Errorf("I10: %d deliveries did not follow their person", wrong)
	}
	w.edited.check(append(bitten, "taken back")...)
}

// editAll edits users one after the other until ctx is done, mostly about the instants
// of their events, and leaves them where they were.
func (w *window) editAll(ctx context.Context, ids []uuid.UUID, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	home, away := "UTC", out
	for n := 0; ctx.Err() == nil; n++ {
		id := ids[random.IntN(len(ids))]
		open := time.Duration(max(0, random.IntN(80)-40)) * time.Millisecond // half of them at once
		waitForTheSecond(time.Duration(random.IntN(400)-100) * time.Millisecond)
		switch random.IntN(3) {
		case 0:
			w.edit(id, almanac.ProfileChange{Timezone: &away}, open)
			time.Sleep(time.Duration(random.IntN(400)) * time.Millisecond)
			w.edit(id, almanac.ProfileChange{Timezone: &home}, 0)
		case 1:
			w.edit(id, named("Ada %d %d", seed, n), open)
		default:
			born := time.Date(1950, 1, 1+n, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
			w.edit(id, almanac.ProfileChange{DateOfBirth: &born}, open)
		}
	}
}

// holding waits until a worker holds something that is due in a moment.
func holding(r *chaos.Run, worker *chaos.Process) {
	r.Helper()
	ctx := r.Within(20 * time.Second)
	for held := 0; held == 0; r.Count("held in the window", held) {
		waitForTheSecond(200 * time.Millisecond)
		require.NoError(r, r.Pool().QueryRow(ctx, heldBy, strconv.Itoa(worker.PID())).Scan(&held))
	}
}

// killHolding kills a worker while it holds something that is due in a moment.
func killHolding(r *chaos.Run, worker *chaos.Process) {
	r.Helper()
	for held := 0; held == 0; {
		holding(r, worker)
		require.NoError(r, worker.Signal(syscall.SIGSTOP)) // or it may have ended all of it by now
		require.NoError(r, r.Pool().QueryRow(r.Context(), heldBy, strconv.Itoa(worker.PID())).Scan(&held))
		if held == 0 {
			require.NoError(r, worker.Signal(syscall.SIGCONT))
		}
	}
	r.Kill(worker)
}

// Users move away and back, turn out to be born on another day, change their name or
// are deleted while workers hold what begins for them in a moment, and one of the
// workers dies. What was committed before an instant holds from it on.
func TestEditsInTheWindow(t *testing.T) {
	rowByItself(t, func(t *testing.T, seed uint64) {
		const beside = 8
		w, ids := newWindow(calm(t, seed), chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 12})
		w.Receiver.Answer(func(int, chaos.Entry) int { time.Sleep(50 * time.Millisecond); return http.StatusOK }) // long enough to be met
		leaving, staying := ids[:beside], ids[beside:]
		ahead := func(o *chaos.Orders) {
			o.LookAhead, o.Slots, o.Lease, o.Patience = far, people, 2*chaos.Lease, 20*time.Second // half of them each
		}
		victim := w.Work("victim", ahead)
		w.Work("other", ahead)
		ctx, stop := context.WithTimeout(t.Context(), lead+6*time.Second)
		defer stop()
		var wg sync.WaitGroup
		for own := range slices.Chunk(staying, len(staying)/beside) {
			editor := w.Random.Uint64()
			wg.Go(func() { w.editAll(ctx, own, editor) })
		}
		holding(w.Run, victim)
		for i, id := range leaving {
			waitForTheSecond(time.Duration(w.Random.IntN(400)-100) * time.Millisecond)
			w.part(id)
			if i == beside/2 {
				killHolding(w.Run, victim)
				w.Work("new", ahead)
			}
		}
		wg.Wait()
		w.Drained(60 * time.Second)
		w.check("met a delivery", "deletions", "killed", "held", "held in the window")
	})
}

// Workers are stopped, one after the other, while they hold what begins in a moment.
// They leave it to those who stay, who begin it at its instant and not when a lease
// has run out, which is long after everything is to be over.
func TestStoppedInTheWindow(t *testing.T) {
	rowByItself(t, func(t *testing.T, seed uint64) {
		r := calm(t, seed)
		r.CreateUsers(people, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 12})
		ahead := func(o *chaos.Orders) { o.LookAhead, o.Slots = far, people } // half of them each
		workers := []*chaos.Process{r.Work("one", unhurried, ahead), r.Work("two", unhurried, ahead)}
		for i := range 5 {
			leaving := workers[i%2]
			holding(r, leaving)
			_, err := leaving.Stop(r.Within(20 * time.Second))
			require.NoError(t, err)
			r.Count("stopped", 1)
			workers[i%2] = r.Work("new", unhurried, ahead)
		}
		r.Drained(40 * time.Second)
		r.Check("stopped", "held in the window")
	})
}
