package dashboard

import (
	"encoding/csv"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// rowsOf reads an export.
func rowsOf(t *testing.T, body string) [][]string {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(body)).ReadAll()
	require.NoError(t, err)
	require.Equal(t, exportColumns, rows[0])
	return rows[1:]
}

func TestAnExportHasTheFilteredEvents(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	u := almanactest.User(almanactest.Named("Grace", "Hopper"), almanactest.LivingIn("Asia/Tokyo"))
	other := almanactest.Event(time.Now(), almanactest.OfUser(u.ID))
	e := almanactest.Event(time.Now(), almanactest.For(u), almanactest.FailedBecause("no mailbox of Grace"))
	h.store(t, u, e, other)

	r := httptest.NewRequest(http.MethodGet, "http://localhost/events.csv?zone=Asia/Tokyo", nil)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "text/csv; charset=utf-8", w.Header().Get("Content-Type"))
	require.Contains(t, w.Header().Get("Content-Disposition"), "attachment")
	rows := rowsOf(t, w.Body.String())
	require.Len(t, rows, 1)
	require.Equal(t, e.ID.String(), rows[0][0])
	require.Equal(t, e.Due.Format(time.RFC3339), rows[0][7])
	require.Equal(t, e.Wall.String(), rows[0][8])
	for _, private := range []string{"Grace", "Hopper", "message", "Hey"} {
		require.NotContains(t, w.Body.String(), private)
	}
	_, body := h.get(t, "/events.csv")
	require.Len(t, rowsOf(t, body), 2)
}

func TestCellsOfAnExportAreNoFormulas(t *testing.T) {
	t.Parallel()
	h := newHost(t, everything())
	u := almanactest.User()
	var events []almanac.Event
	for _, begins := range []string{"=", "+", "-", "@", "\t", "\r"} {
		events = append(events, almanactest.Event(time.Now(), almanactest.For(u), almanactest.FailedBecause(begins+"cmd|' /C calc'!A0")))
	}
	h.store(t, u, events...)
	_, body := h.get(t, "/events.csv?status=FAILED&order=oldest")
	rows := rowsOf(t, body)
	require.Len(t, rows, len(events))
	for _, row := range rows {
		require.Regexp(t, `^'`, row[15])
		for _, cell := range row {
			require.NotRegexp(t, `^[=+\-@\t\r]`, cell)
		}
	}
}

func TestAnExportSaysThatItWasCut(t *testing.T) {
	t.Parallel()
	repository, calls := almanactest.NewRepository(time.Now), 0
	h := newHostOf(t, repository, endless{repository, &calls})
	_, body := h.get(t, "/events.csv")
	rows := rowsOf(t, body)
	require.Len(t, rows, exportMost+1)
	require.Equal(t, "The export ends here: it looks at 100,000 events at most. Narrow the filter.", rows[exportMost][0])
	require.Equal(t, exportMost/lookedAtOnce, calls)
}

// An export may take longer than a page, also when permissions use the context of the request.
func TestAnExportGivesPermissionsItsOwnTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, WithPermissions(func(r *http.Request, a Action, user uuid.UUID) (bool, error) {
			if a == SeePayloads && user != uuid.Nil {
				time.Sleep(time.Second) // a look-up in a directory
			}
			return true, r.Context().Err()
		}))
		for _, e := range h.createUsers(t, 20) {
			h.failEvent(t, e, "gone")
		}
		_, body := h.get(t, "/events.csv?status=FAILED")
		require.Len(t, rowsOf(t, body), 20)
	})
}

func TestAnExportOfADatabaseThatStopsSaysSo(t *testing.T) {
	t.Parallel()
	repository, calls := almanactest.NewRepository(time.Now), 0
	h := newHostOf(t, repository, &blocked{Reader: endless{repository, &calls}, n: 2})
	_, body := h.get(t, "/events.csv")
	rows := rowsOf(t, body)
	require.Len(t, rows, 2*lookedAtOnce+1)
	require.Equal(t, "The export ends here, because the database did not answer.", rows[len(rows)-1][0])

	h = newHostOf(t, repository, &blocked{Reader: repository})
	status, _ := h.get(t, "/events.csv")
	require.Equal(t, http.StatusGatewayTimeout, status)
}
