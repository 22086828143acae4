package chaos_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/chaos"
	"github.com/almanac-go/almanac/ops"
	"github.com/almanac-go/almanac/postgres"
)

const (
	bulkUsers = 4000 // of an import; half of them exist
	oldZone   = "Europe/London"
	newZone   = "Asia/Tokyo"
)

// bulkOf returns a scheduler of the test, past the proxy, after it has stored users.
func bulkOf(r *chaos.Run, users int) almanac.Scheduler {
	r.Helper()
	store, err := postgres.New(r.Pool(), postgres.WithTimeout(20*time.Second))
	require.NoError(r, err)
	s, err := chaos.BulkScheduler(store, 9)
	require.NoError(r, err)
	done, err := s.CreateUsers(r.Context(), chaos.BulkProfiles(users, oldZone), almanac.CreateUsersOptions{})
	require.NoError(r, err)
	require.Equal(r, users, done.Created)
	return s
}

// bulk starts a process that changes many users.
func bulk(r *chaos.Run, name string, b chaos.Bulk, change ...func(*chaos.Orders)) *chaos.Process {
	r.Helper()
	return r.Work(name, append(change, func(o *chaos.Orders) { o.Bulk, o.Patience = &b, 20*time.Second })...)
}

// result waits for what a process reports at a point.
func result(r *chaos.Run, w *chaos.Process, p chaos.Point, into any) {
	r.Helper()
	report, err := w.Await(r.Within(time.Minute), func(report chaos.Report) bool { return report.Point == p })
	require.NoError(r, err)
	if text, ok := into.(*string); ok {
		*text = report.Reason
		return
	}
	require.NoError(r, json.Unmarshal([]byte(report.Reason), into))
}

func count(r *chaos.Run, query string, args ...any) (n int) {
	r.Helper()
	require.NoError(r, r.Pool().QueryRow(r.Context(), query, args...).Scan(&n))
	return n
}

// imported returns how many users are as the import says: new ones, and changed ones.
func imported(r *chaos.Run) (created, changed int) {
	r.Helper()
	const users = "SELECT count(*) FROM almanac.users WHERE timezone = $1 AND version = $2"
	return count(r, users, newZone, 1), count(r, users, newZone, 2)
}

// wholly checks that each line of an import was applied once, and that each user has the one event.
func wholly(r *chaos.Run) {
	r.Helper()
	created, changed := imported(r)
	require.Equal(r, []int{bulkUsers / 2, bulkUsers / 2}, []int{created, changed})
	require.Equal(r, bulkUsers, count(r, "SELECT count(*) FROM almanac.users"))
	require.Equal(r, bulkUsers, count(r, "SELECT count(DISTINCT user_id) FROM almanac.events WHERE target_timezone = $1", newZone))
	require.Equal(r, bulkUsers, count(r, "SELECT count(*) FROM almanac.events"))
}

// gone waits until the sessions of a killed process have ended, with their locks.
func gone(r *chaos.Run) {
	r.Helper()
	until(r, "SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'almanac worker'")
}

// A process that imports users is killed at each point, at any page, and another one does the import again.
func TestAnImportKilledAtEachPoint(t *testing.T) {
	t.Parallel()
	for _, point := range chaos.EditPoints() {
		t.Run(string(point), func(t *testing.T) {
			row(t, func(t *testing.T, seed uint64) {
				r := calm(t, seed)
				bulkOf(r, bulkUsers/2)
				order := chaos.Bulk{Work: "import", Users: bulkUsers, Zone: newZone, Hour: 9}
				victim := bulk(r, "victim", order, func(o *chaos.Orders) { o.StopAt, o.StopAfter = point, 1+r.Random.IntN(4) })
				arrive(r, victim, point)
				r.Kill(victim)
				gone(r)
				created, changed := imported(r)

				var done ops.PutUsersResult
				result(r, bulk(r, "survivor", order), chaos.Done, &done)

				require.Equal(t, []int{bulkUsers/2 - created, bulkUsers/2 - changed, created + changed, 0},
					[]int{done.Created, done.Changed, done.Unchanged, len(done.Refused)})
				wholly(r)
			})
		})
	}
}

// The process that serves the admin API is killed at each point, and the client sends the rest of its lines to
// another one.
func TestTheAPIKilledDuringAnImport(t *testing.T) {
	t.Parallel()
	var lines []string
	for n := range bulkUsers {
		p := chaos.BulkProfile(n, newZone)
		lines = append(lines, fmt.Sprintf(`{"externalId":%q,"firstName":%q,"lastName":%q,"dateOfBirth":%q,"timezone":%q}`, p.ExternalID, p.FirstName, p.LastName, p.DateOfBirth, p.Timezone))
	}
	for _, point := range chaos.EditPoints() {
		t.Run(string(point), func(t *testing.T) {
			row(t, func(t *testing.T, seed uint64) {
				r := calm(t, seed)
				bulkOf(r, bulkUsers/2)
				order := chaos.Bulk{Work: "serve", Hour: 9}
				victim := bulk(r, "victim", order, func(o *chaos.Orders) { o.StopAt, o.StopAfter = point, 1+r.Random.IntN(8) })
				dead := make(chan struct{})
				go func() {
					defer close(dead)
					_, err := victim.Await(r.Within(time.Minute), func(report chaos.Report) bool { return report.Point == point })
					if err == nil {
						_ = victim.Kill()
					}
				}()
				var all importCounts
				next := send(r, victim, lines, 1, &all)
				require.LessOrEqual(t, next, bulkUsers, "it was killed before the end")
				<-dead
				gone(r)
				created, changed := imported(r)
				stored, counted := created+changed, all.Created+all.Edited

				next = send(r, bulk(r, "survivor", order), lines, next, &all)

				require.Equal(t, bulkUsers+1, next)
				require.Equal(t, bulkUsers, all.sum(), "each line was counted once")
				require.Equal(t, stored-counted, all.Unchanged, "what was stored and not answered is unchanged")
				require.Zero(t, all.RefusedLines)
				wholly(r)
			})
		})
	}
}

// importCounts are the counts of answers.
type importCounts struct{ Created, Edited, Unchanged, RefusedLines int }

func (c importCounts) sum() int { return c.Created + c.Edited + c.Unchanged + c.RefusedLines }

// send sends lines to a process, as a nightly job does, and adds the counts up. It returns the line after the last
// answer, when all lines are answered or the process does not answer.
func send(r *chaos.Run, w *chaos.Process, lines []string, next int, all *importCounts) int {
	r.Helper()
	var address string
	result(r, w, chaos.Served, &address)
	for next <= len(lines) {
		part := lines[next-1 : min(next-1+1500, len(lines))]
		req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, fmt.Sprintf("%s/imports?existing=edit&line=%d", address, next), strings.NewReader(strings.Join(part, "\n")))
		require.NoError(r, err)
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			return next
		}
		var counts struct {
			importCounts
			NextLine int
		}
		err = json.NewDecoder(answer.Body).Decode(&counts)
		_ = answer.Body.Close()
		if err != nil {
			return next
		}
		require.Equal(r, http.StatusOK, answer.StatusCode)
		next = counts.NextLine
		all.Created, all.Edited = all.Created+counts.Created, all.Edited+counts.Edited
		all.Unchanged, all.RefusedLines = all.Unchanged+counts.Unchanged, all.RefusedLines+counts.RefusedLines
	}
	return next
}

// A roll-out is killed at each point, at any user, and continued from the page that was reported last, or from the
// beginning. Each event moves once, and the counts are those of the dry run.
func TestARollOutKilledAtEachPoint(t *testing.T) {
	t.Parallel()
	for _, point := range chaos.EditPoints() {
		t.Run(string(point), func(t *testing.T) {
			row(t, func(t *testing.T, seed uint64) {
				const users, hour = 400, 11
				r := calm(t, seed)
				s := bulkOf(r, users)
				later, err := chaos.BulkScheduler(s.Repository(), hour)
				require.NoError(t, err)
				dry, err := ops.RollOut(t.Context(), later, chaos.BulkType, ops.RollOutOptions{DryRun: true})
				require.NoError(t, err)
				require.Equal(t, []int{users, users}, []int{dry.Users, dry.Moved()})
				order := chaos.Bulk{Work: "roll out", Hour: hour, Page: 50}
				victim := bulk(r, "victim", order, func(o *chaos.Orders) { o.StopAt, o.StopAfter = point, 1+r.Random.IntN(users-10) })
				arrive(r, victim, point)
				r.Kill(victim)
				gone(r)
				var before ops.RollOutResult // as of the last page
				for _, report := range victim.Reports() {
					if report.Point == chaos.Paged {
						before = ops.RollOutResult{}
						require.NoError(t, json.Unmarshal([]byte(report.Reason), &before))
					}
				}
				moved := count(r, "SELECT count(*) FROM almanac.events WHERE version > 1")
				order.After = before.Next
				if r.Random.IntN(2) == 0 {
					order.After, before = "", ops.RollOutResult{}
				}

				var done ops.RollOutResult
				result(r, bulk(r, "survivor", order), chaos.Done, &done)

				uncounted := moved - before.Moved() // stored by the victim after its last page
				require.Empty(t, done.Refused)
				require.Equal(t, dry.Users, before.Users+done.Users)
				require.Equal(t, dry.Moved(), before.Moved()+done.Moved()+uncounted)
				require.Equal(t, uncounted, done.Unchanged)
				require.Equal(t, users, count(r, "SELECT count(*) FROM almanac.events WHERE version = 2 AND extract(hour FROM target_timestamp_local) = $1", hour))
			})
		})
	}
}
