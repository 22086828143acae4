package conformance

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
)

var leaseListCases = cases{
	"Leases/lists claims with their programs": func(k *kit) {
		k.newEvents(4)
		first, second, third := request(2), request(1), request(1)
		first.Owner, first.Program, first.ZoneData = "host-1", "birthdayd v0.1.0", "2026f"
		third.Lease = time.Microsecond
		for _, r := range []almanac.ClaimRequest{first, second, third} {
			k.take(r)
		}
		k.after(time.Microsecond)
		leases := must(k.statistics.Leases(k.Context(), 0))(k)
		slices.SortStableFunc(leases, func(a, b ops.Lease) int { return b.Events - a.Events })
		k.same("leases", len(leases), 3)
		l := leases[0]
		k.same("location", l.ClaimedAt.Location() == time.UTC && l.ExpiresAt.Location() == time.UTC, true)
		k.same("claimed", l.ClaimedAt.Before(k.now), false)
		k.same("first", l, ops.Lease{
			Token: first.Token, Owner: "host-1", Program: "birthdayd v0.1.0", ZoneData: "2026f", Events: 2,
			ClaimedAt: l.ClaimedAt, ExpiresAt: l.ClaimedAt.Add(time.Minute),
		})
		for _, l := range leases[1:] {
			k.same("others", []any{l.Owner, l.Program, l.ZoneData, l.Events, l.Expired}, []any{"suite", "", "", 1, l.Token == third.Token})
		}
	},
	"Leases/returns the oldest claims first, up to the limit": func(k *kit) {
		var tokens []uuid.UUID
		for range 3 {
			tokens = append(tokens, k.newClaimed().LeaseToken)
			k.after(2 * time.Microsecond) // so that no two claims have the same time
		}
		leases := must(k.statistics.Leases(k.Context(), 2))(k)
		var got []uuid.UUID
		for _, l := range leases {
			got = append(got, l.Token)
		}
		k.same("tokens", got, tokens[:2])
		for _, limit := range []int{-1, 1001} {
			k.is(errorOf(k.statistics.Leases(k.Context(), limit)), almanac.ErrInvalid)
		}
	},
	"Leases/keeps the program when events get leases of their own": func(k *kit) {
		k.newEvent()
		r := request(1)
		r.Program, r.ZoneData = "birthdayd v0.1.0", "2026f"
		claim := k.take(r)
		leased := must(k.r.LeaseEach(k.Context(), claim.Events, "alone", time.Minute))(k).Events
		leases := must(k.statistics.Leases(k.Context(), 0))(k)
		k.same("leases", len(leases), 1)
		l := leases[0]
		k.same("lease", []any{l.Token, l.Owner, l.Program, l.ZoneData, l.Events}, []any{leased[0].LeaseToken, "alone", "birthdayd v0.1.0", "2026f", 1})
	},
	"Leases/is empty after all events have ended": func(k *kit) {
		k.deliver(k.newClaimed())
		leases := must(k.statistics.Leases(k.Context(), 0))(k)
		k.same("leases", len(leases), 0)
	},
}
