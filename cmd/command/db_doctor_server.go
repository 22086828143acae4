package command

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// oldestServer is the first version of PostgreSQL that is supported, as it counts them.
const oldestServer = 130000

func (p *patient) server(ctx context.Context) ([]finding, error) {
	var number int
	var version string
	var standby, autovacuum bool
	if err := p.conn.QueryRow(ctx, statement("server", p.tables.Schema)).Scan(&number, &version, &standby, &autovacuum); err != nil {
		return nil, err
	}
	return serverFindings(number, version, standby, autovacuum), nil
}

func serverFindings(number int, version string, standby, autovacuum bool) []finding {
	findings := []finding{{Severity: fine, Text: "PostgreSQL " + version}}
	if number < oldestServer {
		findings[0] = finding{Severity: broken, Text: fmt.Sprintf("PostgreSQL %s is older than 13", version), Advice: "upgrade the server"}
	}
	if standby {
		findings = append(findings, finding{Severity: warns, Text: "it is a standby, which takes no writes", Advice: "give programs the address of the primary, or target_session_attrs=read-write"})
	}
	if !autovacuum {
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
