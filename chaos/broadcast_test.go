package chaos_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/broadcast"
	"github.com/almanac-go/almanac/chaos"
)

// citizens of a broadcast, so many that each zone has two pages.
const citizens = 2400

// A program that stores, cancels and requeues the events of a broadcast is killed at each point. Another one goes on: each user has one
// event with one key, and the counts are those of the events.
func TestKilledAtEachPointOfABroadcast(t *testing.T) {
	t.Parallel()
	for _, point := range chaos.BroadcastPoints() {
		t.Run(string(point), func(t *testing.T) {
			row(t, func(t *testing.T, seed uint64) {
				r := calm(t, seed)
				scheduler, sender := r.Sender()
				zones := []string{"UTC", "Asia/Tokyo"}
				done, err := scheduler.CreateUsers(t.Context(), func(yield func(almanac.Profile, error) bool) {
					for i := range citizens {
						if !yield(almanac.Profile{FirstName: "Ada", LastName: "X", DateOfBirth: "1990-01-01", Timezone: zones[i%2]}, nil) {
							return
						}
					}
				}, almanac.CreateUsersOptions{})
				require.NoError(t, err)
				require.Empty(t, done.Refused)
				victim := r.Work("victim", func(o *chaos.Orders) {
					o.Broadcasts, o.StopAt, o.StopAfter, o.Patience = true, point, 1+r.Random.IntN(2), 20*time.Second
					if point == chaos.MidEnd {
						o.StopAfter = 1
					}
				})
				arrive(r, victim, chaos.Ready)
				killed := false
				reach := func(state string) { reach(r, victim, &killed, state) }

				_, err = sender.Start(t.Context(), broadcast.Broadcast{Name: "sale", Type: chaos.News, Instant: time.Now().Add(time.Hour), Passed: broadcast.Skip})
				require.NoError(t, err)
				reach("state = 'stored'")
				_, err = sender.Stop(t.Context(), "sale", "typo")
				require.NoError(t, err)
				reach("ended_at IS NOT NULL")
				checkBroadcast(r, sender, 0, citizens, citizens)
				_, err = sender.Resume(t.Context(), "sale")
				require.NoError(t, err)
				reach("state = 'stored'")
				checkBroadcast(r, sender, citizens, citizens, 0)
				require.True(t, killed, "never at the point")
			})
		})
	}
}

// reach waits until something is so of a broadcast. When the victim has come to its point, it kills it, and starts another program.
func reach(r *chaos.Run, victim *chaos.Process, killed *bool, state string) {
	r.Helper()
	for ctx := r.Within(90 * time.Second); ; {
		if !*killed && slices.ContainsFunc(victim.Reports(), func(report chaos.Report) bool { return report.Point == victim.StopAt }) {
			r.Kill(victim)
			*killed = true
			// A dead program keeps its lease for half a minute.
			_, err := r.Pool().Exec(ctx, "UPDATE almanac.broadcasts SET lease_until = now() WHERE lease IS NOT NULL")
			require.NoError(r, err)
			r.Work("survivor", func(o *chaos.Orders) { o.Broadcasts, o.Patience = true, 20*time.Second })
		}
		var so bool
		require.NoError(r, r.Pool().QueryRow(ctx, "SELECT "+state+" FROM almanac.broadcasts").Scan(&so), r.Complaints())
		if so {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// checkBroadcast checks how many users have a pending event and how many a cancelled one, each with one key in all, and what Progress says.
func checkBroadcast(r *chaos.Run, sender *broadcast.Sender, pending, ended, cancelled int) {
	r.Helper()
	type row struct{ Pending, Queued, Ended, Cancelled, Keys, Held int }
	var is row
	require.NoError(r, r.Pool().QueryRow(r.Context(), `
		WITH e AS (SELECT * FROM almanac.events e WHERE e.event_type = 'NEWS')
		SELECT count(DISTINCT e.user_id) FILTER (WHERE e.status = 'PENDING'), count(*) FILTER (WHERE e.status = 'PENDING'),
			count(DISTINCT e.user_id) FILTER (WHERE e.status = 'CANCELLED'), count(*) FILTER (WHERE e.status = 'CANCELLED'),
			count(DISTINCT (e.user_id, e.idempotency_key)), (SELECT sum(k.holders) FROM almanac.keys k WHERE k.idempotency_key IN (SELECT e.idempotency_key FROM e))
		FROM e`).Scan(&is.Pending, &is.Queued, &is.Ended, &is.Cancelled, &is.Keys, &is.Held))
	require.Equal(r, row{pending, pending, ended, ended, citizens, pending + ended}, is)
	p, err := sender.Progress(r.Context(), "sale")
	require.NoError(r, err)
	total := p.Total()
	require.Equal(r, broadcast.Counts{Users: citizens, Stored: citizens}, total.Counts)
	require.Equal(r, cancelled, total.Cancelled)
}
