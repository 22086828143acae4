package postgres

import (
	"math/bits"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Whichever rows fail, a call stores each of the others, or fails and sets nothing aside. It fails only when failAll rows
// failed in doubt. While one row is good, a later call stores it.
func TestInHalvesStoresEachRowThatIsNotRefused(t *testing.T) {
	t.Parallel()
	codes := []string{"", "", "P0001", "42501", "XX001", queryCanceled}
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOfN(rapid.SampledFrom(codes), 1, 100).Draw(t, "rows")
		if n := rapid.IntRange(0, len(rows)).Draw(t, "refused neighbours"); n > 0 {
			code := rapid.SampledFrom(codes).Draw(t, "code")
			for i := range n {
				rows[i] = code
			}
		}
		good, doubts, slow := 0, 0, false
		for _, code := range rows {
			switch code {
			case "":
				good++
			case "P0001":
			default:
				doubts, slow = doubts+1, slow || code == queryCanceled
			}
		}
		r := runInHalves(t, rows)
		bad := len(rows) - good
		require.LessOrEqual(t, r.calls, 2+bad+2*(bad+1)*(bits.Len(uint(len(rows)))+1))
		for n := 0; r.err != nil && good > 0; n++ {
			require.Less(t, n, 3000, "no call succeeds")
			r = runInHalves(t, rows)
		}
		switch {
		case r.err == nil:
			require.Equal(t, [2]int{good, bad}, [2]int{r.stored, r.aside})
		default:
			require.GreaterOrEqual(t, doubts, failAll)
		}
	})
}

// A tenth of the rows are refused, and come first. The others are stored. If all rows are refused, few calls are made.
func TestInHalvesTriesRowsFromAllOverThePage(t *testing.T) {
	t.Parallel()
	rows := make([]string, 1000)
	for i := range 100 {
		rows[i] = "42501"
	}
	failed := 0
	for range 100 {
		if r := runInHalves(t, rows); r.err != nil {
			failed++
		}
	}
	require.Zero(t, failed)

	for code, tried := range map[string]int{"42501": mostTried, queryCanceled: failAll} {
		for i := range rows {
			rows[i] = code
		}
		r := runInHalves(t, rows)
		require.ErrorContains(t, r.err, code)
		require.Equal(t, 1+tried, r.calls)
	}
}

// halved is the result of inHalves.
type halved struct {
	calls, stored, aside int
	err                  error
}

// runInHalves runs inHalves for rows that fail with codes, or do not fail.
func runInHalves(t require.TestingT, rows []string) (r halved) {
	done := make(map[int]bool)
	once := func(i int) {
		require.False(t, done[i], "row %d", i)
		done[i] = true
	}
	r.err = inHalves(indexesOf(rows), func(part []int) error {
		r.calls++
		for _, i := range part {
			if rows[i] != "" {
				return &failure{"store", &pgconn.PgError{Code: rows[i]}}
			}
		}
		for _, i := range part {
			once(i)
		}
		r.stored += len(part)
		return nil
	}, func(i int, cause error) error {
		require.ErrorContains(t, cause, rows[i])
		once(i)
		r.aside++
		return nil
	})
	if r.err != nil {
		require.Zero(t, r.stored+r.aside)
	}
	return r
}
