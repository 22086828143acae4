package calendar_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/calendartest"
)

// readings lists clock readings of one day, "02:50 03:10".
func readings(t *testing.T, day, clocks string) calendartest.Listed {
	t.Helper()
	var l calendartest.Listed
	for clock := range strings.FieldsSeq(clocks) {
		l = append(l, wall(t, day+"T"+clock+":00"))
	}
	return l
}

// shownAfter returns up to n occurrences after an instant, one to a blank: each as
// clocks show it, with the day of the month and the offset from UTC, and behind a
// sign the wall time that was meant where a gap moved it. The series ends in "end"
// when there are no more, or in the kind of its error.
func shownAfter(t *testing.T, c changeCase, n int) string {
	t.Helper()
	var shown []string
	key := ""
	for next, err := range calendar.Occurrences(c.rule, zone(t, c.zone), c.policies, instant(t, c.after)) {
		if errors.Is(err, calendar.ErrRejectedWallTime) {
			return strings.Join(append(shown, "rejected"), " ")
		}
		if err != nil || next.Key <= key {
			t.Fatalf("after key %q: %+v, %v", key, next, err)
		}
		key = next.Key
		r := next.Resolution
		text := r.Instant.In(time.FixedZone("", int(r.Offset.Seconds()))).Format("02T15:04-0700")
		if r.Shown() != next.Wall {
			text += next.Wall.Labelled().Format("<02T15:04")
		}
		shown = append(shown, text)
		if len(shown) == n {
			return strings.Join(shown, " ")
		}
	}
	return strings.Join(append(shown, "end"), " ")
}

type changeCase struct {
	zone     string
	rule     calendar.Recurrence
	policies calendar.Policies
	after    string
	want     string // as shownAfter has it
}

func checkChanges(t *testing.T, tests map[string]changeCase) {
	t.Helper()
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got := shownAfter(t, tt, len(strings.Fields(tt.want)))

			if got != tt.want {
				t.Errorf("%+v in %s under %+v after %s = %s; want %s", tt.rule, tt.zone, tt.policies, tt.after, got, tt.want)
			}
		})
	}
}

var (
	forward  = calendar.Policies{Gap: calendar.GapForward}
	backward = calendar.Policies{Gap: calendar.GapBackward}
	boundary = calendar.Policies{Gap: calendar.GapBoundary}
	skipGap  = calendar.Policies{Gap: calendar.GapSkip}
	reject   = calendar.Policies{Gap: calendar.GapReject, Fold: calendar.FoldReject}
	second   = calendar.Policies{Fold: calendar.FoldSecond}
)

// rulesAt returns a rule of every kind that yields w, and on no day next to it.
func rulesAt(t *testing.T, w calendar.WallTime) map[string]calendar.Recurrence {
	t.Helper()
	d, c := w.Date, w.Clock
	weekday := w.Labelled().Weekday()
	begin := calendar.WallTime{Date: date(d.Year-1, d.Month, d.Day), Clock: c}
	return map[string]calendar.Recurrence{
		"once":         calendar.Once{At: w},
		"yearly":       calendar.Yearly{Month: d.Month, Day: d.Day, At: c},
		"monthly":      calendar.Monthly{Day: d.Day, At: c},
		"weekly":       calendar.Weekly{On: []time.Weekday{weekday}, At: c, Every: 2, From: d},
		"daily":        calendar.Daily{At: c, Every: 3, From: d},
		"yearly by":    yearlyOn(t, w),
		"RRULE yearly": rrule(t, "FREQ=YEARLY", begin.String()),
		"RRULE daily":  rrule(t, fmt.Sprintf("FREQ=DAILY;BYDAY=%.2s", strings.ToUpper(weekday.String())), begin.String()),
		"cron":         cron(t, fmt.Sprintf("%d %d * * %d", c.Minute, c.Hour, weekday)),
		"bounded":      calendar.Bounded{Rule: calendar.Daily{At: c}, Start: w, Count: 1},
		"listed":       calendartest.Listed{w},
	}
}

func TestEveryKindOfRuleCrossesAGap(t *testing.T) {
	t.Parallel()

	tests := map[string]struct{ zone, wall, forward, backward, boundary string }{
		"New York":                {"America/New_York", "2026-03-08T02:30:00", "08T03:30-0400", "08T01:30-0500", "08T03:00-0400"},
		"New York, first second":  {"America/New_York", "2026-03-08T02:00:00", "08T03:00-0400", "08T01:00-0500", "08T03:00-0400"},
		"New York, a second late": {"America/New_York", "2026-03-08T03:00:00", "08T03:00-0400", "08T03:00-0400", "08T03:00-0400"},
		"Berlin":                  {"Europe/Berlin", "2026-03-29T02:30:00", "29T03:30+0200", "29T01:30+0100", "29T03:00+0200"},
		"Lord Howe":               {"Australia/Lord_Howe", "2026-10-04T02:15:00", "04T02:45+1100", "04T01:45+1030", "04T02:30+1100"},
		"Apia, a day":             {"Pacific/Apia", "2011-12-30T09:00:00", "31T09:00+1400", "29T09:00-1000", "31T00:00+1400"},
		"Kwajalein, a day":        {"Pacific/Kwajalein", "1993-08-21T09:00:00", "22T09:00+1200", "20T09:00-1200", "22T00:00+1200"},
		"Sao Paulo, midnight":     {"America/Sao_Paulo", "2018-11-04T00:00:00", "04T01:00-0200", "03T23:00-0300", "04T01:00-0200"},
		"Cairo, midnight":         {"Africa/Cairo", "2024-04-26T00:30:00", "26T01:30+0300", "25T23:30+0200", "26T01:00+0300"},
		"Troll, two hours":        {"Antarctica/Troll", "2026-03-29T02:30:00", "29T04:30+0200", "29T00:30+0000", "29T03:00+0200"},
	}
	for name, tt := range tests {
		w := wall(t, tt.wall)
		after := w.Labelled().Add(-50 * time.Hour).Format(time.RFC3339) // ahead of every reading of w, and of nothing else
		cases := map[string]changeCase{}
		meant := ""
		if tt.forward != tt.backward {
			meant = w.Labelled().Format("<02T15:04")
		}
		for kind, rule := range rulesAt(t, w) {
			cases[name+", "+kind+", nothing said"] = changeCase{tt.zone, rule, calendar.Policies{}, after, tt.forward + meant}
			cases[name+", "+kind+", forward"] = changeCase{tt.zone, rule, forward, after, tt.forward + meant}
			cases[name+", "+kind+", backward"] = changeCase{tt.zone, rule, backward, after, tt.backward + meant}
			cases[name+", "+kind+", boundary"] = changeCase{tt.zone, rule, boundary, after, tt.boundary + meant}
			if tt.forward != tt.backward {
				cases[name+", "+kind+", reject"] = changeCase{tt.zone, rule, reject, after, "rejected"}
			}
		}
		checkChanges(t, cases)
		if tt.forward != tt.backward {
			checkSkipped(t, tt.zone, w)
		}
	}
}

// checkSkipped expects no rule to yield w, which a gap holds. What bounds count instead is the
// slot that follows.
func checkSkipped(t *testing.T, name string, w calendar.WallTime) {
	t.Helper()
	z, after := zone(t, name), w.Labelled().Add(-50*time.Hour)
	for kind, rule := range rulesAt(t, w) {
		got, err := calendar.Next(rule, z, skipGap, after)
		once := kind == "once" || kind == "listed"
		if once != errors.Is(err, calendar.ErrNoOccurrence) || !once && (err != nil || !w.Before(got.Wall)) {
			t.Errorf("%s: %s after %v = %+v, %v; want what follows %s", name, kind, after, got, err, w)
		}
	}
}

func TestEveryKindOfRuleCrossesAFold(t *testing.T) {
	t.Parallel()

	tests := map[string]struct{ zone, wall, first, second string }{
		"New York":               {"America/New_York", "2026-11-01T01:30:00", "01T01:30-0400", "01T01:30-0500"},
		"New York, last minute":  {"America/New_York", "2026-11-01T01:59:00", "01T01:59-0400", "01T01:59-0500"},
		"New York, a minute on":  {"America/New_York", "2026-11-01T02:00:00", "01T02:00-0500", "01T02:00-0500"},
		"Berlin":                 {"Europe/Berlin", "2026-10-25T02:30:00", "25T02:30+0200", "25T02:30+0100"},
		"Lord Howe":              {"Australia/Lord_Howe", "2026-04-05T01:45:00", "05T01:45+1100", "05T01:45+1030"},
		"Sao Paulo, before zero": {"America/Sao_Paulo", "2019-02-16T23:30:00", "16T23:30-0200", "16T23:30-0300"},
		"Cairo, before zero":     {"Africa/Cairo", "2024-10-31T23:00:00", "31T23:00+0300", "31T23:00+0200"},
		"Juneau, a day":          {"America/Juneau", "1867-10-19T09:00:00", "19T09:00+1502", "19T09:00-0857"},
		"Troll, two hours":       {"Antarctica/Troll", "2026-10-25T01:30:00", "25T01:30+0200", "25T01:30+0000"},
	}
	for name, tt := range tests {
		w := wall(t, tt.wall)
		after := w.Labelled().Add(-50 * time.Hour).Format(time.RFC3339)
		cases := map[string]changeCase{}
		for kind, rule := range rulesAt(t, w) {
			once := kind == "once" || kind == "listed" || kind == "bounded"
			end := func(shown string) string { // that it comes a single time
				if once {
					return shown + " end"
				}
				return shown
			}
			cases[name+", "+kind+", nothing said"] = changeCase{tt.zone, rule, calendar.Policies{}, after, end(tt.first)}
			cases[name+", "+kind+", first"] = changeCase{tt.zone, rule, calendar.Policies{Fold: calendar.FoldFirst}, after, end(tt.first)}
			cases[name+", "+kind+", second"] = changeCase{tt.zone, rule, second, after, end(tt.second)}
			if tt.first != tt.second {
				cases[name+", "+kind+", reject"] = changeCase{tt.zone, rule, reject, after, "rejected"}
			}
		}
		checkChanges(t, cases)
	}
}

func TestAMovedSlotIsDroppedNextToAnother(t *testing.T) {
	t.Parallel()

	const newYork, night = "America/New_York", "2026-03-08T05:30:00Z" // half past midnight
	on := func(clocks string) calendartest.Listed { return readings(t, "2026-03-08", clocks) }
	hourly, quarters := cron(t, "0 * * * *"), cron(t, "*/15 * * * *")
	const hours = "08T01:00-0500 08T03:00-0400 08T04:00-0400"
	const quarterHours = "08T01:30-0500 08T01:45-0500 08T03:00-0400 08T03:15-0400 08T03:30-0400 08T03:45-0400 08T04:00-0400"
	checkChanges(t, map[string]changeCase{
		"hourly, forward":                {newYork, hourly, forward, night, hours},
		"hourly, backward":               {newYork, hourly, backward, night, hours},
		"hourly, boundary":               {newYork, hourly, boundary, night, hours},
		"hourly, skip":                   {newYork, hourly, skipGap, night, hours},
		"quarters, forward":              {newYork, quarters, forward, "2026-03-08T06:15:00Z", quarterHours},
		"quarters, backward":             {newYork, quarters, backward, "2026-03-08T06:15:00Z", quarterHours},
		"quarters, boundary":             {newYork, quarters, boundary, "2026-03-08T06:15:00Z", quarterHours},
		"quarters, skip":                 {newYork, quarters, skipGap, "2026-03-08T06:15:00Z", quarterHours},
		"RRULE, hourly":                  {newYork, rrule(t, "FREQ=HOURLY", "2026-01-01T00:00:00"), forward, night, hours},
		"RRULE, quarters":                {newYork, rrule(t, "FREQ=MINUTELY;INTERVAL=15", "2026-01-01T00:00:00"), backward, "2026-03-08T06:15:00Z", quarterHours},
		"ten past, forward":              {newYork, cron(t, "10 * * * *"), forward, night, "08T01:10-0500 08T03:10-0400"},
		"ten past, backward":             {newYork, cron(t, "10 * * * *"), backward, night, "08T01:10-0500 08T03:10-0400"},
		"ten past, boundary":             {newYork, cron(t, "10 * * * *"), boundary, night, "08T01:10-0500 08T03:00-0400<08T02:10 08T03:10-0400"},
		"onto, forward":                  {newYork, on("02:30 03:30"), forward, night, "08T03:30-0400 end"},
		"onto, backward":                 {newYork, on("01:30 02:30"), backward, night, "08T01:30-0500 end"},
		"onto, boundary":                 {newYork, on("02:30 03:00"), boundary, night, "08T03:00-0400 end"},
		"past, forward":                  {newYork, on("02:50 03:10"), forward, night, "08T03:10-0400 end"},
		"past, backward":                 {newYork, on("01:30 02:20"), backward, night, "08T01:30-0500 end"},
		"short of, forward":              {newYork, on("02:10 03:11"), forward, night, "08T03:10-0400<08T02:10 08T03:11-0400 end"},
		"short of, backward":             {newYork, on("01:30 02:31"), backward, night, "08T01:30-0500 08T01:31-0500<08T02:31 end"},
		"short of, boundary":             {newYork, on("02:10 03:01"), boundary, night, "08T03:00-0400<08T02:10 08T03:01-0400 end"},
		"two in it, forward":             {newYork, on("02:10 02:50"), forward, night, "08T03:10-0400<08T02:10 08T03:50-0400<08T02:50 end"},
		"two in it, back":                {newYork, on("02:10 02:50"), backward, night, "08T01:10-0500<08T02:10 08T01:50-0500<08T02:50 end"},
		"two in it meet":                 {newYork, on("02:10 02:50"), boundary, night, "08T03:00-0400<08T02:10 end"},
		"three in it meet":               {newYork, on("02:00 02:10 02:50 03:05"), boundary, night, "08T03:00-0400<08T02:00 08T03:05-0400 end"},
		"one of two moves":               {newYork, on("02:10 02:50 03:30"), forward, night, "08T03:10-0400<08T02:10 08T03:30-0400 end"},
		"last before a gap":              {newYork, on("01:59 02:59"), backward, night, "08T01:59-0500 end"},
		"first of a gap":                 {newYork, on("02:00 04:00"), forward, night, "08T03:00-0400<08T02:00 08T04:00-0400 end"},
		"two cron hours":                 {newYork, cron(t, "15,30 2,3 * * *"), boundary, night, "08T03:00-0400<08T02:15 08T03:15-0400 08T03:30-0400 09T02:15-0400"},
		"two cron hours, b":              {newYork, cron(t, "15,30 2,3 * * *"), backward, night, "08T01:15-0500<08T02:15 08T01:30-0500<08T02:30 08T03:15-0400 08T03:30-0400"},
		"two cron hours, f":              {newYork, cron(t, "15,30 2,3 * * *"), forward, night, "08T03:15-0400 08T03:30-0400 09T02:15-0400"},
		"an excepted one":                {newYork, calendar.Bounded{Rule: on("02:30 03:30"), Except: on("03:30")}, forward, night, "08T03:30-0400<08T02:30 end"},
		"one beyond the end":             {newYork, calendar.Bounded{Rule: on("02:30 03:30"), End: wall(t, "2026-03-08T03:00:00")}, forward, night, "08T03:30-0400<08T02:30 end"},
		"one uncounted":                  {newYork, calendar.Bounded{Rule: on("02:30 03:30"), Start: wall(t, "2026-03-08T00:00:00"), Count: 1}, forward, night, "08T03:30-0400<08T02:30 end"},
		"moved, from the instant itself": {newYork, on("02:30 03:31"), forward, "2026-03-08T07:30:00Z", "08T03:31-0400 end"},
		"moved, still ahead":             {newYork, on("02:30"), forward, "2026-03-08T07:29:59Z", "08T03:30-0400<08T02:30 end"},
		"Berlin, hourly":                 {"Europe/Berlin", hourly, forward, "2026-03-28T23:30:00Z", "29T01:00+0100 29T03:00+0200"},
	})
}

func TestASlotMovedByAnOddGapIsDropped(t *testing.T) {
	t.Parallel()

	const (
		apia, lastDay      = "Pacific/Apia", "2011-12-29T12:00:00Z" // 02:00 on the 29th, the day before the one that is skipped
		lordHowe, before   = "Australia/Lord_Howe", "2026-10-03T14:00:00Z"
		saoPaulo, november = "America/Sao_Paulo", "2018-11-04T01:30:00Z"
		cairo, april       = "Africa/Cairo", "2024-04-25T20:30:00Z"
	)
	hourly, quarters := cron(t, "0 * * * *"), cron(t, "*/15 * * * *")
	nine := calendar.Clock{Hour: 9}
	daily, midnight := calendar.Daily{At: nine}, calendar.Daily{}
	weekly := func(on ...time.Weekday) calendar.Weekly { return calendar.Weekly{On: on, At: nine} }
	const thursday, friday, saturday = time.Thursday, time.Friday, time.Saturday // the 29th, 30th and 31st
	checkChanges(t, map[string]changeCase{
		"daily in Apia, forward":               {apia, daily, forward, lastDay, "29T09:00-1000 31T09:00+1400 01T09:00+1400"},
		"daily in Apia, backward":              {apia, daily, backward, lastDay, "29T09:00-1000 31T09:00+1400 01T09:00+1400"},
		"daily in Apia, boundary":              {apia, daily, boundary, lastDay, "29T09:00-1000 31T00:00+1400<30T09:00 31T09:00+1400"},
		"daily in Apia, skip":                  {apia, daily, skipGap, lastDay, "29T09:00-1000 31T09:00+1400 01T09:00+1400"},
		"midnight in Apia, boundary":           {apia, midnight, boundary, lastDay, "31T00:00+1400 01T00:00+1400"},
		"hourly in Apia":                       {apia, hourly, forward, "2011-12-30T08:30:00Z", "29T23:00-1000 31T00:00+1400 31T01:00+1400"},
		"hourly in Apia, backward":             {apia, hourly, backward, "2011-12-30T08:30:00Z", "29T23:00-1000 31T00:00+1400 31T01:00+1400"},
		"Fridays in Apia, forward":             {apia, weekly(friday), forward, lastDay, "31T09:00+1400<30T09:00 06T09:00+1400"},
		"Fridays in Apia, skip":                {apia, weekly(friday), skipGap, lastDay, "06T09:00+1400"},
		"Thursdays and Fridays, backward":      {apia, weekly(thursday, friday), backward, lastDay, "29T09:00-1000 05T09:00+1400"},
		"Thursdays and Fridays, forward":       {apia, weekly(thursday, friday), forward, lastDay, "29T09:00-1000 31T09:00+1400<30T09:00 05T09:00+1400"},
		"Fridays and Saturdays, forward":       {apia, weekly(friday, saturday), forward, lastDay, "31T09:00+1400 06T09:00+1400"},
		"Fridays and Saturdays, backward":      {apia, weekly(friday, saturday), backward, lastDay, "29T09:00-1000<30T09:00 31T09:00+1400 06T09:00+1400"},
		"from the moved day's last hour":       {apia, calendar.Weekly{On: []time.Weekday{friday}, At: calendar.Clock{Hour: 23, Minute: 45}}, forward, "2011-12-31T09:30:00Z", "31T23:45+1400<30T23:45"},
		"from the moved day's morning":         {apia, weekly(friday), forward, "2011-12-30T18:59:59Z", "31T09:00+1400<30T09:00"},
		"hourly in Lord Howe, forward":         {lordHowe, hourly, forward, before, "04T01:00+1030 04T02:30+1100<04T02:00 04T03:00+1100"},
		"hourly in Lord Howe, backward":        {lordHowe, hourly, backward, before, "04T01:00+1030 04T01:30+1030<04T02:00 04T03:00+1100"},
		"hourly in Lord Howe, boundary":        {lordHowe, hourly, boundary, before, "04T01:00+1030 04T02:30+1100<04T02:00 04T03:00+1100"},
		"hourly in Lord Howe, skip":            {lordHowe, hourly, skipGap, before, "04T01:00+1030 04T03:00+1100"},
		"quarters in Lord Howe, forward":       {lordHowe, quarters, forward, "2026-10-03T15:14:00Z", "04T01:45+1030 04T02:30+1100 04T02:45+1100"},
		"quarters in Lord Howe, backward":      {lordHowe, quarters, backward, "2026-10-03T15:14:00Z", "04T01:45+1030 04T02:30+1100 04T02:45+1100"},
		"twenties in Lord Howe, backward":      {lordHowe, cron(t, "*/20 * * * *"), backward, "2026-10-03T14:49:00Z", "04T01:20+1030 04T01:40+1030 04T01:50+1030<04T02:20 04T02:40+1100"},
		"twenties in Lord Howe, forward":       {lordHowe, cron(t, "*/20 * * * *"), forward, "2026-10-03T15:09:00Z", "04T01:40+1030 04T02:30+1100<04T02:00 04T02:40+1100"},
		"midnight in Sao Paulo, forward":       {saoPaulo, midnight, forward, november, "04T01:00-0200<04T00:00 05T00:00-0200"},
		"midnight in Sao Paulo, backward":      {saoPaulo, midnight, backward, november, "03T23:00-0300<04T00:00 05T00:00-0200"},
		"midnight in Sao Paulo, skip":          {saoPaulo, midnight, skipGap, november, "05T00:00-0200"},
		"hourly in Sao Paulo":                  {saoPaulo, hourly, backward, november, "03T23:00-0300 04T01:00-0200 04T02:00-0200"},
		"every twelve hours in Cairo, forward": {cairo, cron(t, "0 */12 * * *"), forward, april, "26T01:00+0300<26T00:00 26T12:00+0300"},
		"half past zero and one in Cairo":      {cairo, cron(t, "30 0,1 * * *"), forward, april, "26T01:30+0300 27T00:30+0300"},
		"half past zero and one, backward":     {cairo, cron(t, "30 0,1 * * *"), backward, april, "25T23:30+0200<26T00:30 26T01:30+0300 27T00:30+0300"},
	})
}

func TestAWallTimeShownTwiceHappensOnce(t *testing.T) {
	t.Parallel()

	const newYork, before = "America/New_York", "2026-11-01T04:30:00Z" // half past midnight
	hourly := cron(t, "0 * * * *")
	checkChanges(t, map[string]changeCase{
		"hourly, first":             {newYork, hourly, calendar.Policies{}, before, "01T01:00-0400 01T02:00-0500 01T03:00-0500"},
		"hourly, second":            {newYork, hourly, second, before, "01T01:00-0500 01T02:00-0500"},
		"hourly, rejected":          {newYork, hourly, reject, before, "rejected"},
		"hourly, rejected and past": {newYork, hourly, reject, "2026-11-01T05:00:00Z", "01T02:00-0500 01T03:00-0500"},
		"half hours, first":         {newYork, cron(t, "*/30 * * * *"), calendar.Policies{}, before, "01T01:00-0400 01T01:30-0400 01T02:00-0500"},
		"half hours, second":        {newYork, cron(t, "*/30 * * * *"), second, before, "01T01:00-0500 01T01:30-0500 01T02:00-0500"},
		"from the first showing":    {newYork, hourly, second, "2026-11-01T05:45:00Z", "01T01:00-0500 01T02:00-0500"},
		"from between the showings": {newYork, cron(t, "30 1 * * *"), second, "2026-11-01T06:00:00Z", "01T01:30-0500 02T01:30-0500"},
		"from the second showing":   {newYork, cron(t, "30 1 * * *"), calendar.Policies{}, "2026-11-01T06:15:00Z", "02T01:30-0500"},
		"hourly in Lord Howe":       {"Australia/Lord_Howe", hourly, calendar.Policies{}, "2026-04-04T13:30:00Z", "05T01:00+1100 05T02:00+1030"},
		"hourly in Sao Paulo":       {"America/Sao_Paulo", hourly, second, "2019-02-17T00:30:00Z", "16T23:00-0300 17T00:00-0300"},
		"hourly in Cairo":           {"Africa/Cairo", hourly, calendar.Policies{}, "2024-10-31T19:30:00Z", "31T23:00+0300 01T00:00+0200"},
		"a day twice in Juneau":     {"America/Juneau", calendar.Daily{At: calendar.Clock{Hour: 9}}, calendar.Policies{}, "1867-10-17T00:00:00Z", "18T09:00+1502 19T09:00+1502 20T09:00-0857"},
		"a day twice, second":       {"America/Juneau", calendar.Daily{At: calendar.Clock{Hour: 9}}, second, "1867-10-17T00:00:00Z", "18T09:00+1502 19T09:00-0857 20T09:00-0857"},
	})
}

// With a leap day policy that skips, a birthday on 29 February comes in 2096 and then in 2104.
func TestTheLeapDayAroundACentury(t *testing.T) {
	t.Parallel()

	leap := calendar.Yearly{Month: time.February, Day: 29, At: calendar.Clock{Hour: 9}}
	tests := map[calendar.LeapDayPolicy]string{"": "2097-02-28", calendar.LeapDayFeb28: "2097-02-28", calendar.LeapDayMar1: "2097-03-01", calendar.LeapDaySkip: "2104-02-29"}
	for policy, want := range tests {
		got, err := calendar.Next(leap, zone(t, "Europe/London"), calendar.Policies{LeapDay: policy}, instant(t, "2096-03-01T00:00:00Z"))
		if err != nil || got.Wall.Date.String() != want || got.Key != want[:4] {
			t.Errorf("under %q comes %+v, %v; want %s", policy, got, err, want)
		}
	}
}

// A day has 86,400 seconds, and Apia's clocks skipped all of one.
func TestEverySecondPassesOverASkippedDay(t *testing.T) {
	t.Parallel()

	apia, every := zone(t, "Pacific/Apia"), cron(t, "* * * * * *")
	last := instant(t, "2011-12-30T09:59:59Z")

	got, err := calendar.Next(every, apia, calendar.Policies{}, last)

	if err != nil || got.Wall != wall(t, "2011-12-31T00:00:00") {
		t.Errorf("after the last second of the 29th comes %+v, %v; want the first of the 31st", got, err)
	}
}

func TestOccurrencesEndWithTheSeries(t *testing.T) {
	t.Parallel()

	newYork, after := zone(t, "America/New_York"), instant(t, "2026-03-06T12:00:00Z")
	var errs []error
	days := 0
	for next, err := range calendar.Occurrences(calendar.Daily{At: calendar.Clock{Hour: 2, Minute: 30}}, newYork, reject, after) {
		if days++; err != nil {
			errs = append(errs, err)
			continue
		}
		if r, err := newYork.Resolve(next.Wall, reject); err != nil || r != next.Resolution {
			t.Errorf("%+v is not what Resolve says: %+v, %v", next.Resolution, r, err)
		}
	}
	if days != 2 || len(errs) != 1 || !errors.Is(errs[0], calendar.ErrRejectedWallTime) {
		t.Errorf("%d days with the errors %v; want the 7th and, for the 8th, one rejection", days, errs)
	}
	for next, err := range calendar.Occurrences(calendar.Daily{}, calendar.Timezone{}, calendar.Policies{}, after) {
		if !errors.Is(err, calendar.ErrInvalidTimezone) {
			t.Errorf("without a zone: %+v, %v; want ErrInvalidTimezone", next, err)
		}
	}
	for next, err := range calendar.Occurrences(calendartest.Listed{}, newYork, calendar.Policies{}, after) {
		t.Errorf("of nothing comes %+v, %v", next, err)
	}
}

// stuck is a host's recurrence that does not keep its word.
type stuck struct{ at calendar.WallTime }

func (s stuck) After(calendar.WallTime, calendar.Policies) (calendar.Slot, error) {
	return calendar.Slot{Key: "stuck", Wall: s.at}, nil
}

func TestNextEndsForEveryRule(t *testing.T) {
	t.Parallel()

	got, err := calendar.Next(stuck{wall(t, "2026-01-01T00:00:00")}, zone(t, "UTC"), calendar.Policies{}, instant(t, "2026-06-01T00:00:00Z"))

	if err == nil {
		t.Errorf("a rule that yields the past for ever: %+v, want an error", got)
	}
}
