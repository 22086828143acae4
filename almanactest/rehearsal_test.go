package almanactest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// birthdays starts a rehearsal of birthdays at an instant.
func birthdays(t testing.TB, begin string, recorder *almanactest.Recorder, options ...almanac.Option) *almanactest.Rehearsal {
	t.Helper()
	time.Sleep(time.Until(instant(t, begin)))
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	if err != nil {
		t.Fatal(err)
	}
	return almanactest.Rehearse(t, registry, append(options, almanac.WithDeliverer(almanac.ChannelWebhook, recorder))...)
}

func instant(t testing.TB, s string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func enrol(t testing.TB, r *almanactest.Rehearsal, born, zone string) uuid.UUID {
	t.Helper()
	enrolled, err := r.Scheduler.CreateUser(t.Context(), almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: born, Timezone: zone})
	if err != nil {
		t.Fatal(err)
	}
	return enrolled.User.ID
}

func sameLines(t testing.TB, attempts []almanactest.Attempt, want ...string) {
	t.Helper()
	var got []string
	for _, a := range attempts {
		got = append(got, a.String())
	}
	if !slices.Equal(got, want) {
		t.Errorf("attempts:\n\t%s\nwant:\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func TestTenYearsOfBirthdays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { tenYears(t) })
}

func BenchmarkTenYearsOfBirthdays(b *testing.B) {
	for b.Loop() {
		synctest.Test(new(testing.T), func(t *testing.T) { tenYears(t) })
	}
}

// tenYears rehearses a user in each of four zones. One is born on a leap day and one moves.
func tenYears(t testing.TB) {
	recorder := new(almanactest.Recorder)
	r := birthdays(t, "2027-01-01T00:00:00Z", recorder)
	leaper := enrol(t, r, "1996-02-29", "America/New_York")
	mover := enrol(t, r, "1990-03-28", "Europe/London")
	early, late := enrol(t, r, "1990-01-01", "Pacific/Kiritimati"), enrol(t, r, "1990-12-31", "Pacific/Niue")

	r.Until(instant(t, "2031-06-01T00:00:00Z"))
	tokyo := "Asia/Tokyo"
	if _, err := r.Scheduler.UpdateUser(t.Context(), mover, almanac.ProfileChange{Timezone: &tokyo}); err != nil {
		t.Fatal(err)
	}
	r.Until(instant(t, "2037-01-02T00:00:00Z"))

	var leaps, moves, newYears, yearEnds []string
	for year := 2027; year <= 2036; year++ {
		day, utc, zone := "02-28", "08:00:00Z", "Europe/London"
		if year%4 == 0 {
			day = "02-29"
		}
		switch { // British clocks go forward on the last Sunday in March
		case year > 2031:
			utc, zone = "00:00:00Z", "Asia/Tokyo"
		case year > 2029:
			utc = "09:00:00Z"
		}
		leaps = append(leaps, fmt.Sprintf("%d-%sT09:00:00 America/New_York (14:00:00Z) BIRTHDAY %d", year, day, year))
		moves = append(moves, fmt.Sprintf("%d-03-28T09:00:00 %s (%s) BIRTHDAY %d", year, zone, utc, year))
		newYears = append(newYears, fmt.Sprintf("%d-01-01T09:00:00 Pacific/Kiritimati (%d-12-31T19:00:00Z) BIRTHDAY %d", year+1, year, year+1))
		yearEnds = append(yearEnds, fmt.Sprintf("%d-12-31T09:00:00 Pacific/Niue (20:00:00Z) BIRTHDAY %d", year, year))
	}
	sameLines(t, recorder.AttemptsFor(leaper), leaps...)
	sameLines(t, recorder.AttemptsFor(mover), moves...)
	sameLines(t, recorder.AttemptsFor(early), newYears...)
	sameLines(t, recorder.AttemptsFor(late), yearEnds...)
	if n := len(recorder.Attempts()); n != 40 {
		t.Errorf("%d attempts, want 40", n)
	}
}

func TestARehearsalOfFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		recorder := &almanactest.Recorder{Deliverer: almanac.DelivererFunc(func(_ context.Context, d almanac.Delivery) error {
			switch {
			case d.Attempt == 1:
				return errors.New("receiver answered 503")
			case d.Event.OccurrenceKey == "2028":
				return almanac.Permanent(errors.New("receiver answered 404"))
			case d.Event.OccurrenceKey == "2029":
				panic("a deliverer's mistake")
			}
			return nil
		})}
		r := birthdays(t, "2027-01-01T00:00:00Z", recorder)
		ada := enrol(t, r, "1990-12-10", "Europe/London")

		r.Until(instant(t, "2030-01-01T00:00:00Z"))

		var got []string
		for _, a := range recorder.Attempts() {
			err := "accepted"
			if a.Err != nil {
				err = a.Err.Error()
			}
			got = append(got, fmt.Sprint(a.Event.OccurrenceKey, " ", a.Attempt, " ", err))
		}
		want := []string{
			"2027 1 receiver answered 503", "2027 2 accepted",
			"2028 1 receiver answered 503", "2028 2 receiver answered 404",
			"2029 1 receiver answered 503", "2029 2 did not return", "2029 3 did not return",
		}
		if !slices.Equal(got, want) {
			t.Errorf("attempts %q, want %q", got, want)
		}
		if e := almanactest.PendingEvent(t, r.Repository, ada, almanac.TypeBirthday); e.OccurrenceKey != "2030" {
			t.Errorf("what follows is the birthday of %s, want 2030", e.OccurrenceKey)
		}
	})
}

func TestARehearsalOfACrash(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		recorder := new(almanactest.Recorder)
		r := birthdays(t, "2027-12-10T08:00:00Z", recorder, almanac.WithLease(time.Minute), almanac.WithSweep(5*time.Second))
		recorder.Deliverer = almanac.DelivererFunc(func(_ context.Context, d almanac.Delivery) error {
			if d.Event.CrashCount < 2 {
				r.Crash()
			}
			return nil
		})
		enrol(t, r, "1990-12-10", "Europe/London")

		r.For(2 * time.Hour)

		attempts := recorder.Attempts()
		if len(attempts) != 3 || attempts[0].Err == nil || attempts[1].Err == nil || attempts[2].Err != nil {
			t.Fatalf("attempts %v, want two that did not return and one that was accepted", attempts)
		}
		done := attempts[2].Event
		if done.CrashCount != 2 || done.RetryCount != 0 || attempts[2].Attempt != 1 {
			t.Errorf("%d crashes and %d retries, want 2 and none", done.CrashCount, done.RetryCount)
		}
		for i := range 2 {
			if took := attempts[i+1].At.Sub(attempts[i].At); took < time.Minute || took > time.Minute+6*time.Second {
				t.Errorf("delivered again after %v, want a lease and at most a sweep", took)
			}
		}
	})
}

func TestARehearsalOfADowntime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		recorder := new(almanactest.Recorder)
		r := birthdays(t, "2027-12-01T00:00:00Z", recorder)
		enrol(t, r, "1990-12-10", "Europe/London")
		r.For(24 * time.Hour)
		time.Sleep(20 * 24 * time.Hour)

		missed, err := r.Scheduler.Missed(t.Context())
		if err != nil || missed.Count != 1 {
			t.Errorf("missed %+v, %v, want one", missed, err)
		}
		r.For(time.Hour)

		sameLines(t, recorder.Attempts(), "2027-12-22T00:00:00 Europe/London (00:00:00Z) BIRTHDAY 2027")
	})
}

// An event due at the end of a rehearsal belongs to the next one, every time.
func TestARehearsalEndsBeforeEventsDueAtItsEnd(t *testing.T) {
	t.Parallel()
	for range 10 {
		synctest.Test(t, func(t *testing.T) {
			recorder := new(almanactest.Recorder)
			r := birthdays(t, "2027-12-10T08:00:00Z", recorder)
			enrol(t, r, "1990-12-10", "Europe/London")
			end := instant(t, "2027-12-10T09:00:00Z")
			r.Until(end)
			if n := len(recorder.Attempts()); n != 0 || !time.Now().Equal(end) {
				t.Errorf("%d attempts by %v, want none", n, time.Now())
			}
			r.For(time.Microsecond * 2)
			sameLines(t, recorder.Attempts(), "2027-12-10T09:00:00 Europe/London (09:00:00Z) BIRTHDAY 2027")
		})
	}
}

func TestARehearsalRefusesInvalidUse(t *testing.T) {
	t.Parallel()
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	if err != nil {
		t.Fatal(err)
	}
	fails(t, "outside of a testing/synctest bubble", func(t testing.TB) { almanactest.Rehearse(t, registry) })
	synctest.Test(t, func(t *testing.T) {
		fails(t, "-1 workers", func(t testing.TB) { almanactest.Rehearse(t, registry, almanac.WithWorkers(-1)) })
		fails(t, "cannot run until 1999-12-31T23:00:00Z, it is 2000-01-01T00:00:00Z", func(t testing.TB) { almanactest.Rehearse(t, registry).For(-time.Hour) })
		fails(t, "while no program runs", func(t testing.TB) { almanactest.Rehearse(t, registry).Crash() })
	})
}
