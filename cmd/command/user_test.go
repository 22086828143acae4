package command

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/internal/pgtest"
)

// onScreen runs the program within the test, on a terminal of a width.
func onScreen(t *testing.T, screen terminal, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	env := Host{Out: &out, Err: &errs}.environment(today)
	env.terminal = screen
	code := run(t.Context(), args, env)
	return result{code, out.String(), errs.String()}
}

// personID returns the id of a user of everyone.
func personID(n int) uuid.UUID {
	return uuid.MustParse(fmt.Sprintf("0198a1f0-7c3e-7d6a-9b1f-%012d", n))
}

// everyone stores users from everywhere, and one whose name steers terminals.
func everyone(t *testing.T, url string) {
	t.Helper()
	store := storeAt(t, url)
	for i, p := range []almanac.Profile{
		{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Europe/London", Email: "ada@example.com", ExternalID: "member-17", Locale: "en-GB"},
		{FirstName: "花子", LastName: "山田", DateOfBirth: "1985-03-07", Timezone: "Asia/Tokyo", Email: "hanako@example.jp"},
		{FirstName: "דוד", LastName: "בן־גוריון", DateOfBirth: "1986-10-16", Timezone: "Asia/Jerusalem", OptOuts: []almanac.OptOut{{Type: "OFFER"}}},
		{FirstName: "Zoe\u0308", LastName: "Brontë-Featherstonehaugh of Nether Wallop", DateOfBirth: "1986-10-16", Timezone: "America/Argentina/ComodRivadavia"},
		{FirstName: "Eve", LastName: "Steers", DateOfBirth: "2000-02-29", Timezone: "UTC", ExternalID: "=1+1"},
	} {
		p.ID = personID(i + 1)
		u, err := almanac.NewUser(p, today)
		require.NoError(t, err)
		_, _, err = almanactest.CreateUser(t.Context(), store, u)
		require.NoError(t, err)
	}
	runSQL(t, url, "UPDATE almanac.users SET first_name = $1 WHERE id = $2", "Eve\x1b[31m\u202e\u2067\u009b1m\r\n", personID(5))
}

// checkGolden compares output with a file of testdata. Ids of events, which are new in each
// run, stand there as zeros.
func checkGolden(t *testing.T, name, out string, ids ...uuid.UUID) {
	t.Helper()
	for _, id := range ids {
		out = strings.ReplaceAll(out, id.String(), uuid.Nil.String())
	}
	want, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	require.Equal(t, string(want), out, name)
}

// checkFits wants no line to be wider than the terminal, and no control character but those of
// colours.
func checkFits(t *testing.T, width int, out string) {
	t.Helper()
	for line := range strings.Lines(regexp.MustCompile(`\x1b\[\d*m`).ReplaceAllString(out, "")) {
		line = strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\u200e", "")
		require.Equal(t, printable(line), line)
		if width > 0 {
			require.LessOrEqual(t, displayWidth(line), width, line)
		}
	}
}

func TestUsersFitTheTerminal(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	everyone(t, url)
	for _, width := range []int{0, 200, 80, 40, 7} {
		r := onScreen(t, terminal{width, width > 0}, "users", "list", "--database-url", url)
		require.Equal(t, exitOK, r.code, r.errs)
		require.Empty(t, r.errs)
		checkGolden(t, fmt.Sprintf("users-%d.txt", width), r.out)
		checkFits(t, width, r.out)
	}
	found, err := storeAt(t, url).FindUsers(t.Context(), almanac.UserFilter{}, almanac.Page{})
	require.NoError(t, err)
	for width := 1; width < 260; width++ {
		var out bytes.Buffer
		env := Host{Out: &out}.environment(today)
		env.terminal = terminal{width, true}
		require.NoError(t, userList(env, form{}).write(env, found.Items, true))
		checkFits(t, width, out.String())
	}
	require.NotContains(t, almanacAt(t, today, "users", "list", "--database-url", url).out, "\u200e", "marks are for terminals")
}

func TestUsersAreWrittenForPrograms(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	everyone(t, url)
	r := almanacAt(t, today, "users", "list", "--csv", "--database-url", url)
	records, err := csv.NewReader(strings.NewReader(r.out)).ReadAll()
	require.NoError(t, err)
	require.Len(t, records, 6)
	require.Equal(t, []string{"id", "firstName", "lastName", "dateOfBirth", "calendar", "timezone", "locale", "email", "externalId", "attributes"}, records[0])
	require.Equal(t, []string{personID(1).String(), "Ada", "Lovelace", "1990-12-10", "", "Europe/London", "en-GB", "ada@example.com", "member-17", "{}"}, records[1])
	require.Equal(t, "Eve\x1b[31m\u202e\u2067\u009b1m\n", records[5][1], "programs get what is stored; CSV makes one character of the end of a line")
	checkFits(t, 0, onScreen(t, terminal{80, true}, "users", "list", "--csv", "--database-url", url).out)

	runSQL(t, url, "UPDATE almanac.users SET first_name = 'Eve' WHERE id = $1", personID(5))
	text := almanacAt(t, today, "users", "list", "--csv", "--database-url", url).out
	other := pgtest.URL(t)
	r = almanacAt(t, today, "users", "import", fileOf(t, "people.csv", text), "--database-url", other)
	require.Equal(t, result{exitOK, "stored 5 users with 5 events; 0 users there already; 0 rows refused\n", ""}, r, "a list is what an import reads")
	require.Equal(t, text, almanacAt(t, today, "users", "list", "--csv", "--database-url", other).out)

	r = almanacAt(t, today, "users", "list", "--json", "-n", "3", "--database-url", url)
	lines := strings.Split(strings.TrimSuffix(r.out, "\n"), "\n")
	require.Len(t, lines, 3)
	var third map[string]any
	require.NoError(t, json.Unmarshal([]byte(lines[2]), &third))
	delete(third, "createdAt")
	delete(third, "updatedAt")
	delete(third["optOuts"].([]any)[0].(map[string]any), "since")
	require.Equal(t, map[string]any{
		"id": personID(3).String(), "firstName": "דוד", "lastName": "בן־גוריון", "dateOfBirth": "1986-10-16", "timezone": "Asia/Jerusalem", "zoneSource": "declared",
		"attributes": map[string]any{}, "optOuts": []any{map[string]any{"type": "OFFER"}}, "version": 1.0,
	}, third)
	require.Equal(t, "there are more: go on with --after "+personID(3).String()+"\n", r.errs)
}

func TestUsersAreFound(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	everyone(t, url)
	runSQL(t, url, "UPDATE almanac.users SET email = 'ADA@example.com', folded_email = 'ada@example.com', external_id = $1 WHERE id = $2", adaID, personID(4))
	tests := map[string]struct {
		args []string
		want []int
	}{
		"by id":                            {[]string{personID(2).String()}, []int{2}},
		"by an external id":                {[]string{"member-17"}, []int{1}},
		"by an external id that is a UUID": {[]string{adaID}, []int{4}},
		"by e-mail address":                {[]string{"Ada@Example.com"}, []int{1, 4}},
		"by first name":                    {[]string{"ADA"}, []int{1}},
		"by full name":                     {[]string{"ada lo"}, []int{1}},
		"by last name":                     {[]string{"brontë"}, []int{4}},
		"in Japanese":                      {[]string{"山田"}, []int{2}},
		"in Hebrew":                        {[]string{"דוד"}, []int{3}},
		"by the middle of a name":          {[]string{"velace"}, nil},
		"by a wildcard":                    {[]string{"%"}, nil},
		"by a name":                        {[]string{"--name", "love"}, []int{1}},
		"by an external id as a name":      {[]string{"--name", "member-17"}, nil},
		"by a name and an address":         {[]string{"--name", "zoe", "--email", "ada@example.com"}, []int{4}},
		"by an external id alone":          {[]string{"--external-id", "=1+1"}, []int{5}},
		"by a stranger's id":               {[]string{graceID}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := almanacAt(t, today, append([]string{"users", "find", "--json", "--database-url", url}, tt.args...)...)
			require.Equal(t, exitOK, r.code, r.errs)
			var found []int
			for line := range strings.Lines(r.out) {
				var u struct{ ID uuid.UUID }
				require.NoError(t, json.Unmarshal([]byte(line), &u))
				found = append(found, int(u.ID[15]))
			}
			require.Equal(t, tt.want, found)
			require.Equal(t, tt.want == nil, strings.HasPrefix(r.errs, "names are compared from their beginning"), r.errs)
		})
	}
}

func TestNoUsersIsNoDeadEnd(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	r := runAs(t.Context(), Host{Name: "acme"}, "users", "list", "--database-url", url)
	require.Equal(t, result{exitOK, "no users\n", "acme users add stores a user, and acme users import the users of a file\n"}, r)
	r = almanacAt(t, today, "users", "find", "ada", "--csv", "--database-url", url)
	require.Equal(t, "id,firstName,lastName,dateOfBirth,calendar,timezone,locale,email,externalId,attributes\n", r.out)
	require.Contains(t, r.errs, "almanac users list lists all users\n")
	r = almanacAt(t, today, "users", "list", "--json", "--database-url", url)
	require.Empty(t, r.out)
}

func TestManyUsersAreListedPageByPage(t *testing.T) {
	t.Parallel()
	const n = 2500
	url := pgtest.URL(t)
	r := almanacAt(t, today, "users", "import", fileOf(t, "people.csv", crowdFile(n)), "--id-from", "email", "--no-events", "--database-url", url)
	require.Equal(t, exitOK, r.code, r.errs)
	for _, find := range [][]string{{"list"}, {"find", "ada lo"}} {
		all := almanacAt(t, today, slices.Concat([]string{"users"}, find, []string{"-n", "1000000", "--csv", "--database-url", url})...)
		require.Equal(t, exitOK, all.code, all.errs)
		require.Empty(t, all.errs)
		require.Equal(t, n+1, strings.Count(all.out, "\n"))
		var pages strings.Builder
		for after := []string(nil); ; {
			page := almanacAt(t, today, slices.Concat([]string{"users"}, find, []string{"-n", "1200", "--csv", "--database-url", url}, after)...)
			require.Equal(t, exitOK, page.code, page.errs)
			header, rest, _ := strings.Cut(page.out, "\n")
			if after == nil {
				pages.WriteString(header + "\n")
			}
			pages.WriteString(rest)
			require.LessOrEqual(t, strings.Count(rest, "\n"), 1200)
			cursor, more := strings.CutPrefix(strings.TrimSuffix(page.errs, "\n"), "there are more: go on with --after ")
			if !more {
				break
			}
			after = []string{"--after", cursor}
		}
		require.Equal(t, all.out, pages.String(), "each user once, in the same order")
	}
	screen := onScreen(t, terminal{80, false}, "users", "list", "-n", "2500", "--database-url", url)
	require.Equal(t, n+3, strings.Count(screen.out, "\n"), "with a header above each thousand")
	require.Equal(t, n, strings.Count(screen.out, "Ada Lovelace"))
}

func TestCursorsCanBePasted(t *testing.T) {
	t.Parallel()
	require.Equal(t, "0198a1f0-7c3e-7d6a-9b1f-2f6d1c0e4a55/Ada/O%27Neil", shellWord("0198a1f0-7c3e-7d6a-9b1f-2f6d1c0e4a55/Ada/O%27Neil"))
	require.Equal(t, "'x/$HOME&/b'", shellWord("x/$HOME&/b"))
}
