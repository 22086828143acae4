package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
)

func TestEveryBadRowIsReportedWithItsLineAndItsErrors(t *testing.T) {
	t.Parallel()
	const header = "id,firstName,lastName,dateOfBirth,timezone,attributes,attributes.team\n"
	const good = "Ada,Lovelace,1990-12-10,UTC"
	tests := map[string]struct {
		name, text string
		stored     int
		want       []string
	}{
		"CSV": {"p.csv", header +
			"0198a1f0-7c3e-7d6a-9b1f-000000000001," + good + ",,\n" +
			"7," + ",Lovelace,1890-12-10,Europe/Dubln,[],\n" + // 3
			"\"0198a1f0-7c3e-7d6a-9b1f-000000000002\"," + good + ",,\"red\nblue\"\n" + // 4 and 5
			"," + good + ",,\n" + // 6
			"x,y\n" + // 7
			"0198a1f0-7c3e-7d6a-9b1f-000000000003,Ada \"the\",Lovelace,1990-12-10,UTC,,\n" + // 8
			"0198a1f0-7c3e-7d6a-9b1f-000000000004," + good + ",{},r\xffd\n" + // 9
			"0198a1f0-7c3e-7d6a-9b1f-000000000005," + good + ",\"{\"\"team\"\": 1}\",red\n" + // 10
			"00000000-0000-0000-0000-000000000000," + good + ",,\n" + // 11
			"0198a1f0-7c3e-7d6a-9b1f-000000000006," + good + ",null,red\n" + // 12
			"0198a1f0-7c3e-7d6a-9b1f-000000000007," + good + ",,", // 13
			3, []string{
				`3: id is not a UUID; firstName is empty; dateOfBirth is before 1900-01-01; timezone is not a known time zone; did you mean "Europe/Dublin"?; attributes are not a JSON object`,
				`6: id is empty`,
				`7: has 2 fields, not 7`,
				`8: is not CSV: bare " in non-quoted-field`,
				`9: attributes.team is not valid UTF-8`,
				`10: attributes.team is among the attributes, too`,
				`11: id is not a UUID`,
				`12: attributes are not a JSON object`,
			}},
		"JSON lines": {"p.jsonl", `{"id": "0198a1f0-7c3e-7d6a-9b1f-000000000001", "firstName": "Ada", "lastName": "Lovelace", "dateOfBirth": "1990-12-10", "timezone": "UTC"}
{"id": 7, "firstName": null, "lastName": "Lovelace", "dateOfBirth": "1990-13-10", "timezone": "UTC", "externalId": 4711}

{"firstName": "Ada", "lastName": "Lovelace", "dateOfBirth": "1990-12-10", "timezone": "UTC"}
[]
{"firstName":
{} {}
` + "{\"firstName\": \"\xff\"}" + `
{"firstName": "\ud83d"}
{"id": "0198a1f0-7c3e-7d6a-9b1f-000000000002", "firstName": "Ada", "firstName": "Eve", "lastName": "Lovelace", "dateOfBirth": "1990-12-10", "timezone": "UTC", "shoe": 9}
{"id": "0198a1f0-7c3e-7d6a-9b1f-000000000003", "firstName": "Ada", "lastName": "Lovelace", "dateOfBirth": "1990-12-10", "timezone": "UTC", "attributes": null}
` + strings.Repeat("x", maxRow+1) + `
{"id": "0198a1f0-7c3e-7d6a-9b1f-000000000004", "firstName": "Ada", "lastName": "Lovelace", "dateOfBirth": "1990-12-10", "timezone": "UTC"}`,
			2, []string{
				`2: id must be a string; firstName must be a string; externalId must be a string: write "4711"; dateOfBirth is not a day of the calendar: months are 01 to 12`,
				`4: id is empty`,
				`5: is not a JSON object`,
				`6: is not one JSON value: unexpected end of JSON input`,
				`7: is not one JSON value: invalid character '{' after top-level value`,
				`8: is not valid UTF-8`,
				`9: escapes half of a character`,
				`10: "firstName" is given more than once; "shoe" is not a known field`,
				`11: attributes are not a JSON object`,
				`12: is longer than 1048576 bytes`,
			}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := fileOf(t, tt.name, tt.text)
			for _, options := range [][]string{{"--dry-run"}, {"--database-url", pgtest.URL(t)}} {
				r := almanacAt(t, today, append([]string{"users", "import", file}, options...)...)
				require.Equal(t, exitFailed, r.code)
				want := ""
				for _, line := range tt.want {
					want += file + ":" + line + "\n"
				}
				require.Equal(t, fmt.Sprintf("%salmanac: %d rows of %d refused\n", want, len(tt.want), tt.stored+len(tt.want)), r.errs)
				require.Contains(t, r.out, fmt.Sprintf("store%s %d users", map[bool]string{false: "d"}[options[0] == "--dry-run"], tt.stored))
			}
		})
	}
}

func TestAFileThatCannotBeReadIsRefused(t *testing.T) {
	t.Parallel()
	const header = "id,firstName,lastName,dateOfBirth,timezone\n"
	tests := map[string]struct {
		text string
		args []string
		want []string
	}{
		"an empty one": {"", nil, []string{"is empty: the first line names the columns"}},
		"a header of others": {"firstName;lastName,id,shoe,id,attributes.\n", []string{"--id-from", "email"}, []string{
			`column "firstName;lastName" is not known`, `column "shoe" is not known`, `column "id" is there twice`, `column "attributes." is not known`,
			`there is no column "firstName"; --optional-profile does without it`, `there is no column "lastName"; --optional-profile does without it`, `there is no column "dateOfBirth"; --optional-profile does without it`, `there is no column "timezone"; --default-zone does without it`,
			`there is no column "email" to make ids of`,
		}},
		"no ids":        {"firstName,lastName,dateOfBirth,timezone\n", nil, []string{`there is no column "id", by which users are known when this is run again: give --id-from or --new-ids`}},
		"a torn header": {"id,\"firstName", nil, []string{"the header cannot be read: "}},
		"a quote that is left open": {header + adaID + ",Ada,Lovelace,1990-12-10,UTC\n\"" + strings.Repeat("x,y,z\n", maxRow/5), nil,
			[]string{"after line 2: a row is longer than 1048576 bytes; is a quote left open?"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := fileOf(t, "p.csv", tt.text)
			r := almanacAt(t, today, append([]string{"users", "import", file, "--dry-run"}, tt.args...)...)
			require.Equal(t, exitFailed, r.code)
			require.True(t, strings.HasPrefix(r.errs, "almanac: "+file+": "+strings.Join(tt.want, "\n         ")), r.errs)
			require.NotContains(t, r.errs, "--help")
		})
	}
	r := almanacAt(t, today, "users", "import", "/no/such/file.csv", "--dry-run")
	require.Equal(t, result{exitFailed, "", "almanac: open /no/such/file.csv: no such file or directory\n"}, r)
}

// usersUpTo makes a CSV file in which every tenth user has no name, and takes two
// lines.
func usersUpTo(n int) string {
	var b strings.Builder
	b.WriteString("id,firstName,lastName,dateOfBirth,timezone,attributes.note\n")
	for i := range n {
		name, note := "Ada", "x"
		if i%10 == 9 {
			name, note = "", "\"x\ny\""
		}
		fmt.Fprintf(&b, "0198a1f0-7c3e-7d6a-9b1f-%012d,%s,Lovelace,1990-12-10,UTC,%s\n", i, name, note)
	}
	return b.String()
}

// lineOf is where peopleUpTo has the user of that number.
func lineOf(i int) int { return 2 + i + i/10 }

// importNowhere runs an import that stores nothing, in stretches.
func importNowhere(t *testing.T, rows rows, stretch, most int) (*importing, error) {
	t.Helper()
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	require.NoError(t, err)
	i := &importing{name: "p", rows: rows, most: most, stretch: stretch, quiet: true, progress: newProgress(io.Discard, new(input))}
	return i, i.run(t.Context(), nowhere{now: today}, registry)
}

func TestLineNumbersAreRightAcrossBatches(t *testing.T) {
	t.Parallel()
	const n = 200
	for _, stretch := range []int{1, 7, 10, 100, n, n + 1} {
		rows, err := readCSV(strings.NewReader(usersUpTo(n)), identity{}, requiredColumns(false))
		require.NoError(t, err)
		i, err := importNowhere(t, rows, stretch, n)
		require.NoError(t, err)
		require.Equal(t, tally{Created: 180, Events: 180, Refused: 20, Optional: 20}, i.done, "stretch %d", stretch)
		require.Len(t, i.refusals, 20)
		for place, r := range i.refusals {
			require.Equal(t, refusal{lineOf(place*10 + 9), []problem{{"firstName", "is empty"}}, true}, r, "stretch %d", stretch)
		}
	}
}

func TestAnImportGivesUpAfterSoManyBadRows(t *testing.T) {
	t.Parallel()
	const n = 100
	rows, err := readCSV(strings.NewReader("id,firstName,lastName,dateOfBirth,timezone\n"+strings.Repeat("x,Ada,Lovelace,1990-12-10,UTC\n", n)), identity{}, requiredColumns(false))
	require.NoError(t, err)
	i, err := importNowhere(t, rows, 30, 45)
	require.EqualError(t, err, "given up after 45 bad rows; see --max-errors")
	require.Equal(t, tally{Refused: 45}, i.done)

	file := fileOf(t, "p.csv", usersUpTo(40))
	r := almanacAt(t, today, "users", "import", file, "--dry-run", "--max-errors", "5")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.errs, "almanac: 4 rows of 40 refused\n", "fewer than that are read to the end")
}

func TestAnImportReportsBadRowsUpToItsLimit(t *testing.T) {
	t.Parallel()
	profiles := usersUpTo(5000)
	var anniversaries strings.Builder // which the handler refuses, when rows are enrolled
	anniversaries.WriteString("id,firstName,lastName,dateOfBirth,timezone,attributes.hired\n")
	for i := range 5000 {
		fmt.Fprintf(&anniversaries, "0198a1f0-7c3e-7d6a-9b1f-%012d,Ada,Lovelace,1990-12-10,UTC,%s\n", i, map[bool]string{true: "soon", false: "2019-04-01"}[i%10 == 9])
	}
	for name, tt := range map[string]struct {
		text     string
		lines    []int
		args     []string
		optional string
	}{
		"an invalid profile":               {profiles, []int{lineOf(9), lineOf(19), lineOf(29)}, nil, " (--optional-profile accepts 3)"},
		"a profile that a handler refuses": {anniversaries.String(), []int{11, 21, 31}, []string{"--anniversary", "hired"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, where := range [][]string{{"--dry-run"}, {"--database-url", pgtest.URL(t)}} {
				file := fileOf(t, "p.csv", tt.text)
				r := almanacAt(t, today, slices.Concat([]string{"users", "import", file, "--max-errors", "3"}, tt.args, where)...)
				require.Equal(t, exitFailed, r.code)
				lines := strings.Split(strings.TrimSpace(r.errs), "\n")
				lines = slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, "[") }) // the progress of a slow import
				require.Len(t, lines, 4, r.errs)
				for i, line := range tt.lines {
					require.True(t, strings.HasPrefix(lines[i], fmt.Sprintf("%s:%d: ", file, line)), r.errs)
				}
				require.Equal(t, "almanac: given up after 3 bad rows; see --max-errors", lines[3])
				require.Contains(t, r.out, "; 3 rows refused"+tt.optional+"; not read to the end\n")
			}
		})
	}
}

// Rows that are refused when they are stored, by the database or by a handler, end an import that changes users
// at the end of their page of 1,000. All of the page is reported and counted.
func TestAnImportOfChangesGivesUpBeforeTheEndOfTheFile(t *testing.T) {
	t.Parallel()
	const header = "id,firstName,lastName,dateOfBirth,timezone,externalId,attributes.hired\n"
	const holder = adaID + ",Ada,Lovelace,1990-12-10,UTC,taken,2019-04-01\n"
	for name, column := range map[string]func(i int) string{
		"external ids of another user": func(i int) string { return map[bool]string{true: "taken", false: ""}[i%10 == 9] + ",2019-04-01" },
		"a handler":                    func(i int) string { return "," + map[bool]string{true: "soon", false: "2019-04-01"}[i%10 == 9] },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			_, r := updating(t, url, "p.csv", header+holder, "--anniversary", "hired")
			require.Equal(t, exitOK, r.code, r)
			var text strings.Builder
			text.WriteString(header)
			for i := range 4000 {
				fmt.Fprintf(&text, "0198a1f0-7c3e-7d6a-9b1f-%012d,Grace,Hopper,1990-12-09,UTC,%s\n", i, column(i))
			}

			_, r = updating(t, url, "p.csv", text.String(), "--json", "--max-errors", "150", "--anniversary", "hired")

			require.Equal(t, exitFailed, r.code)
			require.Contains(t, r.errs, "given up after 200 bad rows; see --max-errors")
			var report importReport
			require.NoError(t, json.Unmarshal([]byte(r.out), &report), r.out)
			require.Equal(t, []int{2000, 1800, 200}, []int{report.Rows, report.Created, report.Refused})
			require.False(t, report.Complete)
			require.Len(t, report.Refusals, 200)
			require.Equal(t, 11, report.Refusals[0].Line)
			require.Equal(t, 2001, report.Refusals[199].Line)
			require.Equal(t, 1801, ask(t, url, "SELECT count(*) FROM almanac.users"))
		})
	}
}

// endless yields users for ever, and notes how many were asked for.
type endless struct{ asked int }

func (e *endless) next() (row, error) {
	e.asked++
	return row{line: e.asked, profile: almanac.Profile{ID: uuid.New(), FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "UTC"}}, nil
}

// refusing is a repository that fails after a number of batches. Batches are
// stored side by side.
type refusing struct {
	nowhere
	left *atomic.Int64
}

var errFull = errors.New("disk full")

func (r refusing) CreateUsers(ctx context.Context, users []almanac.UserWithEvents) ([]almanac.CreateUserResult, error) {
	if r.left.Add(-1) < 0 {
		return nil, errFull
	}
	return r.nowhere.CreateUsers(ctx, users)
}

// User finds no user: a batch that failed is looked up, and was not stored.
func (r refusing) User(context.Context, uuid.UUID) (almanac.User, error) {
	return almanac.User{}, &almanac.NotFoundError{}
}

func TestAnImportEndsWhenTheDatabaseFails(t *testing.T) {
	t.Parallel()
	registry, err := almanac.NewRegistry()
	require.NoError(t, err)
	users, left := new(endless), new(atomic.Int64)
	left.Store(1)
	i := &importing{name: "p", rows: users, most: 1, stretch: 1500, progress: newProgress(io.Discard, new(input))}
	// A stretch is two batches, of which one may fail before the other is stored.
	err = i.run(t.Context(), refusing{nowhere{now: today}, left}, registry)
	require.ErrorIs(t, err, errFull)
	require.LessOrEqual(t, users.asked, 1500, "no other stretch is begun")
	require.Contains(t, []int{0, 500, 1000}, i.done.Created)
}

func TestAPipeIsReadUntilItEndsOrIsInterrupted(t *testing.T) {
	t.Parallel()
	all, err := io.ReadAll(interruptible(t.Context(), strings.NewReader(strings.Repeat("x", 100_000))))
	require.NoError(t, err)
	require.Len(t, all, 100_000)

	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	p := interruptible(ctx, out)
	_, err = in.Write([]byte("abc"))
	require.NoError(t, err)
	some := make([]byte, 2)
	n, err := p.Read(some)
	require.NoError(t, err)
	require.Equal(t, "ab", string(some[:n]))
	n, err = p.Read(some)
	require.NoError(t, err)
	require.Equal(t, "c", string(some[:n]))
	time.AfterFunc(10*time.Millisecond, cancel) // while it waits
	_, err = p.Read(some)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, in.Close())
}
