package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// abilityCases are the cases that every repository must pass, if only with trivial implementations.
var abilityCases = cases{
	"Verify/returns nil when nothing is missing":      func(k *kit) { k.ok(k.r.Verify(k.Context())) },
	"InTransaction/is false outside of a transaction": func(k *kit) { k.same("in a transaction", k.r.InTransaction(), false) },
	"Listen/returns when its context ends": func(k *kit) {
		ctx, stop := context.WithTimeout(k.Context(), 10*time.Second)
		defer stop()
		returned := false
		err := k.r.Listen(ctx, func() {
			k.same("woken after it has returned", returned, false)
			stop()
		})
		returned = true
		if ctx.Err() != nil {
			k.ok(err)
		}
	},
	"Settings/returns the value that was stored last, and when it changed": func(k *kit) {
		first := almanac.Setting{Name: "quiet hours", Value: "outside Mo-Su 08:00-22:00", Program: "a v1"}
		err := k.r.PutSetting(k.Context(), first)
		if errors.Is(err, errors.ErrUnsupported) {
			k.same("settings", len(k.settings()), 0)
			return
		}
		k.ok(err)
		is := k.settings()[0]
		k.same("UTC", is.Since.Location(), time.UTC)
		k.same("has an instant", !is.Since.IsZero(), true)
		k.ok(k.r.PutSetting(k.Context(), almanac.Setting{Name: first.Name, Value: first.Value, Program: "b v2"}))
		k.same("the same value again", k.settings()[0], is)
		k.ok(k.r.PutSetting(k.Context(), almanac.Setting{Name: first.Name, Program: "b v2"}))
		changed := k.settings()[0]
		k.same("earlier than before", changed.Since.Before(is.Since), false)
		changed.Since = time.Time{}
		k.same("another value", changed, almanac.Setting{Name: first.Name, Program: "b v2"})
		k.ok(k.r.PutSetting(k.Context(), almanac.Setting{Name: "another", Value: "b"}))
		k.same("the first of two", k.settings()[0].Name, "another")
		k.same("the second of two", k.settings()[1].Name, first.Name)
	},
	"Pause/stops claims of a type until it is resumed": func(k *kit) {
		initial := k.newEvent()
		err := k.r.Pause(k.Context(), almanac.Pause{Lane: almanac.TypeBirthday})
		if errors.Is(err, errors.ErrUnsupported) {
			paused := must(k.r.Paused(k.Context()))(k)
			k.same("paused", len(paused), 0)
			k.is(k.r.Resume(k.Context(), almanac.TypeBirthday), errors.ErrUnsupported)
			k.claim(1)
			return
		}
		k.ok(err)
		since := must(k.r.Paused(k.Context()))(k)[0].Since
		k.same("since", since.Before(k.now), false)
		grace, until := almanac.WithPrincipal(k.Context(), "grace"), k.now.AddDate(1, 0, 0)
		k.ok(k.r.Pause(grace, almanac.Pause{Lane: almanac.TypeBirthday, Reason: "the receiver is down", Until: until}))
		k.ok(k.r.Pause(grace, almanac.Pause{Lane: "ANOTHER"}))
		paused := must(k.r.Paused(k.Context()))(k)
		k.same("paused", len(paused), 2)
		k.same("in order", paused[0], almanac.Pause{Lane: "ANOTHER", Author: "grace", Since: paused[0].Since})
		k.same("replaced", paused[1], almanac.Pause{Lane: almanac.TypeBirthday, Reason: "the receiver is down", Author: "grace", Since: since, Until: until})
		k.ok(k.r.Pause(k.Context(), almanac.Pause{Lane: almanac.TypeBirthday}))
		k.claim(0)
		_, known := k.until(time.Time{})
		k.same("something to wait for", known, false)
		k.ok(k.r.Resume(k.Context(), almanac.TypeBirthday))
		k.ok(k.r.Resume(k.Context(), almanac.TypeBirthday))
		k.same("claimed", ids(k.claim(1)), []uuid.UUID{initial.ID})
		k.same("paused then", len(must(k.r.Paused(k.Context()))(k)), 1)
	},
	"Pause/ends by itself": func(k *kit) {
		initial := k.newEvent()
		until := k.clock().Add(300 * time.Millisecond)
		err := k.r.Pause(k.Context(), almanac.Pause{Lane: almanac.TypeBirthday, Until: until})
		if errors.Is(err, errors.ErrUnsupported) {
			return
		}
		k.ok(err)
		mark := k.clock() // of a process that has claimed events of another type meanwhile
		wait, known := k.until(mark)
		k.same("waits for the end", known && wait <= 300*time.Millisecond, true)
		for began := k.clock(); ; {
			claim := must(k.r.Claim(k.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.TypeBirthday}, Limit: 1, Lease: time.Minute, Mark: mark}))(k)
			if len(claim.Events) > 0 {
				k.same("claimed", ids(claim.Events), []uuid.UUID{initial.ID})
				break
			}
			if k.clock().Sub(began) > time.Minute {
				k.Fatal("nothing is claimed after the end")
			}
		}
		k.same("before the end", k.clock().Before(until), false)
		k.same("paused", len(must(k.r.Paused(k.Context()))(k)), 0)
	},
}

// settings returns the stored settings.
func (k *kit) settings() []almanac.Setting {
	k.Helper()
	return must(k.r.Settings(k.Context()))(k)
}
