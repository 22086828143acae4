package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/contrib/calendars"
	"github.com/almanac-go/almanac/internal/pgtest"
)

func TestAWebhookNamesItsUser(t *testing.T) {
	t.Parallel()
	for names, want := range map[string]map[string]any{
		"":                 nil,
		"crm,team,missing": {"crm": "A-17", "team": map[string]any{"id": 4.0}},
	} {
		h := listen(t, http.StatusOK)
		p := launch(t, append(h.flags(), "-database-url", pgtest.URL(t), "-webhook-attributes", names)...)
		moment := soon(2 * time.Second)
		status, answer := p.send("POST", "/user", fmt.Sprintf(`{"firstName":"Ada","lastName":"Lovelace","dateOfBirth":"1992-%s","timezone":"UTC",
			"attributes":{"deliverAt":%q,"crm":"A-17","team":{"id":4},"secret":"shoe size"}}`, moment.Format("01-02"), moment.Format(time.TimeOnly)))
		require.Equal(t, http.StatusCreated, status, answer)

		var body map[string]any
		require.NoError(t, json.Unmarshal([]byte(h.next().body), &body))

		require.Equal(t, answer["user"].(map[string]any)["id"], body["userId"])
		require.Equal(t, "Hey, Ada Lovelace it's your birthday", body["message"])
		if want == nil {
			require.NotContains(t, body, "attributes")
		} else {
			require.Equal(t, want, body["attributes"])
		}
		status, _ = p.send("POST", "/user", newborn(`{"crm":"`+strings.Repeat("x", 5<<10)+`"}`))
		require.Equal(t, map[bool]int{true: http.StatusCreated, false: http.StatusBadRequest}[want == nil], status)
		require.Equal(t, 0, p.stop())
	}
}

func TestARetryCanLastDays(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]almanac.RetryPolicy{
		"":                               {Attempts: 3, First: 10 * time.Second},
		"-patient-retry":                 almanac.PatientRetry(),
		"-attempts=5 -retry-first=1m":    {Attempts: 5, First: time.Minute},
		"-patient-retry=false -attempts": {},
	} {
		c, err := parse(append([]string{"-webhook-url", "https://example.com/"}, strings.Fields(args)...), environment())
		if want == (almanac.RetryPolicy{}) {
			require.Error(t, err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, want, c.handlers()[0].(greeter).Settings().RetryPolicy, args)
	}
}

// A payload has 64 KiB, whatever the attributes hold.
func TestAttributesFitIntoAWebhook(t *testing.T) {
	t.Parallel()
	c, err := parse([]string{"-webhook-url", "https://example.com/", "-webhook-attributes", "a,b,c,d,e,f,g,h,i,j"}, environment())
	require.NoError(t, err)
	g := c.handlers()[0].(greeter)
	fitting, long := make(map[string]string), make(map[string]string)
	for _, name := range c.hook.names() {
		fitting[name], long[name] = strings.Repeat("x", maxAttribute-2), strings.Repeat("x", maxAttribute)
	}
	for _, tt := range []struct {
		attributes map[string]string
		carried    int
	}{{fitting, maxAttributes}, {long, 0}} {
		attributes, err := json.Marshal(tt.attributes)
		require.NoError(t, err)
		payload, err := g.Payload(almanac.User{Attributes: attributes}, almanac.Occurrence{})
		require.NoError(t, err)
		require.Less(t, len(payload), 64<<10)
		var told struct{ Attributes map[string]string }
		require.NoError(t, json.Unmarshal(payload, &told))
		require.Len(t, told.Attributes, tt.carried)
	}
	_, err = parse([]string{"-webhook-url", "https://example.com/", "-webhook-attributes", "a,b,c,d,e,f,g,h,i,j,k"}, environment())
	require.ErrorContains(t, err, "more than 10 attributes")
}

// later is the Hebrew calendar under another name, with days that come a number of days later.
type later struct {
	calendar.System
	name, release string
	days          int
}

func (l later) Info() calendar.SystemInfo {
	info := l.System.Info()
	info.Name, info.Release = l.name, l.release
	return info
}

func (l later) Day(d calendar.Date) (calendar.SystemDate, error) {
	return l.System.Day(d.AddDays(-l.days))
}

func (l later) Date(d calendar.SystemDate) (calendar.Date, error) {
	date, err := l.System.Date(d)
	if err != nil {
		return date, err
	}
	return date.AddDays(l.days), nil
}

// The greeters hide what the handlers in them say. A corrected calendar moves their events nevertheless.
func TestACorrectedCalendarMovesGreetings(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.November, 29, 10, 0, 0, 0, time.UTC)
	store := almanactest.NewRepository(func() time.Time { return now })
	program := func(of later) almanac.Scheduler {
		require.NoError(t, calendar.RegisterSystems(of))
		c, err := parse([]string{"-webhook-url", "https://example.com/"}, environment())
		require.NoError(t, err)
		registry, err := almanac.NewRegistry(c.handlers()...)
		require.NoError(t, err)
		s, err := almanac.NewScheduler(store, registry)
		require.NoError(t, err)
		_, err = s.Reconcile(t.Context(), almanac.ReconcileOptions{})
		require.NoError(t, err)
		return s
	}
	days := func() (all []string) {
		found, err := store.Find(t.Context(), almanac.InStatus(almanac.Pending), almanac.Page{})
		require.NoError(t, err)
		for _, e := range found.Items {
			all = append(all, e.OccurrenceKey+" "+e.Wall.Date.String())
		}
		return all
	}
	name := "hebrew-" + strings.ToLower(rand.Text())
	_, err := program(later{calendars.Hebrew(), name, "2026-01-01", 1}).CreateUser(t.Context(), almanac.Profile{
		FirstName: "Ada", LastName: "Levi", DateOfBirth: "5774-05L-08", Calendar: name, Timezone: "Asia/Jerusalem"})
	require.NoError(t, err)
	require.Equal(t, []string{"5787 2027-02-16"}, days())
	program(later{calendars.Hebrew(), name, "2026-02-01", 0})
	require.Equal(t, []string{"5787 2027-02-15"}, days())
}
