//go:build long

package postgres_test

import (
	"testing"

	"github.com/almanac-go/almanac/internal/pgtest"
)

// The error of one row is about that row, whatever its code: a trigger of the host may use any, and a limit of an index is
// 54000. All other rows are stored.
func TestOneRefusedRowDelaysNoOtherRow(t *testing.T) {
	t.Parallel()
	for name, c := range manyRowsCalls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Pool(t)
			for _, code := range []string{"P0001", "22P02", "23503", "54000", "P0002", "AB001", "42501", "XX001", atCommit + "23503"} {
				c.checkOthersAreDone(t, pool, code, 10, 1)
			}
		})
	}
}

// The first rows of the call are refused. They are beside each other, so halves of the call keep failing.
func TestRefusedNeighboursDelayNoOtherRow(t *testing.T) {
	t.Parallel()
	for name, c := range manyRowsCalls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Pool(t)
			for _, code := range []string{"P0001", "42501", "XX001"} {
				c.checkOthersAreDone(t, pool, code, 13, 3)
				c.checkOthersAreDone(t, pool, code, 50, 10)
			}
		})
	}
}
