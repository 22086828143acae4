package almanac_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

func TestOutcomeApplies(t *testing.T) {
	t.Parallel()

	now := instant(t, "2026-12-10T09:00:05Z")
	e := in(t, almanac.Processing)
	done, err := almanac.Delivered(now.Add(-time.Second)).Apply(e, now)
	if err != nil || !done.ExecutedAt.Equal(now.Add(-time.Second)) {
		t.Errorf("Delivered: executed at %v, %v; want the delivery's own instant", done.ExecutedAt, err)
	}
	back, err := almanac.GaveBack(almanac.AfterCrash, "gone", time.Minute).Apply(e, now)
	if err != nil || !back.AvailableAt.Equal(now.Add(time.Minute)) || back.CrashCount != 1 {
		t.Errorf("GaveBack: available at %v after %d crashes, %v; want a minute from now", back.AvailableAt, back.CrashCount, err)
	}
	if back, err = almanac.GaveBack(almanac.AfterFailure, "", -time.Minute).Apply(e, now); err != nil || !back.AvailableAt.Equal(now) {
		t.Errorf("GaveBack with a negative delay: available at %v, %v; want now", back.AvailableAt, err)
	}
	for _, status := range []almanac.Status{"", "CANCELLED", almanac.Processing} {
		var refused *almanac.InvalidStateTransitionError
		if _, err := (almanac.Outcome{Status: status}).Apply(e, now); !errors.As(err, &refused) || refused.To != status {
			t.Errorf("outcome %q: %v, want it refused", status, err)
		}
	}
}

func TestStoredAsKnowsItsOwnWork(t *testing.T) {
	t.Parallel()

	now := instant(t, "2026-12-10T09:00:05Z")
	was := in(t, almanac.Processing)
	stored := func(o almanac.Outcome, change func(*almanac.Event)) almanac.Event {
		e, err := o.Apply(was, now)
		if err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(&e)
		}
		return e
	}
	delivered, gaveUp, gaveBack := almanac.Delivered(now), almanac.GaveUp("gone"), almanac.GaveBack(almanac.AfterFailure, "busy", 0)
	crashed := almanac.GaveBack(almanac.AfterCrash, "lease ran out", 0)
	tests := map[string]struct {
		outcome almanac.Outcome
		stored  almanac.Event
		want    bool
	}{
		"delivered, as stored":                {delivered, stored(delivered, nil), true},
		"given up, as stored":                 {gaveUp, stored(gaveUp, nil), true},
		"given back, as stored":               {gaveBack, stored(gaveBack, nil), true},
		"not stored yet":                      {delivered, was, false},
		"ended by another token":              {delivered, stored(delivered, func(e *almanac.Event) { e.LeaseToken = uuid.New() }), false},
		"another event":                       {delivered, stored(delivered, func(e *almanac.Event) { e.ID = uuid.New() }), false},
		"a later version":                     {delivered, stored(delivered, func(e *almanac.Event) { e.Version++ }), false},
		"taken back after a crash":            {gaveBack, stored(crashed, nil), false},
		"claimed by another meanwhile":        {gaveBack, stored(gaveBack, func(e *almanac.Event) { e.ClaimCount++ }), false},
		"given back, but it wanted to end it": {delivered, stored(gaveBack, nil), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			if got := (almanac.Settlement{Event: was, Outcome: tt.outcome}).StoredAs(tt.stored); got != tt.want {
				t.Errorf("StoredAs = %v, want %v", got, tt.want)
			}
		})
	}
}
