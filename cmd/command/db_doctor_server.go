package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac/ops"
)

// oldestServer is the first version of PostgreSQL that is supported, as it counts them.
const oldestServer = 130000

func (p *patient) server(ctx context.Context) ([]finding, error) {
	var s serverFacts
	row := p.conn.QueryRow(ctx, statement("server", p.tables.Schema))
	if err := row.Scan(&s.number, &s.version, &s.isStandby, &s.autovacuum, &s.standbys, &s.waits); err != nil {
		return nil, err
	}
	return s.findings(), nil
}

// serverFacts are what a server says of itself.
type serverFacts struct {
	number     int
	version    string
	isStandby  bool
	autovacuum bool
	standbys   int  // that read from it
	waits      bool // whether a commit waits for a standby
}

func (s serverFacts) findings() []finding {
	findings := []finding{{Severity: fine, Text: "PostgreSQL " + s.version}}
	if s.number < oldestServer {
		findings[0] = finding{Severity: broken, Text: fmt.Sprintf("PostgreSQL %s is older than 13", s.version), Advice: "upgrade the server"}
	}
	if s.isStandby {
		findings = append(findings, finding{Severity: warns, Text: "it is a standby, which takes no writes", Advice: "give programs the address of the primary, or target_session_attrs=read-write"})
	}
	if s.standbys > 0 && !s.waits {
		findings = append(findings, finding{Severity: notice, Text: "no commit waits for a standby: a failover loses the last commits, and what they had completed is done again",
			Advice: "set synchronous_standby_names, or the synchronous_mode of Patroni, if that may not be; synchronous_commit has to be on"})
	}
	if !s.autovacuum {
		findings = append(findings, finding{Severity: warns, Text: "autovacuum is off: the queue and the series grow with every event", Advice: "switch it on"})
	}
	return findings
}

// clockLimits: that programs and the database differ costs them nothing, since the
// database's clock decides; but receivers refuse signatures that are five minutes off.
const (
	clockNotable = 5 * time.Second
	clockBroken  = 5 * time.Minute
)

func (p *patient) clock(ctx context.Context) ([]finding, error) {
	asked := p.now()
	theirs, err := p.store.Now(ctx)
	if err != nil {
		return nil, err
	}
	took := p.now().Sub(asked)
	ahead := theirs.Sub(asked.Add(took / 2))
	f := finding{Severity: fine, Text: fmt.Sprintf("the database's clock and this machine's are %s apart, give or take %s", ahead.Abs().Round(time.Millisecond), (took / 2).Round(time.Millisecond))}
	switch {
	case ahead.Abs() > clockBroken:
		f.Severity, f.Advice = broken, "see which of the two is wrong (NTP): by the database's it is decided what is due, and receivers refuse signatures that are five minutes off"
	case ahead.Abs() > clockNotable:
		f.Severity, f.Advice = warns, "see which of the two is wrong (NTP): by the database's it is decided what is due"
	}
	return []finding{f}, nil
}

// vacuum looks for what keeps dead rows where they are.
func (p *patient) vacuum(ctx context.Context) ([]finding, error) {
	const manyTransactions = 1_000_000 // if the duration is unknown
	rows, err := p.conn.Query(ctx, statement("transactions", p.tables.Schema), pgx.StrictNamedArgs{"age": p.patience, "xids": manyTransactions})
	if err != nil {
		return nil, err
	}
	findings, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (finding, error) {
		var kind, who string
		var seconds *float64
		var xids int64
		if err := row.Scan(&kind, &who, &seconds, &xids); err != nil {
			return finding{}, err
		}
		return vacuumFinding(kind, who, seconds, xids), nil
	})
	if err == nil && len(findings) == 0 {
		findings = []finding{{Severity: fine, Text: fmt.Sprintf("nothing keeps vacuum from removing what is older than %s", p.patience)}}
	}
	return findings, err
}

func vacuumFinding(kind, who string, seconds *float64, xids int64) finding {
	since := fmt.Sprintf("for %d transactions", xids)
	if seconds != nil {
		since = "for " + time.Duration(*seconds*float64(time.Second)).Truncate(time.Second).String()
	}
	advice := map[string]string{
		"session":              "have it end its transaction, or end it with pg_terminate_backend; idle_in_transaction_session_timeout keeps it from happening again",
		"prepared transaction": "COMMIT PREPARED or ROLLBACK PREPARED",
		"replication slot":     "drop the slot if no program uses it any more (pg_drop_replication_slot)",
		"standby":              "see what it runs for so long; hot_standby_feedback has it hold back the primary",
	}
	return finding{Severity: warns, Text: fmt.Sprintf("%s %s has kept vacuum from removing dead rows %s", kind, who, since), Advice: advice[kind]}
}

// connections looks how many are left.
func (p *patient) connections(ctx context.Context) ([]finding, error) {
	var inServer, inDatabase, inRole usage
	row := p.conn.QueryRow(ctx, statement("connections", p.tables.Schema))
	if err := row.Scan(&inServer.used, &inServer.limit, &inDatabase.used, &inDatabase.limit, &inRole.used, &inRole.limit); err != nil {
		return nil, err
	}
	inServer.of, inDatabase.of, inRole.of = "the server", "this database", "this role"
	return connectionFindings(inServer, inDatabase, inRole), nil
}

// usage is how many connections of a number are in use.
type usage struct {
	of          string
	used, limit int // the limit is -1 where there is none
}

// connectionFindings warns of a limit of which four fifths are used.
func connectionFindings(all ...usage) []finding {
	var findings []finding
	for _, u := range all {
		if u.limit >= 0 && 5*u.used > 4*u.limit {
			findings = append(findings, finding{Severity: warns, Text: fmt.Sprintf("%d of %d connections of %s are in use", u.used, u.limit, u.of),
				Advice: "raise the limit, or have fewer: what programs may open together has to fit into it"})
		}
	}
	if len(findings) == 0 {
		findings = []finding{{Severity: fine, Text: fmt.Sprintf("%d of %d connections of %s are in use", all[0].used, all[0].limit, all[0].of)}}
	}
	return findings
}

// notifications looks how full the queue of notifications is.
func (p *patient) notifications(ctx context.Context) ([]finding, error) {
	var used float64
	if err := p.conn.QueryRow(ctx, statement("notifications", p.tables.Schema)).Scan(&used); err != nil {
		return nil, err
	}
	return []finding{notificationFinding(used)}, nil
}

// notificationFinding warns early: from half of the queue on, programs send no notifications.
func notificationFinding(used float64) finding {
	f := finding{Severity: fine, Text: fmt.Sprintf("%.0f %% of the queue of notifications is in use", 100*used)}
	if used >= 0.25 {
		f.Severity = warns
		f.Advice = "a session that listens does not end its transaction: end it with pg_terminate_backend; from 50 % on programs send no notifications, and find events of other programs by polls"
	}
	return f
}

// operationLimit is how long an operation of a store may take by default (postgres.WithTimeout).
const operationLimit = 5 * time.Second

// setting is a setting under which programs do not work, or not always.
type setting struct {
	bad      func(value string) bool
	severity severity
	text     string
}

// dangerous are the settings to look at, by name. A role, a database or the server may have them.
var dangerous = map[string]setting{
	"server_encoding":                {isNot("UTF8"), broken, "the database cannot hold every text, and programs refuse it: make one with ENCODING 'UTF8'"},
	"client_encoding":                {isNot("UTF8"), broken, "programs refuse to work, since they send and read UTF8"},
	"default_transaction_read_only":  {isNot("off"), broken, "programs can store nothing"},
	"session_replication_role":       {isNot("origin"), broken, "triggers do not run, so edits of users are missed, and so are the trail and the outbox"},
	"statement_timeout":              {isShort, warns, "an operation may take 5 s, and one that never ends in time is never done"},
	"transaction_timeout":            {isShort, warns, "an operation may take 5 s, and one that never ends in time is never done"},
	"default_transaction_deferrable": {isNot("off"), notice, "a read-only transaction that is serializable may wait for long"},
}

func isNot(value string) func(string) bool { return func(is string) bool { return is != value } }

// isShort reports whether a timeout is shorter than an operation may be. Zero means that there is none.
func isShort(value string) bool {
	ms, err := strconv.Atoi(value)
	return err == nil && ms > 0 && time.Duration(ms)*time.Millisecond < operationLimit
}

// settings looks for settings of this role in this database under which programs do not work.
func (p *patient) settings(ctx context.Context) ([]finding, error) {
	names := make([]string, 0, len(dangerous))
	for name := range dangerous {
		names = append(names, name)
	}
	rows, err := p.conn.Query(ctx, statement("settings", p.tables.Schema), pgx.StrictNamedArgs{"names": names})
	if err != nil {
		return nil, err
	}
	var findings []finding
	var name, value string
	_, err = pgx.ForEachRow(rows, []any{&name, &value}, func() error {
		if s := dangerous[name]; s.bad(value) {
			findings = append(findings, finding{Severity: s.severity, Text: fmt.Sprintf("%s is %s: %s", name, value, s.text), Advice: adviceFor(name)})
		}
		return nil
	})
	if err == nil && len(findings) == 0 {
		findings = []finding{{Severity: fine, Text: "no setting of this role in this database keeps programs from working"}}
	}
	return findings, err
}

func adviceFor(name string) string {
	if name == "server_encoding" {
		return "move the data to a database of UTF8: pg_dump, CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0, psql"
	}
	return fmt.Sprintf("ALTER ROLE … RESET %[1]s, or ALTER DATABASE … RESET %[1]s, for the roles of programs", name)
}

// publications looks for tables in which a publication stops all writes.
func (p *patient) publications(ctx context.Context) ([]finding, error) {
	rows, err := p.conn.Query(ctx, statement("publications", p.tables.Schema), pgx.StrictNamedArgs{"schema": p.tables.Schema})
	if err != nil {
		return nil, err
	}
	var findings []finding
	var publication, table string
	_, err = pgx.ForEachRow(rows, []any{&publication, &table}, func() error {
		findings = append(findings, finding{
			Severity: broken,
			Text:     fmt.Sprintf("publication %s stops updates and deletions in %s, which has neither a primary key nor a replica identity", publication, table),
			Advice:   fmt.Sprintf("ALTER TABLE %s.%s REPLICA IDENTITY DEFAULT, if the primary key is there", p.tables.Schema, table),
		})
		return nil
	})
	return findings, err
}

const insufficientPrivilege = "42501" // see appendix A of the PostgreSQL manual

// outbox looks for consumers that read nothing, because their positions are of another server.
func (p *patient) outbox(ctx context.Context) ([]finding, error) {
	rows, err := p.conn.Query(ctx, statement("moved_consumers", p.tables.Schema))
	if err != nil {
		return nil, err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if isRefused(err) {
		return []finding{{Severity: notice, Text: "this role may not see the positions of consumers"}}, nil
	}
	if err != nil || len(names) == 0 {
		return nil, err
	}
	return []finding{{
		Severity: broken,
		Text:     "positions of another server, so that these consumers read nothing: " + strings.Join(names, ", "),
		Advice:   "have the owner of the tables call postgres.EnableOutbox: all consumers then read every stored row once more",
	}}, nil
}

// lost looks for open events that are in neither the queue nor a lease, among the series of a sample.
func (p *patient) lost(ctx context.Context) ([]finding, error) {
	var lost, sample int
	err := p.conn.QueryRow(ctx, statement("lost", p.tables.Schema)).Scan(&lost, &sample)
	if isRefused(err) {
		return []finding{{Severity: notice, Text: "this role may not see the events of series"}}, nil
	}
	if err != nil || lost == 0 {
		return nil, err
	}
	return []finding{{Severity: broken, Text: fmt.Sprintf("%s of %d series in neither the queue nor a lease: no program claims them", counted(lost, "event"), sample),
		Advice: "run a program, whose sweeps put them back; find out what deleted or hid the rows"}}, nil
}

// leases looks for leases that have expired and whose events no program releases. A program that sweeps
// has a lease with an event that it cannot release expire anew, so the time of the claim counts.
func (p *patient) leases(ctx context.Context) ([]finding, error) {
	leases, err := p.store.Leases(ctx, 0)
	if isRefused(err) {
		return []finding{{Severity: notice, Text: "this role may not see leases"}}, nil
	}
	now, errClock := p.store.Now(ctx)
	if err := errors.Join(err, errClock); err != nil {
		return nil, err
	}
	expired := slices.DeleteFunc(leases, func(l ops.Lease) bool { return !l.Expired || now.Sub(l.ClaimedAt) <= p.patience })
	if len(expired) == 0 {
		return nil, nil
	}
	text := fmt.Sprintf("%s expired, and the events are not released: the oldest is of %s, %s ago", counted(len(expired), "lease"),
		expired[0].Owner, now.Sub(expired[0].ClaimedAt).Round(time.Second))
	return []finding{{Severity: warns, Text: text, Advice: `start a program, or look in its log for the error of the maintenance task "release expired leases"`}}, nil
}
