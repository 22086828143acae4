package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/dashboard"
	"github.com/almanac-go/almanac/postgres"
)

//go:embed dashboard.sql
var dashboardSQL string

// views is how often each page is requested of a process that has read its numbers, and as often
// of a process that has just started.
const views = 9

// dashboard measures the pages of package dashboard before tables of several sizes.
func (b *bench) dashboard(ctx context.Context) error {
	for _, events := range b.Viewed {
		if err := b.dashboardOf(ctx, events); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) dashboardOf(ctx context.Context, events int) error {
	const section = "dashboard"
	named := func(v view) string { return fmt.Sprintf("%d events: %s", events, v.name) }
	if !slices.ContainsFunc(sample{}.views(), func(v view) bool { return b.chosen(section, named(v)) }) {
		return nil
	}
	template := fmt.Sprintf("viewed_%d", events)
	if err := b.template(ctx, template, func(ctx context.Context, db database) error { return fillViewed(ctx, db, events/10) }); err != nil {
		return err
	}
	db, err := b.cluster.open(ctx, template)
	if err != nil {
		return err
	}
	defer db.pool.Close()
	if err := db.warm(ctx); err != nil {
		return err
	}
	d, err := openDesk(ctx, db)
	if err != nil {
		return err
	}
	defer d.close()
	s, err := sampleOf(ctx, db)
	if err != nil {
		return err
	}
	var entries []entry
	for _, v := range s.views() {
		if b.chosen(section, named(v)) {
			entries = append(entries, entry{name: named(v), contract: "a page before as many events and a tenth as many users", run: func(ctx context.Context) ([]reading, error) {
				return b.look(ctx, d, v)
			}})
		}
	}
	if err := b.rounds(ctx, section, 1, entries); err != nil {
		return err
	}
	return b.cluster.drop(ctx, template)
}

// fillViewed stores users with ten events each.
func fillViewed(ctx context.Context, db database, users int) error {
	if err := migrateAlmanac(ctx, db); err != nil {
		return err
	}
	return db.inBulk(ctx, func(conn *pgxpool.Conn) error {
		if _, err := conn.Exec(ctx, uuid7); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, "SELECT set_config('bench.users', $1, false)", strconv.Itoa(users)); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, dashboardSQL)
		return err
	})
}

// sample names a few rows that pages are about.
type sample struct {
	pending, failed, user uuid.UUID
	now                   time.Time
}

func sampleOf(ctx context.Context, db database) (s sample, err error) {
	s.now = time.Now().UTC()
	err = db.pool.QueryRow(ctx, `
		SELECT
			(SELECT event_id FROM almanac.queue WHERE available_at > now() AND event_type = 'BIRTHDAY' ORDER BY available_at OFFSET 100 LIMIT 1),
			(SELECT id FROM almanac.history WHERE failure_reason LIKE 'HTTP%' AND status = 'FAILED' ORDER BY id DESC LIMIT 1),
			(SELECT id FROM almanac.users WHERE external_id = 'customer-42')`).Scan(&s.pending, &s.failed, &s.user)
	return s, err
}

// view is a page, and a text that it has if it is complete. A page may give up a search that takes too
// long, and say so.
type view struct{ name, path, shows string }

func (s sample) views() []view {
	day := func(ahead int) string { return s.now.AddDate(0, 0, ahead).Format(time.DateOnly) }
	const largest, rare = "?zone=America/New_York", "?zone=Pacific/Chatham"
	const looked = "events of the list were looked at"
	year := func(ago int) string { return "&year=" + strconv.Itoa(s.now.Year()-ago) }
	events := func(name string, fields ...string) view {
		q := url.Values{}
		for i := 0; i < len(fields); i += 2 {
			q.Set(fields[i], fields[i+1])
		}
		return view{"events, " + name, "events?" + q.Encode(), `href="./events/`}
	}
	return []view{
		{"now", "", "BIRTHDAY"}, {"map", "map", "America/New_York"},
		{"calendar, this year, the largest zone", "calendar" + largest, "The shade counts"},
		{"calendar, this year, a rare zone", "calendar" + rare, "The shade counts"},
		{"calendar, three years ago", "calendar" + largest + year(3), "The shade counts"},
		{"calendar, this year, one type", "calendar" + largest + "&type=ANNIVERSARY", "The shade counts"},
		{"a day, tomorrow", "calendar/" + day(1) + largest, "The hours of"},
		{"a day, last year", "calendar/" + day(-365) + largest, "The hours of"},
		events("newest first"), events("oldest first", "order", "oldest"), events("next first", "order", "next"),
		events("pending", "status", "PENDING"), events("in flight", "status", "PROCESSING"), events("completed", "status", "COMPLETED"),
		events("failed", "status", "FAILED"), events("cancelled", "status", "CANCELLED"), events("of a type", "type", "ANNIVERSARY"),
		events("for a reason", "reason", "dial"), events("of a user", "user", s.user.String()),
		{"events, in the largest zone", "events" + largest, looked}, {"events, in a rare zone", "events" + rare, looked},
		{"events, failed, in a rare zone", "events" + rare + "&status=FAILED", looked},
		events("due today", "from", day(0), "until", day(1)), events("due on a day of last year", "from", day(-365), "until", day(-364)),
		events("due this month, next first", "from", day(0), "until", day(30), "order", "next"),
		events("due in a month three years ago", "from", day(-3*365), "until", day(-3*365+30)),
		{"an event, pending", "events/" + s.pending.String(), "Why at this instant"}, {"an event, failed", "events/" + s.failed.String(), "HTTP"},
		{"users", "users", "<bdi>"}, {"users, by first name", "users?name=ada", "<bdi>Ada"}, {"users, by last name", "users?name=lovelace", "Lovelace"},
		{"users, by full name", "users?name=ada+lovelace", "<bdi>Ada Lovelace"}, {"users, by external id", "users?external=customer-42", "<bdi>"},
		{"users, by e-mail address", "users?email=user41@example.com", "<bdi>"}, {"users, by a name that no user has", "users?name=xyz", "<h1>Users</h1>"},
		{"a user", "users/" + s.user.String(), "BIRTHDAY"}, {"zones", "zones", "Asia/Tokyo"}, {"a zone", "zones/America/New_York", "America/New_York"},
		{"failures", "failures", "HTTP 404"}, {"leases", "leases", "worker 0"}, {"pauses", "pauses", "DIGEST"},
		{"operations", "operations", "<h1>Operations</h1>"},
		{"operations, dry run of a day", "operations?operation=cancel&limit=1000&from=" + day(1) + "&until=" + day(2), "BIRTHDAY"},
		{"operations, dry run of a type", "operations?operation=cancel&limit=1000&type=ANNIVERSARY", "ANNIVERSARY"},
		{"operations, dry run of a rare zone", "operations?operation=cancel&limit=1000&zone=Pacific/Chatham", "BIRTHDAY"},
		{"operations, dry run of failures", "operations?operation=requeue&limit=1000&reason=HTTP+404", "BIRTHDAY"},
	}
}

// desk serves a dashboard by HTTP, as a program that delivers does, and keeps the statements that it
// sends.
type desk struct {
	server     *http.Server
	root       string
	handler    atomic.Pointer[http.Handler] // of the process that is looked at
	statements queries
	pools      []*pgxpool.Pool
	admin      *pgxpool.Pool
}

func openDesk(ctx context.Context, db database) (*desk, error) {
	d := &desk{admin: db.pool}
	for _, connections := range []int32{10, 2} {
		config, err := pgxpool.ParseConfig(db.url)
		if err != nil {
			return nil, err
		}
		config.MaxConns, config.ConnConfig.Tracer = connections, &d.statements
		pool, err := pgxpool.NewWithConfig(ctx, config)
		if err != nil {
			return nil, err
		}
		d.pools = append(d.pools, pool)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d.root = "http://" + listener.Addr().String() + "/"
	d.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*d.handler.Load()).ServeHTTP(w, r) })}
	go d.server.Serve(listener)
	return d, nil
}

func (d *desk) close() {
	_ = d.server.Close()
	for _, pool := range d.pools {
		pool.Close()
	}
}

// restart replaces the dashboard by that of a process that has read nothing yet.
func (d *desk) restart() error {
	scheduler, err := newSchedulerOf(d.pools[0], hooks{}, []almanac.EventHandler{almanac.Birthday{}, almanac.Anniversary{}})
	if err != nil {
		return err
	}
	reader, err := postgres.New(d.pools[1], postgres.ReadOnly(0))
	if err != nil {
		return err
	}
	all := func(*http.Request, dashboard.Action, uuid.UUID) (bool, error) { return true, nil }
	pages, err := dashboard.New(scheduler, reader, dashboard.AllowAll(), dashboard.WithPermissions(all), dashboard.WithMonitor(dashboard.NewMonitor()),
		dashboard.WithTrail(reader.Audit), dashboard.WithLogger(slog.New(slog.DiscardHandler)))
	d.handler.Store(&pages)
	return err
}

// get returns how long the first byte of a page takes, and the page.
func (d *desk) get(ctx context.Context, path string) (first time.Duration, page string, err error) {
	began := time.Now()
	r, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotFirstResponseByte: func() { first = time.Since(began) },
	}), http.MethodGet, d.root+path, nil)
	if err != nil {
		return 0, "", err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusGatewayTimeout {
		err = fmt.Errorf("%s is answered %s: %.2000s", path, answer.Status, text)
	}
	return first, string(text), err
}

// settled waits until the process reads nothing any more.
func (d *desk) settled(ctx context.Context) error {
	for {
		if !slices.ContainsFunc(d.pools, func(p *pgxpool.Pool) bool { return p.Stat().AcquiredConns() > 0 }) {
			return nil
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}

// look requests a page, of new processes and of one that has read its numbers, and counts what its
// statements read.
func (b *bench) look(ctx context.Context, d *desk, v view) ([]reading, error) {
	var cold, warm []float64
	complete := 0
	for range views {
		if err := d.restart(); err != nil {
			return nil, err
		}
		d.statements.keep(nil)
		first, _, err := d.get(ctx, v.path)
		if err = errors.Join(err, d.settled(ctx)); err != nil {
			return nil, err
		}
		cold = append(cold, millis(first))
	}
	sent := d.statements.keep(nil)
	if _, _, err := d.get(ctx, "leases"); err != nil { // reads the numbers, if the page has not
		return nil, err
	}
	if err := d.settled(ctx); err != nil {
		return nil, err
	}
	for range views {
		first, page, err := d.get(ctx, v.path)
		for err == nil && strings.Contains(page, "Looking for the events that match") { // the first answer shows the progress
			_, page, err = d.get(ctx, v.path)
		}
		gaveUp := strings.Contains(page, "could not be counted in time") || strings.Contains(page, "could not be listed in time") || strings.Contains(page, "The database took too long")
		if err == nil && !gaveUp && !strings.Contains(page, v.shows) {
			err = fmt.Errorf("%s does not show %q: %s", v.path, v.shows, page)
		}
		if err != nil {
			return nil, err
		}
		if !gaveUp {
			complete++
		}
		warm = append(warm, millis(first))
	}
	blocks, most, err := d.blocks(ctx, sent)
	b.logf("dashboard/%s: %d blocks: %.300s", v.name, blocks, strings.Join(strings.Fields(most), " "))
	return []reading{
		{"first byte", "ms", median(warm)}, {"max", "ms", slices.Max(warm)},
		{"new process", "ms", median(cold)}, {"its max", "ms", slices.Max(cold)},
		{"complete", "%", float64(100*complete) / views}, {"blocks", "", float64(blocks)},
	}, err
}

// blocks returns the largest number of blocks that one of the statements touches, and the statement.
func (d *desk) blocks(ctx context.Context, list []asked) (most int, by string, err error) {
	err = pgx.BeginTxFunc(ctx, d.admin, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL jit = off"); err != nil {
			return err
		}
		for _, one := range list {
			var text string
			if err := tx.QueryRow(ctx, "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+one.sql, one.args...).Scan(&text); err != nil {
				return err
			}
			var plans []struct {
				Plan struct {
					Hit  int `json:"Shared Hit Blocks"`
					Read int `json:"Shared Read Blocks"`
				}
			}
			if err := json.Unmarshal([]byte(text), &plans); err != nil {
				return err
			}
			if n := plans[0].Plan.Hit + plans[0].Plan.Read; n > most {
				most, by = n, one.sql
			}
		}
		return nil
	})
	return most, by, err
}

// queries is a tracer that keeps the queries of a store.
type queries struct {
	mu   sync.Mutex
	list []asked
}

// asked is a query as it was sent.
type asked struct {
	sql  string
	args []any
}

// keep replaces the statements that were kept, and returns them.
func (s *queries) keep(others []asked) []asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.list
	s.list = others
	return kept
}

// TraceQueryStart keeps a query.
func (s *queries) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.Contains(data.SQL, "SELECT") {
		s.list = append(s.list, asked{data.SQL, data.Args})
	}
	return ctx
}

// TraceQueryEnd does nothing.
func (s *queries) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
