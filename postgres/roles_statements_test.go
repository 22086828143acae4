package postgres_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// workOf has the roles that may run statements, besides the owner. Others are run by all that plan events.
var workOf = map[string]string{
	"worker operator": `CancelledOfBroadcast CountBroadcastUsers CountEnded CountRequeued DelayBroadcast EndBroadcast EndedOfBroadcast EndClaims KeepBroadcast LeaveBroadcasts
		LockCancelled LookAgain MoveBroadcast MoveBroadcastCancel MoveBroadcastZone RequeueEvents RestartBroadcast RestBroadcast SetBroadcastState TakeBroadcast
		Breaker Claim ClaimLanes Claimed CloseBreaker EndEmptyLeases EndLeases EndWaiting FoldDueChanges FreePlaces InsertEmptyLeases InsertLease KeepLeases Leases
		LockZoneRules MissingVisits MoveToLeases PauseFailing Prune PutBreaker PutCalendar PutQuarantine PutSetting PutZoneRules Release Renew ResetLane SettleEnded StatsEnded StatsFailed TakeExpiredLeases TakeLease TakeZoneMarks
		TryAlone VisitAgain`,
	"api operator":           "AddBroadcastStep AddBroadcastUsers CreateBroadcast HideUser InsertUsers UpdateUsers",
	"operator":               "DeleteBroadcast DeleteBroadcastUsers Pause PutLane RemoveLane Resume",
	"worker operator reader": "LaneBefore LaneLoads Lanes ListLeases Paused Until",
	"worker api operator reader": `BroadcastProgress NextBroadcastZone UserZones
		Calendars Consulted DueCounts Missed Quarantines Settings StatsBacklog StatsLatest StatsPending StatsProcessing StatsTypes StatsUsers StatsWave
		StatsZones StatsZonesSampled ZoneMarks ZoneRules`,
	"relay":                            "CreateConsumer DeleteConsumer MoveConsumer OutboxLow PruneOutbox ReadOutbox TakeConsumer",
	"relay reader":                     "Consumers OutboxSnapshot",
	"":                                 "PruneAudit",
	"worker api operator relay reader": "Catalog CatalogSession Incomplete LockLane Notify Now Offsets OffsetsSession StatsTables",
}

func TestEachStatementIsRunByTheRolesOfItsWork(t *testing.T) {
	t.Parallel()
	c := newCast(t)
	want := make(map[string]string)
	for roles, names := range workOf {
		for name := range strings.FieldsSeq(names) {
			want[name] = roles
		}
	}
	for name, statement := range c.store(t, "owner").Statements(everySpec) {
		if name == "ResetOutbox" {
			continue // a block has no plan
		}
		roles, listed := want[name]
		if !listed {
			roles = "worker api operator"
		}
		delete(want, name)
		for _, role := range []string{"owner", "worker", "api", "operator", "relay", "reader"} {
			err := try(t, c.pools[role], statement)
			if role == "owner" || slices.Contains(strings.Fields(roles), role) {
				require.NoError(t, err, "%s: %s", role, name)
			} else {
				requireRefused(t, err, role+": "+name)
			}
		}
	}
	require.Empty(t, want, "statements that are not there")
}

// try asks for the plan of a statement, for which PostgreSQL wants the same rights as for running it. A lock has no plan: it is taken,
// and released.
func try(t *testing.T, pool *pgxpool.Pool, statement string) error {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) }()
	sql, args, err := pgx.NamedArgs{}.RewriteQuery(t.Context(), tx.Conn(), statement, nil)
	require.NoError(t, err)
	if _, text, _ := strings.Cut(sql, "*/ "); !strings.HasPrefix(text, "LOCK ") {
		sql = "EXPLAIN " + sql
	}
	return tx.Conn().PgConn().ExecParams(t.Context(), sql, make([][]byte, len(args)), nil, nil, nil).Read().Err
}
