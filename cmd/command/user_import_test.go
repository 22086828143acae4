package command

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

const (
	adaID   = "0198a1f0-7c3e-7d6a-9b1f-2f6d1c0e4a55"
	graceID = "0198a1f0-7c3e-7d6a-9b1f-2f6d1c0e4a56"
)

// fileOf returns a file of that name and text.
func fileOf(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// crowdFile has so many users.
func crowdFile(n int) string {
	var b strings.Builder
	b.WriteString("email,firstName,lastName,dateOfBirth,timezone\n")
	for i := range n {
		fmt.Fprintf(&b, "ada%d@example.com,Ada,Lovelace,1990-12-10,Asia/Tokyo\n", i)
	}
	return b.String()
}

// storeAt returns a store on a database that a test looks into.
func storeAt(t *testing.T, url string) *postgres.Store {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { disconnect(context.WithoutCancel(t.Context()), conn) })
	store, err := postgres.New(conn)
	require.NoError(t, err)
	return store
}

// countUsers counts those who are stored.
func countUsers(t *testing.T, url string) int {
	t.Helper()
	return ask(t, url, "SELECT count(*) FROM almanac.users")
}

func countEvents(t *testing.T, url string) int {
	t.Helper()
	return ask(t, url, "SELECT count(*) FROM almanac.events")
}

// ask returns the one number that a database answers.
func ask(t *testing.T, url, question string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer disconnect(t.Context(), conn)
	require.NoError(t, conn.QueryRow(t.Context(), question).Scan(&n))
	return n
}

func TestUsersOfAFileAreStoredWithTheirEvents(t *testing.T) {
	t.Parallel()
	const csv = "\ufeffid,lastName,firstName,dateOfBirth,timezone,attributes,attributes.team,attributes.anniversary\r\n" +
		adaID + ",Lovelace,Ada,1990-12-10,Europe/London,\"{\"\"level\"\": 3}\",red,\r\n" +
		"\r\n" +
		graceID + ",\"Hopper\",Grace,1906-12-09,America/New_York,,,2019-04-01\r\n"
	const jsonl = `{"id": "` + adaID + `", "firstName": "Ada", "lastName": "Lovelace", "dateOfBirth": "1990-12-10", "timezone": "Europe/London", "attributes": {"level": 3, "team": "red"}}` +
		"\n  \n" +
		`{"lastName": "Hopper", "id": "` + graceID + `", "attributes": {"anniversary": "2019-04-01"}, "firstName": "Grace", "dateOfBirth": "1906-12-09", "timezone": "America/New_York"}`
	tests := map[string]struct {
		file, text string
		args       []string
		stored     string
		events     map[string]string // the wall times in the year, by whose they are, and what
	}{
		"CSV":        {"people.csv", csv, nil, "stored 2 users with 2 events", map[string]string{"ada BIRTHDAY": "12-10T09:00:00", "grace BIRTHDAY": "12-09T09:00:00"}},
		"JSON lines": {"people.jsonl", jsonl, nil, "stored 2 users with 2 events", map[string]string{"ada BIRTHDAY": "12-10T09:00:00", "grace BIRTHDAY": "12-09T09:00:00"}},
		"JSON lines by another name, at another time": {
			"people.txt", jsonl, []string{"--format", "jsonl", "--at", "07:30", "--leap-day", "mar1", "--anniversary", "anniversary"}, "stored 2 users with 3 events",
			map[string]string{"ada BIRTHDAY": "12-10T07:30:00", "grace BIRTHDAY": "12-09T07:30:00", "grace ANNIVERSARY": "04-01T07:30:00"},
		},
		"without birthdays": {"people.ndjson", jsonl, []string{"--no-birthday", "--anniversary", "anniversary"}, "stored 2 users with 1 event", map[string]string{"grace ANNIVERSARY": "04-01T09:00:00"}},
		"without events":    {"people.csv", csv, []string{"--no-events"}, "stored 2 users with 0 events", map[string]string{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			args := append([]string{"users", "import", fileOf(t, tt.file, tt.text), "--database-url", url}, tt.args...)

			r := almanacAt(t, today, args...)

			require.Equal(t, result{exitOK, tt.stored + "; 0 users there already; 0 rows refused\n", ""}, r)
			store := storeAt(t, url)
			ada, err := store.User(t.Context(), uuid.MustParse(adaID))
			require.NoError(t, err)
			require.Equal(t, []string{"Ada Lovelace", "1990-12-10", "Europe/London"}, []string{ada.Name(), ada.DateOfBirth.String(), ada.Timezone.String()})
			require.JSONEq(t, `{"level": 3, "team": "red"}`, string(ada.Attributes))
			grace, err := store.User(t.Context(), uuid.MustParse(graceID))
			require.NoError(t, err)
			require.JSONEq(t, `{"anniversary": "2019-04-01"}`, string(grace.Attributes))

			found, err := store.Find(t.Context(), nil, almanac.Page{})
			require.NoError(t, err)
			events := map[string]string{}
			whose := map[string]string{adaID: "ada", graceID: "grace"}
			for _, e := range found.Items {
				events[whose[e.UserID.String()]+" "+e.Type] = e.Wall.String()[len("2026-"):]
				leapDay := calendar.LeapDayFeb28
				if slices.Contains(args, "mar1") {
					leapDay = calendar.LeapDayMar1
				}
				require.Equal(t, leapDay, e.Policies.LeapDay)
			}
			require.Equal(t, tt.events, events)

			again := almanacAt(t, today, args...)
			require.Equal(t, result{exitOK, "stored 0 users with 0 events; 2 users there already; 0 rows refused\n", ""}, again)
		})
	}
}

func TestIDsAreDerivedFromAColumn(t *testing.T) {
	t.Parallel()
	const space = "6ba7b811-9dad-11d1-80b4-00c04fd430c8"
	text := "firstName,lastName,dateOfBirth,timezone,email,id\n" +
		"Ada,Lovelace,1990-12-10,UTC,ada@example.com,\n" +
		"Grace,Hopper,1906-12-09,UTC,," + graceID + "\n"
	member := "firstName,lastName,dateOfBirth,timezone,member,id\n" +
		"Ada,Lovelace,1990-12-10,UTC,m-7,\n" +
		"Grace,Hopper,1906-12-09,UTC,," + graceID + "\n"
	beside := "attributes.member,firstName,lastName,dateOfBirth,timezone,member,id\n" +
		"of old,Ada,Lovelace,1990-12-10,UTC,m-7,\n" +
		",Grace,Hopper,1906-12-09,UTC,," + graceID + "\n"
	lines := `{"firstName": "Ada", "lastName": "Lovelace", "dateOfBirth": "1990-12-10", "timezone": "UTC", "number": 1815}` + "\n" +
		`{"firstName": "Grace", "lastName": "Hopper", "dateOfBirth": "1906-12-09", "timezone": "UTC", "number": "9", "id": "` + graceID + `"}` + "\n"
	nested := `{"firstName": "Ada", "lastName": "Lovelace", "dateOfBirth": "1990-12-10", "timezone": "UTC", "attributes": {"email": "ada@example.com"}}` + "\n" +
		`{"firstName": "Grace", "lastName": "Hopper", "dateOfBirth": "1906-12-09", "timezone": "UTC", "id": "` + graceID + `"}`
	tests := map[string]struct {
		name, text string
		args       []string
		want       uuid.UUID
		attributes string
		email      string
	}{
		"of CSV":                           {"p.csv", text, []string{"--id-from", "email"}, uuid.NewSHA1(uuid.MustParse("4e6f0c62-93a5-4e6d-9d57-0f6a1f1f7c55"), []byte("ada@example.com")), `{}`, "ada@example.com"},
		"of a column of its own":           {"p.csv", member, []string{"--id-from", "member"}, uuid.NewSHA1(uuid.MustParse("4e6f0c62-93a5-4e6d-9d57-0f6a1f1f7c55"), []byte("m-7")), `{"member": "m-7"}`, ""},
		"beside an attribute of that name": {"p.csv", beside, []string{"--id-from", "member", "--namespace", space}, uuid.NewSHA1(uuid.NameSpaceURL, []byte("m-7")), `{"member": "of old"}`, ""},
		"in another namespace":             {"p.csv", text, []string{"--id-from", "email", "--namespace", space}, uuid.NewSHA1(uuid.NameSpaceURL, []byte("ada@example.com")), `{}`, "ada@example.com"},
		"of JSON, that is a number":        {"p.jsonl", lines, []string{"--id-from", "number", "--namespace", space}, uuid.NewSHA1(uuid.NameSpaceURL, []byte("1815")), `{"number": 1815}`, ""},
		"of JSON, an attribute":            {"p.jsonl", nested, []string{"--id-from", "attributes.email", "--namespace", space}, uuid.NewSHA1(uuid.NameSpaceURL, []byte("ada@example.com")), `{"email": "ada@example.com"}`, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			r := almanacAt(t, today, append([]string{"users", "import", fileOf(t, tt.name, tt.text), "--database-url", url}, tt.args...)...)
			require.Equal(t, exitOK, r.code, r.errs)
			store := storeAt(t, url)
			ada, err := store.User(t.Context(), tt.want)
			require.NoError(t, err)
			require.Equal(t, "Ada Lovelace", ada.Name())
			require.JSONEq(t, tt.attributes, string(ada.Attributes))
			require.Equal(t, tt.email, ada.Email)
			_, err = store.User(t.Context(), uuid.MustParse(graceID))
			require.NoError(t, err, "an id of the file is left as it is")
		})
	}
}

func TestOptionalColumnsAreStored(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ name, text string }{
		"CSV": {"p.csv", "externalId,email,locale,firstName,lastName,dateOfBirth,timezone\n" +
			"42,ada@example.com,EN_gb,Ada,Lovelace,1990-12-10,UTC\n" +
			"43,,,Grace,Hopper,1906-12-09,UTC\n"},
		"JSON lines": {"p.jsonl", `{"externalId": "42", "email": "ada@example.com", "locale": "EN_gb", "firstName": "Ada", "lastName": "Lovelace", "dateOfBirth": "1990-12-10", "timezone": "UTC"}
{"externalId": "43", "email": null, "locale": "", "firstName": "Grace", "lastName": "Hopper", "dateOfBirth": "1906-12-09", "timezone": "UTC"}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			args := []string{"users", "import", fileOf(t, tt.name, tt.text), "--id-from", "externalId", "--database-url", url}
			r := almanacAt(t, today, args...)
			require.Equal(t, exitOK, r.code, r.errs)
			store := storeAt(t, url)
			for external, want := range map[string][]string{"42": {"Ada", "en-GB", "ada@example.com", "{}"}, "43": {"Grace", "", "", "{}"}} {
				u, err := store.UserByExternalID(t.Context(), external)
				require.NoError(t, err)
				require.Equal(t, want, []string{u.FirstName, u.Locale, u.Email, string(u.Attributes)})
			}
			r = almanacAt(t, today, args...)
			require.Equal(t, result{exitOK, "stored 0 users with 0 events; 2 users there already; 0 rows refused\n", ""}, r, "the ids are those of the first run")
		})
	}
}

func TestUsersWithoutNamesOrDateOfBirthAreStored(t *testing.T) {
	t.Parallel()
	full := "externalId,firstName,lastName,dateOfBirth,timezone\n1,Sukarno,,1901-06-06,UTC\n2,,,,UTC\n3,Ada,Lovelace,--02-29,UTC\n4,Grace,Hopper,1900-01-01,UTC\n"
	tests := map[string]struct {
		name, text string
		args       []string
		want       map[string]string
		events     int
	}{
		"CSV":                              {"p.csv", full, []string{"--unknown-date", "1900-01-01"}, map[string]string{"1": "Sukarno 1901-06-06", "2": "", "3": "Ada Lovelace --02-29", "4": "Grace Hopper"}, 2},
		"CSV with calendars":               {"p.csv", "externalId,dateOfBirth,calendar,timezone\n1,1900-01-01,hebrew,UTC\n2,5774-05L-08,hebrew,UTC\n", []string{"--unknown-date", "1900-01-01"}, map[string]string{"1": "", "2": "5774-05L-08"}, 1},
		"CSV with a date that is real":     {"p.csv", full, nil, map[string]string{"4": "Grace Hopper 1900-01-01"}, 3},
		"CSV with no more columns than it": {"p.csv", "externalId,timezone\n1,UTC\n", nil, map[string]string{"1": ""}, 0},
		"JSON lines": {"p.jsonl", `{"externalId": "1", "lastName": "Teller", "firstName": null, "dateOfBirth": "--0214", "timezone": "UTC"}` + "\n" +
			`{"externalId": "2", "dateOfBirth": null, "timezone": "UTC"}`, nil, map[string]string{"1": "Teller --02-14", "2": ""}, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			args := append([]string{"users", "import", fileOf(t, tt.name, tt.text), "--id-from", "externalId", "--database-url", url}, tt.args...)
			refused := almanacAt(t, today, append(slices.Clone(args[:len(args)-len(tt.args)]), "--dry-run")...)
			require.NotEqual(t, exitOK, refused.code, "without the flag")
			dry := almanacAt(t, today, append(slices.Clone(args), "--optional-profile", "--dry-run")...)
			require.Equal(t, exitOK, dry.code, dry.errs)

			r := almanacAt(t, today, append(args, "--optional-profile")...)

			require.Equal(t, exitOK, r.code, r.errs)
			require.Equal(t, tt.events, countEvents(t, url))
			for external, want := range tt.want {
				u, err := storeAt(t, url).UserByExternalID(t.Context(), external)
				require.NoError(t, err)
				require.Equal(t, want, strings.TrimSpace(u.Name()+" "+u.DateOfBirth.String()))
			}
		})
	}
	file := fileOf(t, "q.csv", full)
	r := almanacAt(t, today, "users", "import", file, "--id-from", "externalId", "--dry-run", "--unknown-date", "1900-01-01")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.errs, "--unknown-date is for --optional-profile")
	r = almanacAt(t, today, "users", "import", file, "--id-from", "externalId", "--dry-run", "--optional-profile", "--unknown-date", "never")
	require.Contains(t, r.errs, "--unknown-date")
}

func TestAnImportSaysHowManyRowsNeedOptionalProfiles(t *testing.T) {
	t.Parallel()
	file := fileOf(t, "p.csv", "externalId,firstName,lastName,dateOfBirth,timezone\n1,Sukarno,,1901-06-06,UTC\n2,,,--03-15,UTC\n3,Ada,,1990-12-10,nowhere\n4,Grace,Hopper,1906-12-09,UTC\n")
	load := func(more ...string) string {
		r := almanacAt(t, today, append([]string{"users", "import", file, "--id-from", "externalId", "--dry-run"}, more...)...)
		require.Equal(t, exitFailed, r.code)
		return r.out
	}
	require.Equal(t, "would store 1 user with 1 event; 3 rows refused (--optional-profile accepts 2)\n", load())
	require.Equal(t, "would store 0 users with 0 events; 1 row refused (--optional-profile accepts 1); not read to the end\n", load("--max-errors", "1"))
	require.Equal(t, "would store 3 users with 3 events; 1 row refused\n", load("--optional-profile"))
}

// A host that accepts such users everywhere need not repeat it.
func TestAHostsOwnOptionAllowsOptionalProfiles(t *testing.T) {
	t.Parallel()
	file := fileOf(t, "p.csv", "externalId,timezone\n1,UTC\n")
	args := []string{"users", "import", file, "--id-from", "externalId", "--dry-run"}
	for _, want := range []struct {
		options []almanac.Option
		code    int
	}{{nil, exitFailed}, {[]almanac.Option{almanac.WithOptionalProfile()}, exitOK}} {
		var out, errs bytes.Buffer
		code := Run(t.Context(), args, Host{Options: want.options, Out: &out, Err: &errs})
		require.Equal(t, want.code, code, errs.String())
	}
}

func TestAnImportWithoutZones(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	without := fileOf(t, "p.csv", "externalId,locale\n1,de-AT\n2,en\n")
	some := fileOf(t, "q.jsonl", `{"externalId": "3", "timezone": "", "locale": "de-AT"}`+"\n"+`{"externalId": "4", "timezone": "Asia/Tokyo"}`+"\n"+`{"externalId": "5"}`)
	load := func(options []almanac.Option, args ...string) (code int, out string) {
		var output, errs bytes.Buffer
		code = Run(t.Context(), append([]string{"users", "import", "--id-from", "externalId", "--optional-profile"}, args...), Host{Options: options, Out: &output, Err: &errs})
		return code, output.String() + errs.String()
	}
	created := 0
	host := []almanac.Option{almanac.WithZoneGuess("", func(u almanac.User) string {
		return map[string]string{"de-AT": "Europe/Vienna"}[u.Locale]
	}), almanac.WithObserver(almanac.ObserverFunc(func(context.Context, almanac.Notice) { created++ }))}

	code, out := load(nil, without, "--dry-run")
	require.Equal(t, exitFailed, code)
	require.Contains(t, out, `there is no column "timezone"; --default-zone does without it`)
	code, out = load(nil, some, "--dry-run")
	require.Equal(t, exitFailed, code)
	require.Contains(t, out, "would store 1 user with 0 events; 2 rows refused")
	code, out = load(host, some, "--dry-run")
	require.Equal(t, exitFailed, code)
	require.Contains(t, out, ":3: timezone is empty, and cannot be guessed")
	require.Contains(t, out, "would store 2 users with 0 events; 1 row refused")
	require.Zero(t, created, "nothing was stored")

	code, out = load(host, without, "--dry-run")
	require.Equal(t, exitFailed, code)
	require.Contains(t, out, "p.csv:3: timezone is empty, and cannot be guessed", "the guess depends on the row")
	require.Contains(t, out, "would store 1 user with 0 events; 1 row refused")

	code, out = load(nil, without, "--default-zone", "utc", "--database-url", url)
	require.Equal(t, exitOK, code, out)
	code, out = load(host, some, "--max-errors", "9", "--database-url", url)
	require.Equal(t, exitFailed, code, out)
	both := fileOf(t, "r.csv", "externalId,locale\n6,de-AT\n7,en\n")
	code, out = load(host, both, "--default-zone", "UTC", "--database-url", url)
	require.Equal(t, exitOK, code, out)
	for external, want := range map[string]string{
		"1": "UTC default", "2": "UTC default", "3": "Europe/Vienna guessed", "4": "Asia/Tokyo declared", "6": "Europe/Vienna guessed", "7": "UTC default",
	} {
		u, err := storeAt(t, url).UserByExternalID(t.Context(), external)
		require.NoError(t, err)
		require.Equal(t, want, u.Timezone.String()+" "+string(u.ZoneSource), external)
	}
}

func TestRowsWhoseExternalIDIsTakenAreRefused(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	const header = "id,externalId,email,firstName,lastName,dateOfBirth,timezone\n"
	file := fileOf(t, "p.csv", header+
		adaID+",secret-42,ada@example.com,Ada,Lovelace,1990-12-10,UTC\n"+
		"0198a1f0-7c3e-7d6a-9b1f-000000000001,secret-42,ada@example.com,Ada,Byron,1990-12-10,UTC\n"+
		graceID+",,no address,Grace,Hopper,1906-12-09,UTC\n")

	r := almanacAt(t, today, "users", "import", file, "--database-url", url)

	require.Equal(t, result{exitFailed, "stored 1 user with 1 event; 0 users there already; 2 rows refused\n",
		file + ":3: externalId belongs to user " + adaID + "\n" +
			file + ":4: email is not a bare e-mail address of at most 254 bytes\nalmanac: 2 rows of 3 refused\n"}, r)
	require.Equal(t, 1, countUsers(t, url))
}

func TestNewIDsStoreEveryUserAgain(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	file := fileOf(t, "p.csv", "firstName,lastName,dateOfBirth,timezone\nAda,Lovelace,1990-12-10,UTC\n")
	for range 2 {
		r := almanacAt(t, today, "users", "import", file, "--database-url", url, "--new-ids")
		require.Equal(t, exitOK, r.code, r.errs)
	}
	require.Equal(t, 2, countUsers(t, url))
}

func TestADryRunChecksEveryRowWithoutADatabase(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	file := fileOf(t, "p.csv", "id,firstName,lastName,dateOfBirth,timezone\n"+
		adaID+",Ada,Lovelace,1990-12-10,UTC\n"+graceID+",Grace,Hopper,1996-02-30,UTC\n")
	for name, more := range map[string][]string{"without a database": nil, "with one": {"--database-url", url}, "with one that is none": {"--database-url", "postgres://u:hunter2@127.0.0.1:1/x"}} {
		r := almanacAt(t, today, append([]string{"users", "import", file, "--dry-run"}, more...)...)
		require.Equal(t, result{exitFailed, "would store 1 user with 1 event; 1 row refused\n",
			file + ":3: dateOfBirth is not a day of the calendar: February 1996 has 29 days\nalmanac: 1 row of 2 refused\n"}, r, name)
	}
	require.Zero(t, countUsers(t, url))
}

func TestAnImportIsReportedAsJSON(t *testing.T) {
	t.Parallel()
	file := fileOf(t, "p.csv", "id,firstName,lastName,dateOfBirth,timezone\n"+
		adaID+",Ada,Lovelace,1990-12-10,UTC\n"+graceID+",,Hopper,1906-12-09,UTC\n"+adaID+",Ada,Lovelace,1990-12-10,UTC\n")
	r := almanacAt(t, today, "users", "import", file, "--database-url", pgtest.URL(t), "--json")
	require.Equal(t, exitFailed, r.code)
	require.Equal(t, "almanac: 1 row of 3 refused\n", r.errs)
	require.Regexp(t, `"seconds": [0-9.e-]+,`, r.out)
	require.JSONEq(t, fmt.Sprintf(`{"file": %q, "dryRun": false, "complete": true, "rows": 3, "created": 1, "changed": 0, "unchanged": 0, "existing": 1, "refused": 1, "withOptionalProfile": 1, "events": 1, "moved": 0, "removed": 0, "refusals": [
		{"line": 3, "problems": [{"field": "firstName", "problem": "is empty"}]}
	]}`, file), regexp.MustCompile(`"seconds": [0-9.e-]+,`).ReplaceAllString(r.out, ""))
}
