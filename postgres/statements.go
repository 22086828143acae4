package postgres

import (
	"embed"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
)

// statements has a field for each file under queries. The field SettleEnded is the
// statement in settle_ended.sql. See docs/adr/0068-sql.md.
type statements struct {
	AddBroadcastStep, AddBroadcastUsers, AddBroadcastZones, Audit,
	Breaker, BroadcastPage, BroadcastProgress, Broadcasts, BroadcastsAbout,
	Calendars, CancelEvents, CancelledOfBroadcast, Catalog, CatalogSession, Claim, ClaimLanes, Claimed, CloseBreaker, Confirm, Consulted, Consumers, Count, CountBroadcast, CountBroadcastUsers, CompleteBroadcast, CountEnded, CountRequeued, CreateBroadcast, CreateConsumer,
	DelayBroadcast, DeleteBroadcast, DeleteBroadcastUsers, DeleteConsumer, DeleteUser, DueCounts,
	EndBroadcast, EndedOfBroadcast, EndClaims, EndEmptyLeases, EndLeases, EndWaiting, Events,
	Find, FindConsulted, FindMissed, FindNext, FindNextOfUsers, FindUsers, FindUsersByName, FoldDueChanges, FreePlaces,
	HiddenUsers, HideUser, HoldKeys,
	InFlight, Incomplete, InsertEmptyLeases, InsertEvents, InsertFirstEvents, InsertLease, InsertUsers,
	KeepBroadcast, KeepLeases,
	LaneBefore, LaneLoads, Lanes, Leases, LeaveBroadcasts, ListLeases, LockBroadcast, LockCancelled, LockEvent, LockFree, LockHeld, LockLane, LockPending, LockPendingOfBroadcast, LockQueue, LockRosterEvents, LockRosterSeries,
	LockRosters, LockSeries, LockUser,
	LockUserForDeletion, LockUsers, LockWanted, LockZoneRules, LookAgain, LostEvents,
	MarkZones, Missed, MissingVisits, MoveBroadcast, MoveBroadcastCancel, MoveBroadcastZone, MoveConsumer, MoveEvents, MoveToLeases,
	NewEvents, NextBroadcastZone, Notify, Now,
	Offsets, OffsetsSession, OpenBroadcast, OpenEvents, OutboxLow, OutboxSnapshot,
	PageUsers, Pause, PauseFailing, Paused, PendingOfBroadcast, Prune, PruneAudit, PruneOutbox, PrunedInstants, PutBreaker, PutCalendar, PutLane, PutQuarantine, PutSetting, PutZoneRules,
	Quarantines,
	ReadOutbox, Release, ReleaseAhead, Released, RemoveEvents, RemoveHiddenUser, RemoveLane, Renew, RequeueEvents,
	ResetLane, ResetOutbox, RestartBroadcast, RestBroadcast, RestoreSeries, Resume, RetriesEvents, RetriesSeries, RosterKeys, RunNow,
	SeriesKeys, SetBroadcastState, SettleEnded, SettleReleased, SettleUsers, Settings, Stall, Stalled, Standings, StatsBacklog,
	StatsEnded, StatsFailed, StatsLatest, StatsPending, StatsProcessing, StatsTables, StatsTypes, StatsUsers,
	StatsWave, StatsZones, StatsZonesSampled, StoredUsers,
	TakeBroadcast, TakeConsumer, TakeExpiredLeases, TakeLease, TakePending, TakeZoneMarks, TakenKeys, TakenUsers, TryAlone,
	Until, UpdateUsers, UsedKeys, User, UserByExternalID, UserZones, UsersByIds,
	VisitAgain,
	Waiting, WaitingSeries, WaitingUsers,
	ZoneMarks, ZoneRules string
}

//go:embed queries/*.sql parts/*.sql
var queries embed.FS

// leaseHolds is the condition that lease l still holds an event. OFFSET 0 makes the planner look up
// the series one by one, by their ids, until a held event is found.
const leaseHolds = `EXISTS (
	SELECT
	FROM unnest(l.series_ids, l.event_ids, l.versions) AS held (series_id, event_id, version)
	CROSS JOIN LATERAL (
		SELECT
		FROM :"schema".series s
		WHERE s.id = held.series_id
			AND s.event_id = held.event_id
			AND s.version = held.version
		OFFSET 0
	) s
)`

// paused is the condition that lane l is paused, and limited that it has limits.
const (
	paused  = `(l.paused_since IS NOT NULL AND coalesce(l.paused_until > now(), true))`
	limited = `(l.rate IS NOT NULL OR l.places IS NOT NULL OR l.daily IS NOT NULL)`
	// Clocks may be set back: the day may be tomorrow. Two days have counts of their own.
	today    = `pg_catalog.timezone('UTC'::text, clock.read)::date`
	tomorrow = `pg_catalog.timezone('UTC'::text, pg_catalog.date_trunc('day'::text, pg_catalog.timezone('UTC'::text, clock.read)) + interval '1 day')`
	ofToday  = `CASE s.day WHEN ` + today + ` THEN s.of_day WHEN ` + today + ` + 1 THEN s.of_eve ELSE 0 END`
)

// since is where a search for the events of lane l begins, which may have no row: at the mark, or from the beginning
// if events may have waited for the end of a pause since. A claim may take seconds, in which its mark can pass the end.
const since = `CASE WHEN @mark::timestamptz <= now() AND coalesce(l.paused_until + interval '10 seconds' < @mark::timestamptz, true)
	THEN @mark::timestamptz ELSE '-infinity' END`

// elsewhere is the condition that the position of consumer c is of another server, whose
// transaction ids mean nothing on this one. Physical copies of a server share its identifier.
const elsewhere = `c.server <> (SELECT s.system_identifier FROM pg_control_system() s)`

// consumed is the condition that consumer c has read row o of the outbox.
const consumed = `(NOT ` + elsewhere + `
	AND (pg_visible_in_snapshot(o.transaction_id, c.seen)
		OR (o.sequence <= c.last AND pg_visible_in_snapshot(o.transaction_id, c.reading))))`

// quarterOf is the quarter hour of the instant of row s, counted from 1970.
const quarterOf = `floor(pg_catalog.date_part('epoch'::text, s.target_timestamp_utc) / 900::float8)::integer`

// usedKeys has the used keys of row s of the series, by unit: {"day": [key, nominal, local]}. It is NULL
// if there are none.
const usedKeys = `CASE WHEN s.used_key <> '' THEN coalesce(s.used_others, '{}'::jsonb) || pg_catalog.jsonb_build_object(
	s.used_unit, pg_catalog.jsonb_build_array(s.used_key, s.used_nominal, s.used_local)) END`

// usedText is usedKeys as a text; [parseUsed] is the inverse.
const usedText = `(` + usedKeys + `)::text`

// usedOthers is the value of used_others when the event of row s of the series ends. It is built anew only
// if the unit of the used key changes.
const usedOthers = `CASE WHEN s.used_unit = s.key_unit THEN s.used_others ELSE (` + usedKeys + `) - s.key_unit END`

// load returns the statements for a schema.
func load(schema string) (statements, error) {
	filled, err := templates()
	if err != nil {
		return statements{}, fmt.Errorf("postgres: load statements: %w", err)
	}
	each(&filled, func(_, text string) string { return strings.ReplaceAll(text, `:"schema"`, quoted(schema)) })
	return filled, nil
}

// templates returns the statements with all placeholders filled in, except the schema and the specifications.
// It reads the files once, because hosts open a store for each of their transactions.
var templates = sync.OnceValues(func() (t statements, err error) {
	stored, err := queries.ReadFile("parts/as_stored.sql")
	fill := strings.NewReplacer(
		":event", list(new(eventRow).cells(ofView), cell.column),
		":queued_event", list(new(eventRow).cells(ofPending), cell.column),
		":claimed", list(new(eventRow).cells(ofClaimed), cell.column),
		":user", list(new(userRow).cells(), cell.column),
		":new_columns", list(newEvent, newColumn.column),
		":new_arrays", list(newEvent, newColumn.argument),
		":renewed", list(renewed(), newColumn.column), ":excluded.renewed", list(renewed(), newColumn.excluded),
		":used_others", usedOthers, ":used", usedText,
		":kept", kept, ":was.kept", "was."+strings.ReplaceAll(kept, ", ", ", was."),
		":quarter_of_s", quarterOf,
		":holds", leaseHolds, ":queued_types", typesOf(`:"schema".queue`), ":stalled_types", typesOf(`:"schema".unplanned`), ":lanes_of_t", lanesOf,
		":paused", paused, ":limited", limited, ":tomorrow", tomorrow, ":of_today_s", ofToday, ":since", since, ":consumed", consumed, ":elsewhere", elsewhere,
	)
	each(&t, func(field, _ string) string {
		text, failed := queries.ReadFile(fileOf(field))
		if failed != nil {
			err = failed
		}
		whole := strings.ReplaceAll(named(field, string(text)), ":as_stored", withoutHead(string(stored)))
		return fill.Replace(whole)
	})
	return t, err
})

// list returns the texts of items as an SQL list.
func list[T any](items []T, text func(T) string) string {
	return strings.Join(column(items, text), ", ")
}

// each replaces each statement by the result of set for its field and its text.
func each(s *statements, set func(field, text string) string) {
	fields := reflect.ValueOf(s).Elem()
	for i := range fields.NumField() {
		fields.Field(i).SetString(set(fields.Type().Field(i).Name, fields.Field(i).String()))
	}
}

var wordStart = regexp.MustCompile(`(.)([A-Z])`)

// nameOf returns the name of a field's statement: settle_ended.
func nameOf(field string) string {
	return strings.ToLower(wordStart.ReplaceAllString(field, "${1}_$2"))
}

// fileOf returns the path of a field's file.
func fileOf(field string) string { return "queries/" + nameOf(field) + ".sql" }

// named returns the text of a field's file as it is sent to the server. The name of the file takes the place
// of the comment at its beginning, so that pg_stat_activity and pg_stat_statements tell the statements apart.
func named(field, text string) string {
	return "/* almanac " + nameOf(field) + " */ " + withoutHead(text)
}

// withoutHead returns the text of a file without the comment at its beginning.
func withoutHead(text string) string {
	for strings.HasPrefix(text, "--") {
		_, text, _ = strings.Cut(text, "\n")
	}
	return strings.TrimSpace(text)
}

func quoted(schema string) string { return pgx.Identifier{schema}.Sanitize() }
