package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"
)

// stats shows what a database holds, and what waits.
type stats struct {
	tables
	Exact bool `help:"Count every event, however many there are."`
	JSON  bool `help:"Write JSON." name:"json"`
}

// What stats reads of a large database is bounded.
const (
	samplePages  = 2000    // of 8 KB, of the queue and of the history: whole below, a sample above
	backlogLimit = 100_000 // events that are counted in the backlog
	statsLimit   = 30 * time.Second
)

// Help is shown below the command's line.
func (c *stats) Help() string {
	return `Pending and ended events are counted if their table is smaller than 16 MB, some hundred thousand events. In a larger table they are estimated, from 16 MB of randomly chosen pages; "~" marks an estimate. With --exact they are counted. The backlog is counted up to 100000 events. Events in flight are counted. Events that wait for another attempt after a failed one (RETRIED), and series whose next event could not be planned (STALLED), are grouped by type and last error. The numbers of table rows come from the server's statistics. Everything is read in one read-only transaction, in which a statement takes at most 30 seconds. The privileges of almanac_reader (docs/roles.sql) suffice; for that role, a large history shows only its number of events, and no errors.

    almanac stats
    almanac stats --database-url postgres://localhost/app --schema greetings --json

It exits with 0 when everything could be read, and 1 otherwise.`
}

// statistics are what there is to say.
type statistics struct {
	Schema  string       `json:"schema"`
	At      time.Time    `json:"at"` // the database's time, UTC
	Backlog backlog      `json:"backlog"`
	Leases  leases       `json:"leases"`
	Retries *retries     `json:"retries"` // null if the role may not read errors
	Events  []eventCount `json:"events"`
	Tables  []tableSize  `json:"tables"`
}

// backlog is what can be claimed.
type backlog struct {
	Events int64      `json:"events"`
	More   bool       `json:"more"`             // there are more than were counted
	Oldest *time.Time `json:"oldest,omitempty"` // since when the first could be claimed, UTC
	Late   float64    `json:"lateSeconds"`      // how long that is
	// Delayed is the number of events that were due and wait for another attempt.
	Delayed int64 `json:"delayed"`
}

// leases are claims.
type leases struct {
	InForce int64      `json:"inForce"`
	Events  int64      `json:"events"`  // that they list; some may have ended
	Expired int64      `json:"expired"` // and not yet taken back
	Oldest  *time.Time `json:"oldest,omitempty"`
}

type eventCount struct {
	Type      string `json:"type"` // empty for all types together
	Status    string `json:"status"`
	Events    int64  `json:"events"`
	Estimated bool   `json:"estimated"`
}

type tableSize struct {
	Name     string     `json:"name"`
	Rows     int64      `json:"rows"`     // estimated
	Dead     int64      `json:"deadRows"` // estimated
	Bytes    int64      `json:"bytes"`
	Indexes  int64      `json:"indexBytes"`
	Vacuumed *time.Time `json:"vacuumed,omitempty"` // the last time, UTC
	pages    int64
	readable bool
}

// Run shows the statistics.
func (c *stats) Run(ctx context.Context, env *environment) error {
	if err := misused(c.validate(env)); err != nil {
		return err
	}
	conn, store, err := c.dial(ctx, env, statsLimit)
	if err != nil {
		return err
	}
	defer disconnect(ctx, conn)
	if err := store.Verify(ctx); err != nil {
		return err
	}
	s := statistics{Schema: c.Schema, Events: []eventCount{}}
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, fmt.Sprintf("SET LOCAL statement_timeout = %d", statsLimit.Milliseconds())); err != nil {
			return err
		}
		return s.read(ctx, tx, c.Exact)
	})
	if err != nil {
		return err
	}
	if s.Retries, err = retriesOf(ctx, store); err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(env.out, s)
	}
	return s.write(env.out)
}

func (s *statistics) read(ctx context.Context, tx pgx.Tx, exact bool) error {
	row := tx.QueryRow(ctx, statement("stats_backlog", s.Schema), pgx.StrictNamedArgs{"limit": backlogLimit + 1})
	if err := row.Scan(&s.At, &s.Backlog.Events, &s.Backlog.Oldest, &s.Backlog.Delayed); err != nil {
		return err
	}
	s.At = s.At.UTC()
	if s.Backlog.Oldest != nil {
		s.Backlog.Late = s.At.Sub(*s.Backlog.Oldest).Seconds()
	}
	if s.Backlog.Events > backlogLimit {
		s.Backlog.Events, s.Backlog.More = backlogLimit, true
	}
	l := &s.Leases
	if err := tx.QueryRow(ctx, statement("stats_leases", s.Schema)).Scan(&l.InForce, &l.Events, &l.Expired, &l.Oldest); err != nil {
		return err
	}
	if err := s.readTables(ctx, tx); err != nil {
		return err
	}
	if err := s.countSampled(ctx, tx, "stats_pending", s.percent("queue", exact)); err != nil {
		return err
	}
	if err := s.count(ctx, tx, "stats_processing"); err != nil {
		return err
	}
	if err := s.countEnded(ctx, tx, exact); err != nil {
		return err
	}
	slices.SortFunc(s.Events, func(a, b eventCount) int { return cmp.Or(cmp.Compare(a.Type, b.Type), rank(a.Status)-rank(b.Status)) })
	return nil
}

// rank is where a status comes in the life of an event.
func rank(status string) int {
	return slices.Index([]string{"PENDING", "PROCESSING", "COMPLETED", "FAILED", "CANCELLED"}, status)
}

func (s *statistics) readTables(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, statement("stats_tables", s.Schema), pgx.StrictNamedArgs{"schema": s.Schema})
	if err != nil {
		return err
	}
	s.Tables, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (t tableSize, err error) {
		err = row.Scan(&t.Name, &t.Rows, &t.Dead, &t.Bytes, &t.Indexes, &t.pages, &t.Vacuumed, &t.readable)
		return t, err
	})
	return err
}

func (s *statistics) table(name string) tableSize {
	return s.Tables[slices.IndexFunc(s.Tables, func(t tableSize) bool { return t.Name == name })]
}

// percent is how much of a table's pages is read.
func (s *statistics) percent(table string, exact bool) float64 {
	if pages := s.table(table).pages; pages > samplePages && !exact {
		return 100 * float64(samplePages) / float64(pages)
	}
	return 100
}

// countEnded counts through the view where the history itself is out of sight, and
// tells no more than the server's own estimate where that would be to read it all.
func (s *statistics) countEnded(ctx context.Context, tx pgx.Tx, exact bool) error {
	percent := s.percent("history", exact)
	switch history := s.table("history"); {
	case history.readable:
		return s.countSampled(ctx, tx, "stats_ended", percent)
	case percent < 100:
		s.Events = append(s.Events, eventCount{"", "ENDED", history.Rows, true})
		return nil
	}
	return s.count(ctx, tx, "stats_ended_view")
}

// countSampled counts in a part of the pages of a table, and estimates all by it.
func (s *statistics) countSampled(ctx context.Context, tx pgx.Tx, name string, percent float64) error {
	first := len(s.Events)
	if err := s.count(ctx, tx, name, pgx.StrictNamedArgs{"percent": percent}); err != nil {
		return err
	}
	for i := first; i < len(s.Events) && percent < 100; i++ {
		e := &s.Events[i]
		e.Events, e.Estimated = int64(float64(e.Events)*100/percent), true
	}
	return nil
}

func (s *statistics) count(ctx context.Context, tx pgx.Tx, name string, args ...any) error {
	rows, err := tx.Query(ctx, statement(name, s.Schema), args...)
	if err != nil {
		return err
	}
	counts, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e eventCount, err error) {
		err = row.Scan(&e.Type, &e.Status, &e.Events)
		return e, err
	})
	s.Events = append(s.Events, counts...)
	return err
}

func (s *statistics) write(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "schema\t%s at %s\n", s.Schema, s.At.Format(time.RFC3339))
	fmt.Fprintf(table, "backlog\t%s\n", s.Backlog)
	if n := s.Backlog.Delayed; n > 0 {
		fmt.Fprintf(table, "delayed\t%s waiting for another attempt: see events list --overdue 0s\n", counted(int(min(n, backlogLimit)), "overdue event"))
	}
	fmt.Fprintf(table, "leases\t%d in force with %s, %d expired\n", s.Leases.InForce, counted(int(s.Leases.Events), "event"), s.Leases.Expired)
	if s.Retries == nil {
		fmt.Fprint(table, "retries\tnot shown: this role may not read errors\n")
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if s.Retries != nil {
		if err := s.Retries.write(out); err != nil {
			return err
		}
	}
	if len(s.Events) > 0 {
		fmt.Fprintln(table, "\nTYPE\tSTATUS\tEVENTS")
	}
	for _, e := range s.Events {
		about := ""
		if e.Estimated {
			about = "~"
		}
		fmt.Fprintf(table, "%s\t%s\t%s%d\n", cmp.Or(e.Type, "all"), e.Status, about, e.Events)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(table, "\nTABLE\tROWS\tDEAD\tSIZE\tINDEXES\tVACUUMED")
	for _, t := range s.Tables {
		vacuumed := "never"
		if t.Vacuumed != nil {
			vacuumed = t.Vacuumed.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(table, "%s\t~%d\t~%d\t%s\t%s\t%s\n", t.Name, t.Rows, t.Dead, sizeText(t.Bytes), sizeText(t.Indexes), vacuumed)
	}
	return table.Flush()
}

// String says it in words.
func (b backlog) String() string {
	if b.Oldest == nil {
		return "nothing waits to be claimed"
	}
	number := counted(int(b.Events), "event")
	if b.More {
		number = "more than " + number
	}
	late := time.Duration(b.Late * float64(time.Second)).Truncate(time.Millisecond)
	return fmt.Sprintf("%s, the first since %s (%s)", number, b.Oldest.UTC().Format(time.RFC3339), late)
}

// sizeText writes a number of bytes: "8 KB", "1.5 GB".
func sizeText(bytes int64) string {
	if bytes < 1024 {
		return fmt.Sprintf("%d B", bytes)
	}
	size, unit := float64(bytes)/1024, 0
	for size >= 1024 && unit < 3 {
		size, unit = size/1024, unit+1
	}
	return fmt.Sprintf("%.3g %s", size, []string{"KB", "MB", "GB", "TB"}[unit])
}
