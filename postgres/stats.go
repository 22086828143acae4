package postgres

import (
	"cmp"
	"context"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
)

// The limits of what Stats reads: at most 20,000 blocks of a large database. What is rare or close is
// counted up to its limit, and the rest is estimated from a sample. The server's statistics name too
// few zones and no types, and counters in rows of their own would cost each claim and outcome a write.
const (
	statsPages   = 500     // pages of a table; a larger table is sampled
	statsJoined  = 5000    // pages of the table series up to which all pending events are joined with it
	statsBacklog = 100_000 // events of the backlog
	statsDelayed = 5000    // events that are available later than they are due
	statsWave    = 10_000  // events of the wave
	statsFlying  = 4000    // events in flight; each is looked up in the table series
	statsZones   = 2000    // pending events whose zones are looked up
	statsLatest  = 5000    // failures and cancellations, or ended events that are read through the view
	statsFew     = 100     // pending events of a type that has few
	listedZones  = 1000
)

const quarter = 15 * time.Minute

// Stats returns numbers about what is stored, in a read-only transaction. Tables of up to 500 pages are
// counted. Of larger tables, about 500 pages are read, and the result is an estimate. A role that may not
// read the table history sees the types and statuses of the latest 5,000 ended events, and an estimate
// of the total.
func (s *Store) Stats(ctx context.Context) (ops.Stats, error) {
	var stats ops.Stats
	err := s.snapshot(ctx, "read statistics", func(ctx context.Context, tx pgx.Tx) error {
		r := reading{store: s, db: replanning{tx}}
		for _, step := range []func(context.Context) error{r.readTables, r.countBacklog, r.countPending, r.countProcessing, r.countEnded, r.countUsers, r.countZones} {
			if err := step(ctx); err != nil {
				return err
			}
		}
		stats = r.sorted()
		return nil
	})
	return stats, err
}

// Leases returns up to limit leases, oldest claim first.
func (s *Store) Leases(ctx context.Context, limit int) ([]ops.Lease, error) {
	limit, err := almanac.MissedLimit(limit)
	if err != nil {
		return nil, err
	}
	var leases []ops.Lease
	err = s.do(ctx, "list leases", func(ctx context.Context, db DB) (err error) {
		leases, err = all(ctx, db, s.statements.ListLeases, pgx.StrictNamedArgs{"limit": limit}, scanLease)
		return err
	})
	return leases, err
}

func scanLease(row pgx.CollectableRow) (l ops.Lease, err error) {
	err = row.Scan(rawID(&l.Token), &l.Owner, &l.Program, &l.ZoneData, &l.Events, &l.ClaimedAt, &l.ExpiresAt, &l.Expired)
	l.ClaimedAt, l.ExpiresAt = l.ClaimedAt.UTC(), l.ExpiresAt.UTC()
	return l, err
}

// reading is one call of Stats.
type reading struct {
	store  *Store
	db     DB
	stats  ops.Stats
	tables map[string]tableStats
	listed int64              // events that leases list
	queued int64              // rows of the queue that were read
	weight weight             // of these rows
	zones  map[string]numbers // by zone
}

// tableStats describes a table.
type tableStats struct {
	pages    int64
	rows     float64    // by the server's statistics; zero if unknown
	analyzed *time.Time // when the table was last analyzed; nil if unknown
	readable bool
}

// numbers are those of a zone.
type numbers struct{ users, pending ops.Count }

// tally is a number of rows of one group.
type tally struct {
	name, status string
	place        int
	n            int64
}

func scanTally(row pgx.CollectableRow) (t tally, err error) {
	return t, row.Scan(&t.name, &t.n)
}

func scanStatusTally(row pgx.CollectableRow) (t tally, err error) {
	return t, row.Scan(&t.name, &t.status, &t.n)
}

func total(tallies []tally) (n int64) {
	for _, t := range tallies {
		n += t.n
	}
	return n
}

// weight is how many rows a row of a sample stands for.
type weight struct {
	factor float64
	kind   ops.CountKind
}

var counted = weight{1, ops.Exact}

func (w weight) of(n int64) ops.Count {
	return ops.Count{N: int64(math.Round(float64(n) * w.factor)), Kind: w.kind}
}

func (r *reading) readTables(ctx context.Context) error {
	r.tables = make(map[string]tableStats)
	rows, err := r.db.Query(ctx, r.store.statements.StatsTables, pgx.StrictNamedArgs{"schema": r.store.schema})
	if err != nil {
		return err
	}
	var name string
	var t tableStats
	_, err = pgx.ForEachRow(rows, []any{&r.stats.At, &name, &t.pages, &t.rows, &t.analyzed, &t.readable}, func() error {
		r.tables[name] = t
		return nil
	})
	r.stats.At = r.stats.At.UTC()
	return err
}

// percent returns how much of a table is read.
func (r *reading) percent(table string) float64 {
	return min(100, 100*statsPages/float64(max(r.tables[table].pages, 1)))
}

// weigh returns the weight of the rows that were read of a table. The server's own number of rows is more
// precise than that of a sample. It is not used if it is far off, as after many changes since ANALYZE.
func (r *reading) weigh(table string, sampled int64) weight {
	percent, t := r.percent(table), r.tables[table]
	if percent == 100 {
		return counted
	}
	bySample, byServer := 100/percent, t.rows/float64(max(sampled, 1))
	if t.analyzed != nil && byServer > 0.8*bySample && byServer < 1.25*bySample {
		return r.estimated(byServer, *t.analyzed)
	}
	return r.estimated(bySample, r.stats.At)
}

// estimated returns the weight of an estimate that was made at an instant.
func (r *reading) estimated(factor float64, at time.Time) weight {
	if r.stats.Analyzed.IsZero() || at.Before(r.stats.Analyzed) {
		r.stats.Analyzed = at.UTC()
	}
	return weight{factor, ops.Estimated}
}

func (r *reading) countBacklog(ctx context.Context) error {
	rows, err := r.db.Query(ctx, r.store.statements.StatsBacklog, pgx.StrictNamedArgs{"at": r.stats.At, "limit": statsBacklog + 1, "delayed": statsDelayed})
	if err != nil {
		return err
	}
	var oldest *time.Time
	var delayed int
	_, err = pgx.ForEachRow(rows, []any{&r.stats.Backlog.N, &oldest, &r.listed, &r.stats.Delayed.N, &delayed}, func() error { return nil })
	r.stats.Oldest = orZero(oldest).UTC()
	if r.stats.Backlog.N > statsBacklog {
		r.stats.Backlog = ops.Count{N: statsBacklog, Kind: ops.AtLeast}
	}
	if delayed == statsDelayed {
		r.stats.Delayed.Kind = ops.AtLeast
	}
	return err
}

// countPending counts the pending events by type, and by quarter hour.
func (r *reading) countPending(ctx context.Context) error {
	wave := make([]int64, 48*time.Hour/quarter)
	from := r.stats.At.Truncate(quarter)
	args := pgx.StrictNamedArgs{"percent": r.percent("queue"), "from": from, "until": from.Add(48 * time.Hour)}
	tallies, err := all(ctx, r.db, r.store.statements.StatsPending, args, func(row pgx.CollectableRow) (t tally, err error) {
		return t, row.Scan(&t.name, &t.place, &t.n)
	})
	if err != nil {
		return err
	}
	types := make(map[string]int64)
	for _, t := range tallies {
		types[t.name] += t.n
		if t.place >= 0 {
			wave[t.place] += t.n
		}
	}
	r.queued = total(tallies)
	r.weight = r.weigh("queue", r.queued)
	counts := make(map[string]ops.Count)
	for name, n := range types {
		counts[name] = r.weight.of(n)
	}
	ofWave := r.weight
	if r.weight.kind != ops.Exact {
		if err := r.countFew(ctx, counts); err != nil {
			return err
		}
		if ofWave, err = r.countWave(ctx, wave, args); err != nil {
			return err
		}
	}
	for name, count := range counts {
		r.add(name, string(almanac.Pending), count)
	}
	for place, n := range wave {
		r.stats.Wave = append(r.stats.Wave, ops.QuarterCount{From: from.Add(time.Duration(place) * quarter), Count: ofWave.of(n)})
	}
	return nil
}

// countFew counts the pending events of types that have few, which a sample misses.
func (r *reading) countFew(ctx context.Context, counts map[string]ops.Count) error {
	tallies, err := all(ctx, r.db, r.store.statements.StatsTypes, pgx.StrictNamedArgs{"limit": statsFew + 1}, scanTally)
	for _, t := range tallies {
		if t.n <= statsFew {
			counts[t.name] = counted.of(t.n)
		} else if counts[t.name].N < t.n {
			counts[t.name] = ops.Count{N: statsFew, Kind: ops.AtLeast}
		}
	}
	return err
}

// countWave counts the events of the wave, if there are not too many. Otherwise the sample stays.
func (r *reading) countWave(ctx context.Context, wave []int64, args pgx.StrictNamedArgs) (weight, error) {
	tallies, err := all(ctx, r.db, r.store.statements.StatsWave, pgx.StrictNamedArgs{
		"from": args["from"], "until": args["until"], "limit": statsWave + 1,
	}, func(row pgx.CollectableRow) (t tally, err error) { return t, row.Scan(&t.place, &t.n) })
	if err != nil || total(tallies) > statsWave {
		return r.weight, err
	}
	clear(wave)
	for _, t := range tallies {
		wave[t.place] = t.n
	}
	return counted, nil
}

// maskFor returns the mask of a hash that chooses up to limit of n rows, and how many rows one of them
// stands for.
func maskFor(n, limit int64) (mask int32, factor float64) {
	shift := bits.Len64(uint64(max(n-1, 0) / limit))
	return int32(1)<<shift - 1, float64(int64(1) << shift)
}

func (r *reading) countProcessing(ctx context.Context) error {
	mask, factor := maskFor(r.listed, statsFlying)
	tallies, err := all(ctx, r.db, r.store.statements.StatsProcessing, pgx.StrictNamedArgs{"mask": mask}, scanTally)
	w := counted
	if mask != 0 {
		w = r.estimated(factor, r.stats.At)
	}
	for _, t := range tallies {
		r.add(t.name, string(almanac.Processing), w.of(t.n))
	}
	return err
}

func (r *reading) countEnded(ctx context.Context) error {
	if !r.tables["history"].readable {
		return r.countLatest(ctx)
	}
	tallies, err := all(ctx, r.db, r.store.statements.StatsEnded, pgx.StrictNamedArgs{"percent": r.percent("history")}, scanStatusTally)
	if err != nil {
		return err
	}
	w := r.weigh("history", total(tallies))
	if w.kind == ops.Exact {
		r.addAll(tallies, w)
		return nil
	}
	failed, err := all(ctx, r.db, r.store.statements.StatsFailed, pgx.StrictNamedArgs{"limit": statsLatest + 1}, scanStatusTally)
	if total(failed) <= statsLatest {
		r.addAll(failed, counted)
		tallies = slices.DeleteFunc(tallies, func(t tally) bool { return t.status != string(almanac.Completed) })
	}
	r.addAll(tallies, w)
	return err
}

// countLatest counts the latest ended events through the view.
func (r *reading) countLatest(ctx context.Context) error {
	history, limit := r.tables["history"], new(int64(statsLatest))
	if history.pages <= statsPages {
		limit = nil
	}
	tallies, err := all(ctx, r.db, r.store.statements.StatsLatest, pgx.StrictNamedArgs{"limit": limit}, scanStatusTally)
	read := total(tallies)
	switch {
	case limit == nil || read < *limit:
		r.addAll(tallies, counted)
	case history.rows > 0 && history.analyzed != nil:
		r.addAll(tallies, r.estimated(max(1, history.rows/float64(read)), *history.analyzed))
	default:
		r.addAll(tallies, weight{1, ops.AtLeast})
	}
	return err
}

func (r *reading) addAll(tallies []tally, w weight) {
	for _, t := range tallies {
		r.add(t.name, t.status, w.of(t.n))
	}
}

func (r *reading) add(eventType, status string, count ops.Count) {
	r.stats.Events = append(r.stats.Events, ops.TypeCount{Type: eventType, Status: almanac.Status(status), Count: count})
}

// countUsers counts the users, and those of each zone.
func (r *reading) countUsers(ctx context.Context) error {
	tallies, err := all(ctx, r.db, r.store.statements.StatsUsers, pgx.StrictNamedArgs{"percent": r.percent("users")}, scanTally)
	n := total(tallies)
	w := r.weigh("users", n)
	r.stats.Users = w.of(n)
	r.zones = make(map[string]numbers)
	for _, t := range tallies {
		r.zones[t.name] = numbers{users: w.of(t.n), pending: ops.Count{}}
	}
	return err
}

// countZones counts the pending events of each zone.
func (r *reading) countZones(ctx context.Context) error {
	sql, args, mask := r.store.statements.StatsZones, pgx.StrictNamedArgs(nil), int32(0)
	sampled := r.weight.kind != ops.Exact || r.tables["series"].pages > statsJoined
	if sampled {
		sql = r.store.statements.StatsZonesSampled
		mask, _ = maskFor(r.queued, statsZones)
		args = pgx.StrictNamedArgs{"percent": r.percent("queue"), "mask": mask, "limit": 2 * statsZones}
	}
	tallies, err := all(ctx, r.db, sql, args, scanTally)
	w := counted
	if sampled && (mask != 0 || r.weight.kind != ops.Exact) {
		w = r.estimated(float64(r.queued)*r.weight.factor/float64(max(total(tallies), 1)), r.stats.At)
	}
	found := make(map[string]ops.Count)
	for _, t := range tallies {
		found[t.name] = w.of(t.n)
	}
	unseen := ops.Count{N: 0, Kind: r.stats.Users.Kind}
	for zone := range found {
		if _, ok := r.zones[zone]; !ok {
			r.zones[zone] = numbers{users: unseen, pending: ops.Count{}}
		}
	}
	for zone, one := range r.zones {
		one.pending = ops.Count{N: found[zone].N, Kind: w.kind}
		r.zones[zone] = one
	}
	return err
}

// life has the statuses in the order of an event's life.
var life = []almanac.Status{almanac.Pending, almanac.Processing, almanac.Completed, almanac.Failed, almanac.Cancelled}

func (r *reading) sorted() ops.Stats {
	for zone, one := range r.zones {
		r.stats.Zones = append(r.stats.Zones, ops.ZoneCount{Zone: zone, Users: one.users, Pending: one.pending})
	}
	slices.SortFunc(r.stats.Zones, func(a, b ops.ZoneCount) int {
		return cmp.Or(cmp.Compare(b.Users.N, a.Users.N), cmp.Compare(a.Zone, b.Zone))
	})
	r.stats.Zones = r.stats.Zones[:min(listedZones, len(r.stats.Zones))]
	slices.SortFunc(r.stats.Events, func(a, b ops.TypeCount) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), slices.Index(life, a.Status)-slices.Index(life, b.Status))
	})
	return r.stats
}
