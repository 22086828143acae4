package command

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// stage is a database with events in each status.
type stage struct {
	t     *testing.T
	url   string
	store *postgres.Store
	user  almanac.User
	// By the statuses in lower case, in the order of their creation: three of one
	// user, due in 2020, 2021 and 2022, and a pending one of another, in 2099.
	ids map[string]uuid.UUID
}

func stageOf(t *testing.T) *stage {
	t.Helper()
	return stageAt(t, pgtest.URL(t))
}

func stageAt(t *testing.T, url string) *stage {
	t.Helper()
	c := &stage{t: t, url: url, ids: map[string]uuid.UUID{}}
	c.store = storeAt(t, c.url)
	c.user = c.createUser(adaID)
	c.ids["completed"] = c.event(c.user, "A", 2020, func(e almanac.Event) (almanac.Event, error) { return e.Complete(e.Due.Add(1500 * time.Millisecond)) })
	c.ids["failed"] = c.event(c.user, "B", 2021, func(e almanac.Event) (almanac.Event, error) { return e.Fail("404\n\x1b[31mnobody there") })
	c.ids["overdue"] = c.event(c.user, "C", 2022, nil)
	c.ids["pending"] = c.event(c.createUser(graceID), "A", 2099, nil)
	return c
}

func (c *stage) createUser(id string) almanac.User {
	u, err := almanac.NewUser(almanac.Profile{ID: uuid.MustParse(id), FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "America/New_York"}, today)
	require.NoError(c.t, err)
	u, _, err = almanactest.CreateUser(c.t.Context(), c.store, u)
	require.NoError(c.t, err)
	return u
}

// event stores an event that is due on 15 March of a year, and ends it.
func (c *stage) event(u almanac.User, eventType string, year int, end func(almanac.Event) (almanac.Event, error)) uuid.UUID {
	h := march15{eventType, year}
	o, err := h.Next(u, today)
	require.NoError(c.t, err)
	e, err := almanac.NewEvent(u, h, almanac.Occurrence{Occurrence: o})
	require.NoError(c.t, err)
	_, err = c.store.EditUser(c.t.Context(), u.ID, func(almanac.Roster) (almanac.Edit, error) {
		return almanac.Edit{New: []almanac.Event{e}}, nil
	})
	require.NoError(c.t, err)
	if end == nil {
		return e.ID
	}
	claimed, err := e.Claim(uuid.New())
	require.NoError(c.t, err)
	claimed, err = c.store.Update(c.t.Context(), claimed, 1)
	require.NoError(c.t, err)
	ended, err := end(claimed)
	require.NoError(c.t, err)
	if ended.Version == claimed.Version {
		return e.ID // it stays in flight
	}
	_, err = c.store.Update(c.t.Context(), ended, 2)
	require.NoError(c.t, err)
	return e.ID
}

// march15 is the handler of one occurrence, at 09:00 UTC.
type march15 struct {
	eventType string
	year      int
}

func (h march15) EventType() string { return h.eventType }

func (h march15) Next(almanac.User, time.Time) (calendar.Occurrence, error) {
	at := time.Date(h.year, time.March, 15, 9, 0, 0, 0, time.UTC)
	return calendar.Occurrence{Key: "k", Wall: calendar.WallTimeOf(at)}, nil
}

func (march15) Payload(u almanac.User, _ almanac.Occurrence) (json.RawMessage, error) {
	return json.Marshal(map[string]string{"message": almanac.BirthdayMessage(u)})
}

func (march15) Channel(almanac.Event) almanac.Channel { return "webhook" }

func (c *stage) run(args ...string) result {
	c.t.Helper()
	return almanacAt(c.t, today, append(append([]string{"events"}, args...), "--database-url", c.url)...)
}

// listed returns whose ids a list of JSON has, by what they are called here.
func (c *stage) listed(out string) (found []string) {
	c.t.Helper()
	names := map[uuid.UUID]string{}
	for name, id := range c.ids {
		names[id] = name
	}
	for lines := bufio.NewScanner(strings.NewReader(out)); lines.Scan(); {
		var line struct{ ID uuid.UUID }
		require.NoError(c.t, json.Unmarshal(lines.Bytes(), &line))
		found = append(found, names[line.ID])
	}
	return found
}

func TestEventsAreFiltered(t *testing.T) {
	t.Parallel()
	c := stageOf(t)
	tests := map[string]struct{ args, want []string }{
		"all of them":              {nil, []string{"completed", "failed", "overdue", "pending"}},
		"by status":                {[]string{"--status", "failed"}, []string{"failed"}},
		"by status as it is shown": {[]string{"--status", "PENDING"}, []string{"overdue", "pending"}},
		"by type":                  {[]string{"--type", "A"}, []string{"completed", "pending"}},
		"by user":                  {[]string{"--user", graceID}, []string{"pending"}},
		"by a stranger":            {[]string{"--user", uuid.NewString()}, nil},
		"by the day":               {[]string{"--due-from", "2021-03-15", "--due-until", "2022-03-15"}, []string{"failed"}},
		"by the instant":           {[]string{"--due-from", "2021-03-15T09:00:00-04:00"}, []string{"failed", "overdue", "pending"}},
		"after the instant":        {[]string{"--due-from", "2021-03-15T13:00:00.001Z"}, []string{"overdue", "pending"}},
		"overdue":                  {[]string{"--overdue", "0s"}, []string{"overdue"}},
		"not overdue for so long":  {[]string{"--overdue", "1000000h"}, nil},
		"by two things":            {[]string{"--type", "A", "--status", "completed"}, []string{"completed"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := c.run(append([]string{"list", "--json"}, tt.args...)...)
			require.Equal(t, exitOK, r.code, r.errs)
			require.Empty(t, r.errs)
			require.Equal(t, tt.want, c.listed(r.out))
			require.NotContains(t, r.out, "Lovelace")
			require.NotContains(t, r.out, "payload")
		})
	}
}

func TestAListGoesOnWhereItEnded(t *testing.T) {
	t.Parallel()
	c := stageOf(t)
	first := c.run("list", "--json", "-n", "3")
	require.Equal(t, []string{"completed", "failed", "overdue"}, c.listed(first.out))
	cursor, ok := strings.CutPrefix(strings.TrimSuffix(first.errs, "\n"), "there are more: go on with --after ")
	require.True(t, ok, first.errs)
	rest := c.run("list", "--json", "--after", cursor)
	require.Equal(t, []string{"pending"}, c.listed(rest.out))
	require.Empty(t, rest.errs)
}

func TestALongListIsReadPageByPage(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	file := fileOf(t, "people.csv", crowdFile(2*listPage+1))
	r := almanacAt(t, today, "users", "import", file, "--id-from", "email", "--database-url", url)
	require.Equal(t, exitOK, r.code, r.errs)
	for limit, more := range map[string]bool{"2000": true, "2001": false, "1000000": false} {
		r := almanacAt(t, today, "events", "list", "-n", limit, "--database-url", url)
		require.Equal(t, exitOK, r.code, r.errs)
		want := 2 + 2*listPage // with the header
		if more {
			want--
		}
		require.Equal(t, want, strings.Count(r.out, "\n"), limit)
		require.Equal(t, 1, strings.Count(r.out, "WALL TIME"))
		require.Equal(t, more, strings.HasPrefix(r.errs, "there are more"), r.errs)
	}
}

func TestEventsAreListedAsATable(t *testing.T) {
	t.Parallel()
	c := stageOf(t)
	r := c.run("list", "--type", "B")
	require.Equal(t, exitOK, r.code, r.errs)
	id := c.ids["failed"].String()
	require.Equal(t, `
ID                                    STATUS  DUE                   WALL TIME            ZONE              TYPE  SERIES  KEY  FAILED ATTEMPTS  USER                                  REASON
`[1:]+id+`  FAILED  2021-03-15T13:00:00Z  2021-03-15T09:00:00  America/New_York  B             k    1                `+adaID+"  404  [31mnobody there\n", r.out)
	require.Equal(t, result{exitOK, "no events\n", ""}, c.run("list", "--type", "A", "--failed"))
}

func TestAnEventIsShown(t *testing.T) {
	t.Parallel()
	c := stageOf(t)
	failed, completed := c.ids["failed"].String(), c.ids["completed"].String()
	e, err := c.store.Event(t.Context(), c.ids["failed"])
	require.NoError(t, err)

	r := c.run("show", failed)

	require.Equal(t, exitOK, r.code, r.errs)
	require.Equal(t, `event       `+failed+`
user        `+adaID+`, planned from version 1
type        B
occurrence  k
status      FAILED
due         2021-03-15T13:00:00Z
wall time   2021-03-15T09:00:00 in America/New_York
policies    gap forward, fold first, leap day feb28, month end clamp
attempts    1 claim, 1 failed, 0 crashed
given up    404  [31mnobody there
lease       `+e.LeaseToken.String()+`
key         `+e.IdempotencyKey.String()+`
version     3, created `+instantText(e.CreatedAt)+`, updated `+instantText(e.UpdatedAt)+`
`, r.out)
	require.Contains(t, c.run("show", completed).out, "\nexecuted    2020-03-15T13:00:01.5Z, 1.500 s late\n")
	require.Contains(t, c.run("show", failed, "--payload").out, "\npayload     {\"message\": \"Hey, Ada Lovelace it's your birthday\"}\n")
	require.NotContains(t, c.run("show", failed, "--json").out, "Lovelace")
	require.JSONEq(t, `{
		"id": "`+failed+`", "userId": "`+adaID+`", "type": "B", "occurrenceKey": "k", "status": "FAILED",
		"due": "2021-03-15T13:00:00Z", "wall": "2021-03-15T09:00:00", "zone": "America/New_York",
		"policies": {"gap": "forward", "fold": "first", "leapDay": "feb28", "monthEnd": "clamp"},
		"failureReason": "404\n\u001b[31mnobody there", "retryCount": 1, "claimCount": 1, "crashCount": 0, "leaseToken": "`+e.LeaseToken.String()+`",
		"idempotencyKey": "`+e.IdempotencyKey.String()+`", "userVersion": 1, "version": 3,
		"createdAt": "`+instantText(e.CreatedAt)+`", "updatedAt": "`+instantText(e.UpdatedAt)+`",
		"payload": {"message": "Hey, Ada Lovelace it's your birthday"}
	}`, c.run("show", failed, "--json", "--payload").out)
}

func TestAnEventSaysWhatItsCalendarLacked(t *testing.T) {
	t.Parallel()
	e := almanac.Event{Policies: calendar.Policies{Missing: calendar.Missing{Month: calendar.MissingForward, Day: calendar.MissingSkip}}}
	var out strings.Builder
	require.NoError(t, eventReportOf(e).write(&out))
	require.Contains(t, out.String(), "month end clamp, missing month forward, missing day skip\n")
	text, err := json.Marshal(eventReportOf(e))
	require.NoError(t, err)
	require.Contains(t, string(text), `"monthEnd":"clamp","missingMonth":"forward","missingDay":"skip"}`)
}

func TestAnEventThatIsNotThereIsAFailure(t *testing.T) {
	t.Parallel()
	r := almanacAt(t, today, "events", "show", graceID, "--database-url", pgtest.URL(t))
	require.Equal(t, result{exitFailed, "", "almanac: no event " + graceID + "\n"}, r)
	for _, args := range [][]string{{"events", "list"}, {"events", "show", graceID}, {"users", "import", fileOf(t, "p.jsonl", "")}} {
		r = almanacAt(t, today, append(args, "--database-url", pgtest.EmptyURL(t))...)
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.errs, `there is no migrated schema "almanac" in this database`, args)
	}
}

// board has an event in each status and a late one, of users with names from everywhere.
func board(t *testing.T) *stage {
	t.Helper()
	c := stageOf(t)
	c.ids["cancelled"] = c.event(c.user, "D", 2023, func(e almanac.Event) (almanac.Event, error) {
		return e.Cancel("HTTP 410: \u202egone, and the receiver says at length why it will never be back again")
	})
	c.ids["processing"] = c.event(c.user, "E", 2026, func(e almanac.Event) (almanac.Event, error) { return e, nil })
	runSQL(t, c.url, "UPDATE almanac.users SET first_name = '花子', last_name = '山田' WHERE id = $1", graceID)
	return c
}

func (c *stage) allIDs() []uuid.UUID { return slices.Collect(maps.Values(c.ids)) }

func TestEventsFitTheTerminal(t *testing.T) {
	t.Parallel()
	c := board(t)
	for name, args := range map[string][]string{
		"events":   {"--names"},
		"failed":   {"--failed"},
		"reason":   {"--reason", "HTTP 4"},
		"upcoming": {"--upcoming"},
	} {
		for _, width := range []int{0, 200, 80, 40} {
			r := onScreen(t, terminal{width, width > 0}, slices.Concat([]string{"events", "list", "--database-url", c.url}, args)...)
			require.Equal(t, exitOK, r.code, r.errs)
			require.Empty(t, r.errs)
			checkGolden(t, fmt.Sprintf("%s-%d.txt", name, width), r.out, c.allIDs()...)
			checkFits(t, width, r.out)
		}
	}
}

func TestEventsAreOrdered(t *testing.T) {
	t.Parallel()
	c := board(t)
	tests := map[string]struct{ args, want []string }{
		"as created":                 {nil, []string{"completed", "failed", "overdue", "pending", "cancelled", "processing"}},
		"the newest first":           {[]string{"--newest"}, []string{"processing", "cancelled", "pending", "overdue", "failed", "completed"}},
		"the next first":             {[]string{"--upcoming"}, []string{"overdue", "pending"}},
		"the next of a user":         {[]string{"--upcoming", "--user", graceID}, []string{"pending"}},
		"those that are late":        {[]string{"--upcoming", "--overdue", "0s"}, []string{"overdue"}},
		"failed ones":                {[]string{"--failed"}, []string{"failed"}},
		"by a reason":                {[]string{"--reason", "404"}, []string{"failed"}},
		"by a reason that is longer": {[]string{"--reason", "4040"}, nil},
		"by a reason and a type":     {[]string{"--reason", "HTTP", "--type", "D", "--newest"}, []string{"cancelled"}},
		"failed for a reason":        {[]string{"--reason", "HTTP", "--failed"}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := c.run(append([]string{"list", "--json"}, tt.args...)...)
			require.Equal(t, exitOK, r.code, r.errs)
			require.Equal(t, tt.want, c.listed(r.out))
			require.NotContains(t, r.out, "Lovelace")
		})
	}
	r := c.run("list", "--reason", "4040")
	require.Equal(t, result{exitOK, "no events\n", "reasons are compared from their beginning, in the same case\n"}, r)
	for _, order := range [][]string{{"--newest"}, {"--upcoming"}} {
		var found []string
		for after := []string(nil); ; {
			r := c.run(slices.Concat([]string{"list", "--json", "-n", "1"}, order, after)...)
			require.Equal(t, exitOK, r.code, r.errs)
			found = append(found, c.listed(r.out)...)
			cursor, more := strings.CutPrefix(strings.TrimSuffix(r.errs, "\n"), "there are more: go on with --after ")
			if !more {
				break
			}
			after = []string{"--after", cursor}
		}
		require.Equal(t, c.listed(c.run(append([]string{"list", "--json"}, order...)...).out), found, "%s, an event at a time", order)
	}
}

// An operator sees what waits for another attempt, until when and why, and which failures are left to requeue.
func TestListsSayWhatIsStillToCome(t *testing.T) {
	t.Parallel()
	c := stageOf(t)
	until := time.Date(2099, time.May, 1, 8, 0, 0, 0, time.UTC)
	id := c.event(c.user, "D", 2023, func(e almanac.Event) (almanac.Event, error) {
		return e.Release(almanac.AfterSnooze, "535 wrong password", until)
	})
	for _, args := range [][]string{{"--upcoming"}, {"--overdue", "0s"}} {
		r := c.run(append([]string{"list", "--type", "D"}, args...)...)
		require.Regexp(t, `^ID +STATUS +DUE +NEXT +WALL TIME .* REASON\n`+id.String()+` +PENDING +2023-03-15T13:00:00Z +2099-05-01T08:00:00Z .* 535 wrong password\n$`, r.out)
	}
	require.Contains(t, c.run("list", "--type", "D", "--csv").out, ",2099-05-01T08:00:00Z,535 wrong password\n")

	require.NotContains(t, c.run("list", "--failed").out, "yes")
	require.Equal(t, "requeued 1 event\n", lastLine(c.run("requeue", "--reason", "404", "--yes")))
	require.Regexp(t, `^ID .* REQUEUED +REASON\n.* yes +404 .*\n$`, c.run("list", "--failed").out)
	require.Contains(t, c.run("list", "--reason", "404", "--json").out, `"requeued":true`)
	require.Equal(t, result{exitOK, "requeued 0 events\n", ""}, c.run("requeue", "--reason", "405", "--yes"))
}

func TestEventsAreWrittenForPrograms(t *testing.T) {
	t.Parallel()
	c := board(t)
	r := c.run("list", "--csv", "--names", "--newest")
	records, err := csv.NewReader(strings.NewReader(r.out)).ReadAll()
	require.NoError(t, err)
	require.Len(t, records, 7)
	require.Equal(t, []string{"id", "status", "due", "wall", "zone", "type", "series", "occurrenceKey", "retryCount", "userId", "failureReason", "availableAt", "lastError", "userName"}, records[0])
	require.Equal(t, []string{
		c.ids["failed"].String(), "FAILED", "2021-03-15T13:00:00Z", "2021-03-15T09:00:00", "America/New_York", "B", "", "k", "1", adaID, "404\n\x1b[31mnobody there", "", "", "Ada Lovelace",
	}, records[5], "programs get what is stored")
	require.NotContains(t, c.run("list", "--csv").out, "Lovelace")
	r = c.run("list", "--json", "--names", "--user", graceID)
	require.Contains(t, r.out, `"userName":"花子 山田"}`)
	require.Equal(t, "id,status,due,wall,zone,type,series,occurrenceKey,retryCount,userId,failureReason,availableAt,lastError\n", c.run("list", "--csv", "--type", "Z").out)

	require.Equal(t, exitOK, almanacAt(t, today, "pause", "A", "--database-url", c.url).code)
	require.Regexp(t, `^lane,since,until,author,reason\nA,[^,]+Z,,[^,]+,\n$`, almanacAt(t, today, "pauses", "--csv", "--database-url", c.url).out)
}
