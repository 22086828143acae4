package shards

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// renumber gives the rows of the outbox numbers and a transaction id of this server. Rows that more consumers have read come first. Otherwise they keep
// their order, which is that of the changes of each user. A consumer goes on at the first row that it has not read: the rows are
// of one transaction, which counts as open in what the consumer has seen.
func (m *move) renumber(ctx context.Context, tx pgx.Tx, server int64) error {
	var last int64
	var seen, reading string
	err := tx.QueryRow(ctx, strings.ReplaceAll(openSnapshot, "SCHEMA", quoted(m.Schema))).Scan(&last, &seen, &reading)
	if err != nil {
		return fmt.Errorf("read the snapshot: %w", err)
	}
	var rows int64
	if err := tx.QueryRow(ctx, strings.ReplaceAll(renumber, "SCHEMA", quoted(m.Schema)), server, last, seen, reading).Scan(&rows); err != nil {
		return fmt.Errorf("renumber the outbox: %w", err)
	}
	_, err = tx.Exec(ctx, fmt.Sprintf("SELECT setval(%s, %d)", literal(quoted(m.Schema, "outbox_sequence_seq")), last+rows+1))
	return err
}

const (
	// openSnapshot returns the last number of the outbox; the snapshot of what is committed now, in which this transaction is open;
	// and the same one with this transaction. Younger transactions that have their ids count as open.
	openSnapshot = `WITH now AS MATERIALIZED (
    SELECT pg_current_xact_id()::text::bigint AS own, pg_current_snapshot() AS snapshot
), bounds AS (
    SELECT now.*, pg_snapshot_xmax(snapshot)::text::bigint AS past, greatest(pg_snapshot_xmax(snapshot)::text::bigint, own + 1) AS ends FROM now
), open AS (
    SELECT x::text::bigint AS xid FROM bounds, pg_snapshot_xip(snapshot) AS x
    UNION
    SELECT generate_series(b.past, b.ends - 1) FROM bounds b
    UNION
    SELECT own FROM bounds
)
SELECT (SELECT last_value FROM SCHEMA.outbox_sequence_seq),
    concat_ws(':', least(pg_snapshot_xmin(b.snapshot)::text::bigint, b.own), b.ends, (SELECT string_agg(xid::text, ',' ORDER BY xid) FROM open)),
    concat_ws(':', coalesce((SELECT min(xid) FROM open WHERE xid <> b.own), b.ends), b.ends, coalesce((SELECT string_agg(xid::text, ',' ORDER BY xid) FROM open WHERE xid <> b.own), ''))
FROM bounds b`

	renumber = `WITH old AS (
    DELETE FROM SCHEMA.outbox RETURNING *
), consumer AS (
    SELECT c.name, c.seen, c.reading, c.last FROM SCHEMA.outbox_consumers c WHERE c.server = $1::bigint
), placed AS MATERIALIZED (
    SELECT o.*, row_number() OVER (ORDER BY (
        SELECT count(*) FROM consumer c
        WHERE pg_visible_in_snapshot(o.transaction_id, c.seen) OR o.sequence <= c.last AND pg_visible_in_snapshot(o.transaction_id, c.reading)
    ) DESC, o.sequence) AS place
    FROM old o
), stored AS (
    INSERT INTO SCHEMA.outbox (sequence, id, transaction_id, at, kind, user_id, event_id, event_type, version, old_timezone, new_timezone)
    OVERRIDING SYSTEM VALUE
    SELECT $2::bigint + p.place, p.id, pg_current_xact_id(), p.at, p.kind, p.user_id, p.event_id, p.event_type, p.version, p.old_timezone, p.new_timezone
    FROM placed p
), moved AS (
    UPDATE SCHEMA.outbox_consumers c
    SET seen = $3::text::pg_snapshot, low = $2::bigint, reading = $4::text::pg_snapshot, next_low = $2::bigint, server = DEFAULT,
        last = CASE WHEN n.read > 0 THEN $2::bigint + n.read ELSE 0 END
    FROM (
        SELECT x.name, coalesce(min(p.place) FILTER (WHERE NOT pg_visible_in_snapshot(p.transaction_id, x.seen)
            AND NOT (p.sequence <= x.last AND pg_visible_in_snapshot(p.transaction_id, x.reading))) - 1, count(p.place)) AS read
        FROM consumer x
        LEFT JOIN placed p ON true
        GROUP BY x.name
    ) n
    WHERE c.name = n.name
)
SELECT count(*) FROM placed`
)
