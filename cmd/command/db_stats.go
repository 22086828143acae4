package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac/ops"
)

// stats shows what a database holds, and what waits.
type stats struct {
	tables
	Exact bool `help:"Count every event, however many there are."`
	JSON  bool `help:"Write JSON." name:"json"`
}

// statsLimit is patience with one statement.
const statsLimit = 30 * time.Second

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
	// Delayed is the number of events that were due and wait for a later time, such as another attempt.
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
	stored, err := store.Stats(ctx)
	if err != nil {
		return err
	}
	s := statisticsOf(c.Schema, stored)
	if err := s.readServer(ctx, conn, c.Exact); err != nil {
		return err
	}
	if s.Retries, err = retriesOf(ctx, store); err != nil {
		return err
	}
	return env.report(c.JSON, s, func() error { return s.write(env.out) })
}

func statisticsOf(schema string, stored ops.Stats) statistics {
	s := statistics{Schema: schema, At: stored.At}
	s.Backlog = backlog{Events: stored.Backlog.N, More: stored.Backlog.Kind == ops.AtLeast, Oldest: unlessZero(stored.Oldest), Delayed: stored.Delayed.N}
	if s.Backlog.Oldest != nil {
		s.Backlog.Late = s.At.Sub(stored.Oldest).Seconds()
	}
	s.Events = mapped(stored.Events, func(e ops.TypeCount) eventCount {
		return eventCount{e.Type, string(e.Status), e.Count.N, e.Count.Kind != ops.Exact}
	})
	return s
}

// readServer reads what a store does not say: the leases in sum, the tables, and with exact the number of all events.
func (s *statistics) readServer(ctx context.Context, conn *pgx.Conn, exact bool) error {
	ctx, cancel := context.WithTimeout(ctx, 3*statsLimit)
	defer cancel()
	l := &s.Leases
	if err := conn.QueryRow(ctx, statement("stats_leases", s.Schema)).Scan(&l.InForce, &l.Events, &l.Expired, &l.Oldest); err != nil {
		return err
	}
	rows, err := conn.Query(ctx, statement("stats_tables", s.Schema), pgx.StrictNamedArgs{"schema": s.Schema})
	if err != nil {
		return err
	}
	s.Tables, err = pgx.CollectRows(rows, pgx.RowToStructByPos[tableSize])
	if err != nil || !exact {
		return err
	}
	if rows, err = conn.Query(ctx, statement("stats_events", s.Schema)); err != nil {
		return err
	}
	s.Events, err = pgx.CollectRows(rows, pgx.RowToStructByPos[eventCount])
	return err
}

func (s *statistics) write(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "schema\t%s at %s\n", s.Schema, s.At.Format(time.RFC3339))
	fmt.Fprintf(table, "backlog\t%s\n", s.Backlog)
	if n := s.Backlog.Delayed; n > 0 {
		fmt.Fprintf(table, "delayed\t%s waiting for another attempt, the end of quiet hours, or a time in a window\n", counted(int(n), "due event"))
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
