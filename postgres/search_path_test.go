package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
)

// everySpec has each kind of specification.
var everySpec = almanac.And{
	almanac.OfType("BIRTHDAY"), almanac.ForUser{}, almanac.InStatus(almanac.Failed), almanac.InZone{"UTC"}, almanac.ForReason("busy"),
	almanac.DueBetween{From: time.Now(), Until: time.Now()}, almanac.Overdue{By: time.Hour}, almanac.Ready{},
	almanac.Or{almanac.Not{Spec: almanac.OfType("HEARTBEAT")}, almanac.DueBetween{Until: time.Now()}},
}

// No statement uses an operator or a function of another role, while pg_catalog comes first
// in the search_path.
func TestStatementsUseOperatorsAndFunctionsOfPgCatalog(t *testing.T) {
	t.Parallel()
	d := newTrapped(t)
	store := d.store(t, true)
	parser := pgtest.NewParser(t, d.url)
	for name, statement := range store.Statements(everySpec) {
		created, err := parser.CreatedIn(t.Context(), statement)
		if assert.NoError(t, err, "%s", name) {
			assert.Empty(t, created, "%s: ids of operators and functions", name)
		}
	}
	created, err := parser.CreatedIn(t.Context(), "SELECT e.event_type FROM almanac1.series e WHERE e.event_type = 'X'::varchar")
	require.NoError(t, err)
	require.NotEmpty(t, created, "varchar and text do not match")
}
