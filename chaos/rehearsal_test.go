package chaos_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/chaos"
	"github.com/almanac-go/almanac/ops"
)

// A rehearsal is killed at each point: in the copy, at any page, before the copy has its name, and while it counts. Rehearse refuses
// a part of a copy. Another process begins again, or takes the complete copy, and counts what an undisturbed rehearsal counts.
func TestARehearsalKilledAtEachPoint(t *testing.T) {
	t.Parallel()
	for _, point := range chaos.RehearsalPoints() {
		t.Run(string(point), func(t *testing.T) {
			row(t, func(t *testing.T, seed uint64) {
				r, dir := calm(t, seed), t.TempDir()
				s := bulkOf(r, bulkUsers)
				order := chaos.Bulk{Work: "rehearse", Hour: 9, File: filepath.Join(dir, "undisturbed")}
				var want ops.RehearseResult
				undisturbed := bulk(r, "undisturbed", order)
				result(r, undisturbed, chaos.Done, &want)
				r.Kill(undisturbed) // which waits, with a session
				require.Equal(t, bulkUsers, want.Users)
				require.GreaterOrEqual(t, want.Delivered, bulkUsers)

				order.File = filepath.Join(dir, "users")
				after := 1 // the copy is complete once
				if point != chaos.AfterCopy {
					after += r.Random.IntN(4)
				}
				victim := bulk(r, "victim", order, func(o *chaos.Orders) { o.StopAt, o.StopAfter = point, after })
				arrive(r, victim, point)
				until(r, "SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'almanac worker' AND coalesce(backend_xmin::text, xact_start::text) IS NOT NULL")
				r.Kill(victim)
				gone(r)
				killed := time.Now()
				if point == chaos.MidCopy {
					part, err := os.Open(order.File + ".part")
					require.NoError(t, err)
					_, err = ops.Rehearse(t.Context(), s, part, ops.RehearseOptions{})
					require.ErrorContains(t, err, "copy of users")
					require.NoError(t, part.Close())
				}
				if point == chaos.MidRun {
					require.FileExists(t, order.File)
				} else {
					require.NoFileExists(t, order.File, "what has the name of a copy is complete")
				}

				var done ops.RehearseResult
				result(r, bulk(r, "survivor", order), chaos.Done, &done)

				require.Equal(t, point == chaos.MidRun, done.From.Before(killed), "it begins again, or takes the complete copy")
				require.Equal(t, want.Counts, done.Counts, "with the digests of all events")
				require.Equal(t, []int{want.Users, want.Delivered, 0}, []int{done.Users, done.Delivered, done.RefusedUsers})
				require.Equal(t, bulkUsers, count(r, "SELECT count(*) FROM almanac.events WHERE version = 1"), "nothing is stored")
			})
		})
	}
}
