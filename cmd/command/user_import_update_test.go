package command

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgtest"
)

// updating runs an import that updates.
func updating(t *testing.T, url, name, text string, more ...string) (string, result) {
	t.Helper()
	file := fileOf(t, name, text)
	return file, almanacAt(t, today, append([]string{"users", "import", file, "--update", "--database-url", url}, more...)...)
}

func TestAnImportUpdatesUsersAsFarAsTheyDiffer(t *testing.T) {
	t.Parallel()
	const first = "externalId,firstName,lastName,dateOfBirth,timezone,email\n" +
		"1,Ada,Lovelace,1990-12-10,Europe/London,ada@example.com\n" +
		"2,Grace,Hopper,1906-12-09,UTC,\n" +
		"3,Mary,Somerville,1980-12-26,UTC,\n"
	url := pgtest.URL(t)
	_, r := updating(t, url, "p.csv", first)
	require.Equal(t, result{exitOK, "created 3 users and changed 0 users; 0 unchanged; 3 events added, 0 moved, 0 removed; 0 rows refused\n", ""}, r)
	_, r = updating(t, url, "p.csv", first)
	require.Equal(t, result{exitOK, "created 0 users and changed 0 users; 3 unchanged; 0 events added, 0 moved, 0 removed; 0 rows refused\n", ""}, r)
	require.Equal(t, 3, ask(t, url, "SELECT sum(version) FROM almanac.users"))

	const second = "externalId,timezone,email,firstName,lastName,dateOfBirth\n" +
		"1,Asia/Tokyo,,,,\n" + // an empty cell states nothing
		"2,UTC,grace@example.com,,,\n" +
		"3,UTC,,Mary,,\n" +
		"4,UTC,,Emmy,Noether,1982-03-23\n"
	_, r = updating(t, url, "p.csv", second, "--dry-run")
	require.Equal(t, result{exitOK, "would create 1 user and change 2 users; 1 unchanged; 0 rows refused\n", ""}, r)
	require.Equal(t, 3, ask(t, url, "SELECT sum(version) FROM almanac.users"))
	_, r = updating(t, url, "p.csv", second)
	require.Equal(t, result{exitOK, "created 1 user and changed 2 users; 1 unchanged; 1 event added, 1 moved, 0 removed; 0 rows refused\n", ""}, r)
	ada, err := storeAt(t, url).UserByExternalID(t.Context(), "1")
	require.NoError(t, err)
	require.Equal(t, []any{"Ada Lovelace", "Asia/Tokyo", "ada@example.com", 2}, []any{ada.Name(), ada.Timezone.String(), ada.Email, ada.Version})

	_, r = updating(t, url, "p.jsonl", `{"id": "`+ada.ID.String()+`", "timezone": "UTC"}`+"\n"+`{"externalId": "2", "email": null, "locale": "en"}`)
	require.Equal(t, exitOK, r.code, r)
	require.Contains(t, r.out, "changed 2 users")
	grace, err := storeAt(t, url).UserByExternalID(t.Context(), "2")
	require.NoError(t, err)
	require.Equal(t, []string{"en", "grace@example.com"}, []string{grace.Locale, grace.Email})
}

func TestAnUpdateRefusesBadRowsWithEveryField(t *testing.T) {
	t.Parallel()
	const header = "id,externalId,firstName,lastName,dateOfBirth,timezone,email\n"
	url := pgtest.URL(t)
	_, r := updating(t, url, "p.csv", header+adaID+",1,Ada,Lovelace,1990-12-10,UTC,\n"+graceID+",2,Grace,Hopper,1906-12-09,UTC,\n")
	require.Equal(t, exitOK, r.code, r.errs)
	text := header +
		adaID + ",,,,1990-02-30,Mars,no\n" +
		graceID + ",1,,,,,\n" +
		",9,,,,UTC,\n" +
		",,Ada,Lovelace,1990-12-10,UTC,\n" +
		"x,1,,,,,no\n" +
		graceID + ",,Amazing,,,,\n"
	const taken = 1 // a dry run does not see that an external id belongs to another user
	for name, tt := range map[string]struct {
		more []string
		want string
	}{"dry": {[]string{"--dry-run"}, "4 rows"}, "real": {nil, "5 rows"}} {
		file, r := updating(t, url, "p.csv", text, tt.more...)
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.out, "; "+tt.want+" refused\n")
		lines := strings.Split(r.errs, "\n")
		require.Contains(t, lines[0], file+":2: dateOfBirth is not a day of the calendar: February 1990 has 28 days; timezone is not a known time zone")
		require.Contains(t, lines[0], "; email is not a bare e-mail address")
		require.Equal(t, "almanac: "+tt.want+" of 6 refused", lines[len(lines)-2], name)
		if name == "real" {
			require.Equal(t, file+":3: externalId belongs to user "+adaID, lines[taken])
		}
	}
}

func TestTheReportOfAnUpdateHasAllCounts(t *testing.T) {
	t.Parallel()
	_, r := updating(t, pgtest.URL(t), "p.csv", "id,firstName,lastName,dateOfBirth,timezone\n"+adaID+",Ada,Lovelace,1990-12-10,UTC\n"+
		adaID+",,,,Asia/Tokyo\n"+adaID+",,,,Asia/Tokyo\n"+graceID+",,,,UTC\n", "--json")
	var report map[string]any
	require.NoError(t, json.Unmarshal([]byte(r.out), &report))
	for name, want := range map[string]float64{"rows": 4, "created": 1, "changed": 1, "unchanged": 1, "refused": 1, "events": 1, "moved": 1, "removed": 0} {
		require.EqualValues(t, want, report[name], name)
	}
	require.Equal(t, true, report["complete"])
}

func TestAnUpdateRefusesALockedUserAndGoesOn(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	text := crowdFile(2500)
	_, r := updating(t, url, "p.csv", text, "--id-from", "email")
	require.Equal(t, exitOK, r.code, r.errs)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer disconnect(t.Context(), conn)
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT 1 FROM almanac.users WHERE email IN ('ada7@example.com', 'ada1500@example.com') FOR UPDATE")
	require.NoError(t, err)
	later := strings.ReplaceAll(text, "Asia/Tokyo", "UTC")

	file, r := updating(t, url, "p.csv", later, "--id-from", "email")

	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.out, "created 0 users and changed 2498 users; 0 unchanged;")
	require.Contains(t, r.errs, file+":9: the user is locked by another transaction: import the row again\n")
	require.NoError(t, tx.Rollback(t.Context()))
	_, r = updating(t, url, "p.csv", later, "--id-from", "email")
	require.Equal(t, exitOK, r.code)
	require.Contains(t, r.out, "created 0 users and changed 2 users; 2498 unchanged;")
}

func TestAnUpdateNeedsToKnowItsUsers(t *testing.T) {
	t.Parallel()
	_, r := updating(t, pgtest.URL(t), "p.csv", "firstName,timezone\n")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.errs, `there is no column "id" or "externalId" by which users are known: give --id-from`)
	_, r = updating(t, pgtest.URL(t), "p.csv", "id\n", "--new-ids")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.errs, "--new-ids: does not go with --update")
	file := fileOf(t, "p.csv", "id\n"+uuid.NewString()+"\n")
	r = almanacAt(t, today, "users", "import", file, "--update", "--dry-run")
	require.Equal(t, exitUsage, r.code, "it compares with what is stored")
}
