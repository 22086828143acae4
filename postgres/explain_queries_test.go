package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// served is a query, and what serves it.
type served struct {
	ask     func(context.Context, *postgres.Store) error
	blocks  int      // of 8 KiB, touched at most; the tables have some 40,000
	indexes []string // that are read, others besides
	removed int      // rows that are read for nothing at most; 0 means 100
}

// servedQueries are what programs ask of a large database: first the examples of the
// design papers that the library follows, and then the library's own.
func servedQueries() map[string]served {
	types := []string{almanac.TypeBirthday, almanac.TypeAnniversary}
	someone := uuid.MustParse("c4ca4238-a0b9-2382-0dcc-509a6f75849b") // md5('1')
	day := func(years int) almanac.DueBetween {
		until := time.Now().AddDate(-years, 0, 0)
		return almanac.DueBetween{From: until.Add(-24 * time.Hour), Until: until}
	}
	month := almanac.DueBetween{From: time.Now().AddDate(-3, 0, -30), Until: time.Now().AddDate(-3, 0, 0)}
	find := func(spec almanac.Spec) func(context.Context, *postgres.Store) error {
		return func(ctx context.Context, s *postgres.Store) error {
			_, err := s.Find(ctx, spec, almanac.Page{})
			return err
		}
	}
	list := func(order almanac.Order, spec almanac.Spec) func(context.Context, *postgres.Store) error {
		return func(ctx context.Context, s *postgres.Store) error {
			_, err := s.Find(ctx, spec, almanac.Page{Order: order})
			return err
		}
	}
	people := func(filter almanac.UserFilter, after almanac.Cursor) func(context.Context, *postgres.Store) error {
		return func(ctx context.Context, s *postgres.Store) error {
			_, err := s.FindUsers(ctx, filter, almanac.Page{After: after})
			return err
		}
	}
	somewhere := almanac.Cursor(someone.String())
	count := func(spec almanac.Spec) func(context.Context, *postgres.Store) error {
		return func(ctx context.Context, s *postgres.Store) error {
			_, err := s.Count(ctx, spec)
			return err
		}
	}
	return map[string]served{
		"ready to claim, 100 of one type": {claimReady(almanac.TypeBirthday), 1000, []string{"queue_due"}, 0},
		// Of each of several types, up to 300 entries are read, to merge them.
		"ready to claim, 100 of two types": {claimReady(types...), 1500, []string{"queue_due"}, 0},
		"ready, of a type":                 {find(almanac.And{almanac.Ready{}, almanac.OfType("BIRTHDAY")}), 3000, []string{"queue_due"}, 0},
		"overdue by 24 hours, none":        {find(almanac.Overdue{By: 24 * time.Hour}), 50, []string{"queue_due", "queue_delayed"}, 0},
		"overdue by 16 hours":              {find(almanac.Overdue{By: 16 * time.Hour}), 400, []string{"queue_due", "queue_delayed"}, 0},
		"ready birthdays or overdue anniversaries": {find(almanac.Or{
			almanac.And{almanac.Ready{}, almanac.OfType("BIRTHDAY")},
			almanac.And{almanac.Overdue{By: time.Hour}, almanac.OfType("ANNIVERSARY")},
		}), 1000, []string{"queue_due", "queue_delayed"}, 0},
		"overdue anniversaries": {find(almanac.And{almanac.Overdue{By: time.Hour}, almanac.OfType("ANNIVERSARY")}), 3000, []string{"queue_due"}, 0},
		"missed, counted": {func(ctx context.Context, s *postgres.Store) error {
			_, err := s.Missed(ctx, types, time.Second)
			return err
		}, 10_000, []string{"queue_due"}, 0},
		"missed, the oldest thousand": {func(ctx context.Context, s *postgres.Store) error {
			_, err := s.FindMissed(ctx, types, time.Second, 1000)
			return err
		}, 10_000, []string{"queue_due"}, 0},
		"by user":               {find(almanac.ForUser(someone)), 50, []string{"history_user", "series_open", "queue_pkey"}, 0},
		"pending, of one user":  {find(almanac.And{almanac.InStatus(almanac.Pending), almanac.ForUser(someone)}), 50, []string{"series_open", "queue_pkey"}, 0},
		"pending":               {find(almanac.InStatus(almanac.Pending)), 300, []string{"queue_pkey"}, 0},
		"processing":            {find(almanac.InStatus(almanac.Processing)), 1000, nil, 0},
		"completed":             {find(almanac.InStatus(almanac.Completed)), 300, []string{"history_pkey"}, 0},
		"failed":                {find(almanac.InStatus(almanac.Failed)), 300, []string{"history_failed"}, 0},
		"due on a day, ended":   {find(day(1)), 2000, []string{"history_due", "queue_due", "queue_delayed"}, 0},
		"due on a day, pending": {find(day(0)), 1000, []string{"history_due", "queue_due", "queue_delayed"}, 0},
		"due on a day, none":    {find(day(20)), 150, []string{"history_due", "queue_due", "queue_delayed"}, 0},
		"due in a month of the past, newest first": {list(almanac.NewestFirst, month), 5000, []string{"history_due", "queue_due", "queue_delayed"}, 0},
		"due on a day, counted":                    {count(day(1)), 2000, []string{"history_due", "queue_due", "queue_delayed"}, 0},
		"overdue, counted":                         {count(almanac.Overdue{By: 16 * time.Hour}), 400, []string{"queue_due", "queue_delayed"}, 0},
		"of a type that is not there":              {find(almanac.OfType("DIGEST")), 50, []string{"history_due", "queue_due"}, 0},
		"of a rare type":                           {find(almanac.OfType("ANNIVERSARY")), 1000, []string{"history_due", "queue_due"}, 0},
		"failed, of one type":                      {find(almanac.And{almanac.InStatus(almanac.Failed), almanac.OfType("BIRTHDAY")}), 300, []string{"history_failed"}, 0},
		"pending, in a zone":                       {find(almanac.And{almanac.InStatus(almanac.Pending), almanac.InZone{"UTC"}}), 300, []string{"queue_pkey"}, 0},
		"all, from the beginning":                  {find(almanac.And{}), 300, []string{"history_pkey", "queue_pkey"}, 0},
		"next due": {func(ctx context.Context, s *postgres.Store) error {
			_, _, err := s.Until(ctx, types, time.Time{})
			return err
		}, 50, []string{"queue_due"}, 0},
		"a page to prune": {func(ctx context.Context, s *postgres.Store) error {
			_, _, err := s.Prune(ctx, time.Now(), almanac.Page{Limit: 1000})
			return err
		}, 60_000, []string{"history_pkey"}, 2000},
		"a user by external id": {func(ctx context.Context, s *postgres.Store) error {
			_, err := s.UserByExternalID(ctx, "99999")
			return err
		}, 10, []string{"users_external_id"}, 0},
		"newest first":                     {list(almanac.NewestFirst, nil), 300, []string{"history_pkey", "queue_pkey"}, 0},
		"newest first, of a user":          {list(almanac.NewestFirst, almanac.ForUser(someone)), 50, []string{"history_user", "series_open", "queue_pkey"}, 0},
		"newest first, failed":             {list(almanac.NewestFirst, almanac.InStatus(almanac.Failed)), 300, []string{"history_failed"}, 0},
		"newest first, for a reason":       {list(almanac.NewestFirst, almanac.ForReason("HTTP 4")), 300, []string{"history_failed"}, 0},
		"newest first, of a rare type":     {list(almanac.NewestFirst, almanac.OfType("ANNIVERSARY")), 1000, []string{"history_due", "queue_due"}, 0},
		"next first":                       {list(almanac.NextFirst, nil), 1000, []string{"queue_due"}, 0},
		"next first, of a type":            {list(almanac.NextFirst, almanac.OfType("BIRTHDAY")), 1000, []string{"queue_due"}, 0},
		"next first, of a user":            {list(almanac.NextFirst, almanac.ForUser(someone)), 50, []string{"series_open", "queue_pkey"}, 0},
		"next first, in a zone":            {list(almanac.NextFirst, almanac.InZone{"UTC"}), 1000, []string{"queue_due"}, 0},
		"next first, due today":            {list(almanac.NextFirst, day(0)), 1500, []string{"queue_due", "queue_delayed"}, 0},
		"users":                            {people(almanac.UserFilter{}, ""), 100, []string{"users_pkey"}, 0},
		"users, a later page":              {people(almanac.UserFilter{}, somewhere), 100, []string{"users_pkey"}, 0},
		"users by first name":              {people(almanac.UserFilter{Name: "ad"}, ""), 150, []string{"users_full_name"}, 0},
		"users by full name":               {people(almanac.UserFilter{Name: "ada love"}, ""), 150, []string{"users_full_name"}, 0},
		"users by full name, a later page": {people(almanac.UserFilter{Name: "ada love"}, somewhere+"/Ada/Lovelace"), 150, []string{"users_full_name"}, 0},
		"users by last name":               {people(almanac.UserFilter{Name: "LOVE"}, ""), 150, []string{"users_last_name"}, 0},
		"users by last name, a later page": {people(almanac.UserFilter{Name: "LOVE"}, somewhere+"/Ada/Lovelace"), 150, []string{"users_last_name"}, 0},
		"users by a name that no user has": {people(almanac.UserFilter{Name: "x"}, ""), 10, []string{"users_full_name", "users_last_name"}, 0},
		"users by e-mail address":          {people(almanac.UserFilter{Email: "u99100@example.com"}, ""), 20, []string{"users_email"}, 0},
		"users by external id":             {people(almanac.UserFilter{ExternalID: "99999"}, ""), 20, []string{"users_external_id"}, 0},
		"users with a guessed zone":        {people(almanac.UserFilter{ZoneSource: almanac.ZoneGuessed}, ""), 100, []string{"users_zone_source"}, 0},
		"users with the default zone":      {people(almanac.UserFilter{ZoneSource: almanac.ZoneDefault}, somewhere), 200, []string{"users_zone_source"}, 0},
		"users with a declared zone":       {people(almanac.UserFilter{ZoneSource: almanac.ZoneDeclared}, ""), 200, []string{"users_pkey"}, 0},
		"a page of failures, requeued":     {requeued, 6000, []string{"series_name_key"}, 0},
		"other instants":                   {moving, 60_000, []string{"queue_pkey"}, 0},
	}
}

func claimReady(types ...string) func(context.Context, *postgres.Store) error {
	return func(ctx context.Context, s *postgres.Store) error {
		_, err := s.Claim(ctx, almanac.ClaimRequest{Token: uuid.New(), Types: types, Limit: 100, Lease: time.Minute})
		return err
	}
}

// requeued asks which events of a page of failures were requeued.
func requeued(ctx context.Context, s *postgres.Store) error {
	found, err := s.Find(ctx, almanac.InStatus(almanac.Failed), almanac.Page{Limit: 1000})
	if err != nil {
		return err
	}
	_, err = s.Requeued(ctx, found.Items)
	return err
}

func moving(ctx context.Context, s *postgres.Store) error {
	found, err := s.Find(ctx, almanac.InStatus(almanac.Pending), almanac.Page{Limit: 1000})
	if err != nil {
		return err
	}
	for i := range found.Items {
		found.Items[i].Version++
	}
	_, err = s.MoveEvents(ctx, found.Items)
	return err
}

// The server would keep a plan for any values of a statement that it is asked often, and
// for a range of time that plan reads everything.
func TestFindIsPlannedForItsValues(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) }()
	store, err := postgres.New(tx)
	require.NoError(t, err)
	for range 10 {
		_, err = store.Find(t.Context(), almanac.Overdue{By: time.Hour}, almanac.Page{})
		require.NoError(t, err)
		_, err = store.Count(t.Context(), almanac.Overdue{By: time.Hour})
		require.NoError(t, err)
	}

	var kept int
	require.NoError(t, tx.QueryRow(t.Context(), "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%ended_events e%' AND statement NOT LIKE '%pg_prepared%'").Scan(&kept))
	require.Zero(t, kept)
}

// A host that speaks another protocol, for the sake of a pooler, goes on doing so.
func TestFindKeepsTheModeOfTheHost(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec, pgx.QueryExecModeCacheStatement} {
		// Directly, because a PgBouncer of old carries no prepared statement along.
		config, err := pgxpool.ParseConfig(pgtest.Direct(t, pgtest.URL(t)))
		require.NoError(t, err)
		config.ConnConfig.DefaultQueryExecMode, config.ConnConfig.DescriptionCacheCapacity = mode, 0
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		store, err := postgres.New(pool)
		require.NoError(t, err)
		stored := overdue(t, store)

		found, err := store.Find(t.Context(), almanac.Overdue{By: time.Second}, almanac.Page{})

		require.NoError(t, err, "%v", mode)
		require.Len(t, found.Items, 1)
		require.Equal(t, stored.ID, found.Items[0].ID)
	}
}
