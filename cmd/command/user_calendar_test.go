package command

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgtest"
)

// Users of other calendars are imported, listed, shown and edited by them.
func TestUsersKeepTheCalendarOfTheirDatesOfBirth(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"p.csv": "id,firstName,lastName,dateOfBirth,calendar,timezone\n" + adaID + ",Ada,Levi,5774-05L-08,hebrew,Asia/Jerusalem\n" + graceID + ",Grace,Hopper,1906-12-09,,UTC\n",
		"p.jsonl": `{"id": "` + adaID + `", "firstName": "Ada", "lastName": "Levi", "dateOfBirth": "5774-05L-08", "calendar": "hebrew", "timezone": "Asia/Jerusalem"}` + "\n" +
			`{"id": "` + graceID + `", "firstName": "Grace", "lastName": "Hopper", "dateOfBirth": "1906-12-09", "timezone": "UTC"}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			r := almanacAt(t, today, "users", "import", fileOf(t, name, text), "--database-url", url)
			require.Equal(t, result{exitOK, "stored 2 users with 2 events; 0 users there already; 0 rows refused\n", ""}, r)
			u, err := storeAt(t, url).User(t.Context(), uuid.MustParse(adaID))
			require.NoError(t, err)
			require.Equal(t, "5774-05L-08 hebrew", u.DateOfBirth.String()+" "+u.DateOfBirth.Calendar())

			r = almanacAt(t, today, "users", "show", adaID, "--database-url", url)
			require.Contains(t, r.out, "5774-05L-08 hebrew\n")
			require.Contains(t, r.out, " Adar", "the day of the event by the calendar")
			r = almanacAt(t, today, "users", "preview", adaID, "BIRTHDAY", "--database-url", url)
			require.Contains(t, r.out, "CALENDAR DATE")
			var shown struct {
				DateOfBirth, Calendar string
				Open                  []struct{ Calendar, CalendarDate string }
			}
			r = almanacAt(t, today, "users", "show", adaID, "--json", "--database-url", url)
			require.NoError(t, json.Unmarshal([]byte(r.out), &shown))
			require.Equal(t, []string{"5774-05L-08", "hebrew", "hebrew"}, []string{shown.DateOfBirth, shown.Calendar, shown.Open[0].Calendar})
			require.Regexp(t, "^57[0-9]{2}-0[56]L?-08$", shown.Open[0].CalendarDate)

			r = almanacAt(t, today, "users", "edit", adaID, "--calendar", "hebrew", "--first-name", "Adah", "--database-url", url)
			require.Equal(t, exitOK, r.code, r.errs)
			r = almanacAt(t, today, "users", "edit", adaID, "--date-of-birth", "1990-03-15", "--database-url", url)
			require.Equal(t, exitUsage, r.code)
			require.Contains(t, r.errs, "--calendar: is required: the stored date is by the calendar hebrew")
			r = almanacAt(t, today, "users", "edit", graceID, "--calendar", "hebrew", "--database-url", url)
			require.Equal(t, exitUsage, r.code)
			require.Contains(t, r.errs, "--date-of-birth: is required with another calendar")

			r = almanacAt(t, today, "users", "edit", adaID, "--calendar", "chinese", "--date-of-birth", "1987-06L-10", "--database-url", url)
			require.Equal(t, exitOK, r.code, r.errs)
			u, err = storeAt(t, url).User(t.Context(), uuid.MustParse(adaID))
			require.NoError(t, err)
			require.Equal(t, "1987-06L-10 chinese", u.DateOfBirth.String()+" "+u.DateOfBirth.Calendar())
			r = almanacAt(t, today, "users", "edit", adaID, "--calendar", "julian", "--date-of-birth", "1987-06-10", "--database-url", url)
			require.Equal(t, exitUsage, r.code)
			require.Contains(t, r.errs, "--calendar: is no calendar that this program knows")
		})
	}
}

// An export has the births as they were given, so an import elsewhere stores the same.
func TestAnExportOfUsersHasTheirCalendars(t *testing.T) {
	t.Parallel()
	births := map[string][2]string{adaID: {"5774-05L-08", "hebrew"}, graceID: {"1906-12-09", ""}}
	text := "id,firstName,lastName,dateOfBirth,calendar,timezone\n"
	for id, born := range births {
		text += id + ",Ada,Levi," + born[0] + "," + born[1] + ",Asia/Jerusalem\n"
	}
	from, to := pgtest.URL(t), pgtest.URL(t)
	r := almanacAt(t, today, "users", "import", fileOf(t, "p.csv", text), "--database-url", from)
	require.Equal(t, exitOK, r.code, r.errs)
	r = almanacAt(t, today, "users", "list", "--csv", "--database-url", from)
	require.Equal(t, exitOK, r.code, r.errs)
	r = almanacAt(t, today, "users", "import", fileOf(t, "export.csv", r.out), "--database-url", to)
	require.Equal(t, exitOK, r.code, r.errs)
	for id, born := range births {
		u, err := storeAt(t, to).User(t.Context(), uuid.MustParse(id))
		require.NoError(t, err)
		require.Equal(t, born, [2]string{u.DateOfBirth.String(), u.DateOfBirth.Calendar()})
	}
}
