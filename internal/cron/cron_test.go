package cron_test

import (
	"testing"
	"time"

	"github.com/almanac-go/almanac/internal/cron"
)

// 2026-03-01 is a Sunday, and 2028 the next leap year.
func TestSchedule_Next(t *testing.T) {
	t.Parallel()

	tests := map[string]struct{ expr, after, want string }{
		"the next minute":                           {"* * * * *", "2026-03-01 12:00:00", "2026-03-01 12:01:00"},
		"the next second":                           {"* * * * * *", "2026-03-01 12:00:00", "2026-03-01 12:00:01"},
		"a reading is not after itself":             {"0 9 * * *", "2026-03-01 09:00:00", "2026-03-02 09:00:00"},
		"a second before it is enough":              {"0 9 * * *", "2026-03-01 08:59:59", "2026-03-01 09:00:00"},
		"five fields mean second 0":                 {"59 23 * * *", "2026-03-01 23:58:00", "2026-03-01 23:59:00"},
		"six fields begin with the second":          {"15,45 30 9 * * *", "2026-03-01 09:30:15", "2026-03-01 09:30:45"},
		"the seconds carry over to the minute":      {"15,45 30-31 9 * * *", "2026-03-01 09:30:45", "2026-03-01 09:31:15"},
		"the minutes carry over to the hour":        {"15,45 30-31 9-10 * * *", "2026-03-01 09:31:45", "2026-03-01 10:30:15"},
		"the hours carry over to the day":           {"15,45 30-31 9-10 * * *", "2026-03-01 10:31:45", "2026-03-02 09:30:15"},
		"the year carries over":                     {"* * * * * *", "2026-12-31 23:59:59", "2027-01-01 00:00:00"},
		"a * has the last second":                   {"* * * * * *", "2026-03-01 12:00:58", "2026-03-01 12:00:59"},
		"a later second of another minute waits":    {"30 10 9 * * *", "2026-03-01 09:05:00", "2026-03-01 09:10:30"},
		"a later minute of another hour waits":      {"30 9 * * *", "2026-03-01 08:05:00", "2026-03-01 09:30:00"},
		"a later hour of another day waits":         {"0 9 13 * *", "2026-03-01 08:00:00", "2026-03-13 09:00:00"},
		"a day of another month waits":              {"0 9 1 JAN *", "2026-03-01 08:00:00", "2027-01-01 09:00:00"},
		"a step counts from the start":              {"*/25 * * * *", "2026-03-01 12:25:00", "2026-03-01 12:50:00"},
		"a step does not cross the hour":            {"*/25 * * * *", "2026-03-01 12:50:00", "2026-03-01 13:00:00"},
		"a step within a range":                     {"10-20/3 * * * *", "2026-03-01 12:13:00", "2026-03-01 12:16:00"},
		"a step ends with its range":                {"10-20/3 * * * *", "2026-03-01 12:19:00", "2026-03-01 13:10:00"},
		"a step from a value goes to the end":       {"7/15 * * * *", "2026-03-01 12:37:00", "2026-03-01 12:52:00"},
		"a step as long as the field is the first":  {"*/60 */24 * * *", "2026-03-01 00:00:00", "2026-03-02 00:00:00"},
		"lists mix ranges and values":               {"0 8-9,17 * * *", "2026-03-01 09:00:00", "2026-03-01 17:00:00"},
		"leading zeros are decimal":                 {"08 09 * * *", "2026-03-01 00:00:00", "2026-03-01 09:08:00"},
		"months skip over the year":                 {"0 0 1 JAN *", "2026-03-01 00:00:00", "2027-01-01 00:00:00"},
		"month names make ranges":                   {"0 0 1 jun-AUG/2 *", "2026-06-01 00:00:00", "2026-08-01 00:00:00"},
		"a month without the day is passed over":    {"0 0 31 * *", "2026-03-31 00:00:00", "2026-05-31 00:00:00"},
		"weekday names make ranges":                 {"0 0 * * mon-FRI", "2026-03-06 00:00:00", "2026-03-09 00:00:00"},
		"0 is Sunday":                               {"0 0 * * 0", "2026-03-02 00:00:00", "2026-03-08 00:00:00"},
		"7 is Sunday":                               {"0 0 * * 7", "2026-03-02 00:00:00", "2026-03-08 00:00:00"},
		"a range up to 7 has Sunday":                {"0 0 * * 6-7", "2026-03-07 00:00:00", "2026-03-08 00:00:00"},
		"a range up to SUN has Sunday":              {"0 0 * * FRI-SUN", "2026-03-07 00:00:00", "2026-03-08 00:00:00"},
		"a range up to SUN has no Monday":           {"0 0 * * FRI-SUN", "2026-03-08 00:00:00", "2026-03-13 00:00:00"},
		"a range from SUN to SUN is a day":          {"0 0 * * SUN-SUN", "2026-03-01 00:00:00", "2026-03-08 00:00:00"},
		"a step from MON ends on Saturday":          {"0 0 * * MON/2", "2026-03-06 00:00:00", "2026-03-09 00:00:00"},
		"a step from Sunday as 7 is Sunday":         {"0 0 * * 7/2", "2026-03-01 00:00:00", "2026-03-08 00:00:00"},
		"? is * for the day of the month":           {"0 0 ? * MON", "2026-03-01 00:00:00", "2026-03-02 00:00:00"},
		"? is * for the day of the week":            {"0 0 13 * ?", "2026-03-01 00:00:00", "2026-03-13 00:00:00"},
		"either restricted day, by date":            {"0 0 13 * 5", "2026-04-10 00:00:00", "2026-04-13 00:00:00"},
		"either restricted day, by weekday":         {"0 0 13 * 5", "2026-04-13 00:00:00", "2026-04-17 00:00:00"},
		"a * with a step does not restrict":         {"0 0 */2 * 1", "2026-03-01 00:00:00", "2026-03-09 00:00:00"},
		"nor one in the day of the week":            {"0 0 13 * */2", "2026-03-01 00:00:00", "2026-06-13 00:00:00"},
		"nor a ? with a step":                       {"0 0 ?/2 * 1", "2026-03-01 00:00:00", "2026-03-09 00:00:00"},
		"a * at the end of a list restricts":        {"0 0 13,* * 1", "2026-03-03 00:00:00", "2026-03-04 00:00:00"},
		"L is the 31st":                             {"0 0 L * *", "2026-03-30 00:00:00", "2026-03-31 00:00:00"},
		"L is the 28th":                             {"0 0 l * *", "2026-02-01 00:00:00", "2026-02-28 00:00:00"},
		"L is the 29th":                             {"0 0 L 2 *", "2026-03-01 00:00:00", "2027-02-28 00:00:00"},
		"L is the 29th in a leap year":              {"0 0 L 2 *", "2027-03-01 00:00:00", "2028-02-29 00:00:00"},
		"L in a list":                               {"0 0 15,L * *", "2026-04-15 00:00:00", "2026-04-30 00:00:00"},
		"L-3 is the 28th of 31":                     {"0 0 L-3 * *", "2026-03-01 00:00:00", "2026-03-28 00:00:00"},
		"L-1 is the day before the last":            {"0 0 l-1 * *", "2026-04-01 00:00:00", "2026-04-29 00:00:00"},
		"L-27 is the 1st of 28":                     {"0 0 L-27 2 *", "2026-01-01 00:00:00", "2026-02-01 00:00:00"},
		"L-30 is in long months only":               {"0 0 L-30 * *", "2026-03-01 00:00:00", "2026-05-01 00:00:00"},
		"L-28 is in leap years only":                {"0 0 L-28 2 *", "2026-01-01 00:00:00", "2028-02-01 00:00:00"},
		"15W on a Sunday is the 16th":               {"0 0 15W * *", "2026-03-01 00:00:00", "2026-03-16 00:00:00"},
		"15W on a Saturday is the 14th":             {"0 0 15W * *", "2026-08-01 00:00:00", "2026-08-14 00:00:00"},
		"15W on a Wednesday is the 15th":            {"0 0 15w * *", "2026-04-01 00:00:00", "2026-04-15 00:00:00"},
		"1W on a Saturday is the 3rd":               {"0 0 1W * *", "2026-08-01 00:00:00", "2026-08-03 00:00:00"},
		"1W on a Sunday is the 2nd":                 {"0 0 1W * *", "2026-11-01 00:00:00", "2026-11-02 00:00:00"},
		"31W on a Sunday is the 29th":               {"0 0 31W * *", "2026-05-01 00:00:00", "2026-05-29 00:00:00"},
		"31W on a Saturday is the 30th":             {"0 0 31W * *", "2026-10-01 00:00:00", "2026-10-30 00:00:00"},
		"31W is in long months only":                {"0 0 31W * *", "2026-03-31 00:00:00", "2026-05-29 00:00:00"},
		"LW is the last weekday":                    {"0 0 LW * *", "2026-02-01 00:00:00", "2026-02-27 00:00:00"},
		"LW is the last day if that is one":         {"0 0 lw * *", "2026-03-01 00:00:00", "2026-03-31 00:00:00"},
		"two days with a W in a list":               {"0 0 16W,2 * *", "2026-05-02 00:00:00", "2026-05-15 00:00:00"},
		"a W is a restriction":                      {"0 0 15W * SUN", "2026-03-15 00:00:00", "2026-03-16 00:00:00"},
		"the last Friday":                           {"0 0 * * 5L", "2026-03-01 00:00:00", "2026-03-27 00:00:00"},
		"the last Sunday, by name":                  {"0 0 * * sunl", "2026-03-01 00:00:00", "2026-03-29 00:00:00"},
		"the last Sunday, as 7":                     {"0 0 * * 7L", "2026-03-01 00:00:00", "2026-03-29 00:00:00"},
		"the second Friday":                         {"0 0 * * FRI#2", "2026-03-01 00:00:00", "2026-03-13 00:00:00"},
		"the first Sunday":                          {"0 0 * * 7#1", "2026-03-01 00:00:00", "2026-04-05 00:00:00"},
		"the fifth Monday, when there is one":       {"0 0 * * 1#5", "2026-03-31 00:00:00", "2026-06-29 00:00:00"},
		"a counted weekday in a list":               {"0 0 * * 1#1,WED", "2026-03-01 00:00:00", "2026-03-02 00:00:00"},
		"a counted weekday is a restriction":        {"0 0 13 * 1#1", "2026-03-02 00:00:00", "2026-03-13 00:00:00"},
		"yearly":                                    {"@yearly", "2026-01-01 00:00:00", "2027-01-01 00:00:00"},
		"annually":                                  {"@annually", "2026-01-01 00:00:00", "2027-01-01 00:00:00"},
		"monthly":                                   {"@monthly", "2026-03-01 00:00:00", "2026-04-01 00:00:00"},
		"weekly":                                    {"@weekly", "2026-03-01 00:00:00", "2026-03-08 00:00:00"},
		"daily":                                     {"@daily", "2026-03-01 00:00:00", "2026-03-02 00:00:00"},
		"midnight":                                  {"@midnight", "2026-03-01 00:00:00", "2026-03-02 00:00:00"},
		"hourly":                                    {"@hourly", "2026-03-01 00:00:00", "2026-03-01 01:00:00"},
		"29 February over a century that has none":  {"0 0 29 2 *", "2096-02-29 00:00:00", "2104-02-29 00:00:00"},
		"a Sunday 29 February, forty years later":   {"0 0 29 2 */7", "2088-02-29 00:00:00", "2128-02-29 00:00:00"},
		"a fifth Monday in February, at last":       {"0 0 ? 2 1#5", "2072-02-29 00:00:00", "2112-02-29 00:00:00"},
		"the first reading of all":                  {"* * * * * *", "0000-12-31 23:59:59", "0001-01-01 00:00:00"},
		"all of year 0 is before it":                {"0 0 1 1 *", "0000-01-01 00:00:00", "0001-01-01 00:00:00"},
		"L is not the day before year 1":            {"0 9 L * WED", "0000-06-01 08:00:00", "0001-01-03 09:00:00"},
		"the last reading of all":                   {"59 59 23 31 12 *", "9998-12-31 23:59:59", "9999-12-31 23:59:59"},
		"none after the last":                       {"* * * * * *", "9999-12-31 23:59:59", ""},
		"none in what is left of the last year":     {"0 0 1 1 *", "9999-01-01 00:00:00", ""},
		"none in what is left of the last cycle":    {"0 0 29 2 *", "9996-02-29 00:00:00", ""},
		"30 February never happens":                 {"0 0 30 2 *", "2026-03-01 00:00:00", ""},
		"nor do other days beyond their months":     {"0 0 31 2,4,6,9,11 *", "2026-03-01 00:00:00", ""},
		"nor a 29th in the first week of any month": {"0 0 */28 2 1#2", "2026-03-01 00:00:00", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got := ""
			if next, ok := mustParse(t, tt.expr).Next(reading(t, tt.after)); ok {
				got = next.Format(time.DateTime)
			}
			if got != tt.want {
				t.Errorf("%q.Next(%s) = %q, want %q", tt.expr, tt.after, got, tt.want)
			}
		})
	}
}

func reading(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.DateTime, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestSchedule_Next_outsideTheYears(t *testing.T) {
	t.Parallel()

	s := mustParse(t, "0 0 1 1 *")
	first := time.Date(1, time.January, 1, 0, 0, 0, 0, time.UTC)
	for _, after := range []time.Time{
		first.Add(-1),
		time.Date(-1_000_000, time.July, 1, 12, 0, 0, 0, time.UTC),
		time.Unix(-1<<60, 0).UTC(),
	} {
		if got, ok := s.Next(after); !ok || !got.Equal(first) {
			t.Errorf("%q.Next(%v) = %v, %v; want %v", s, after, got, ok, first)
		}
	}
	for _, after := range []time.Time{
		time.Date(10_000, time.January, 1, 0, 0, 0, 0, time.UTC),
		time.Date(1_000_000, time.July, 1, 12, 0, 0, 0, time.UTC),
		time.Unix(1<<60, 0).UTC(),
	} {
		for _, s := range []cron.Schedule{s, mustParse(t, "* * * * * *")} {
			if got, ok := s.Next(after); ok || !got.IsZero() {
				t.Errorf("%q.Next(%v) = %v, %v; want none", s, after, got, ok)
			}
		}
	}
}

func TestSchedule_Next_ignoresTheOffset(t *testing.T) {
	t.Parallel()

	s := mustParse(t, "0 9 * * *")
	want := time.Date(2026, time.March, 2, 9, 0, 0, 0, time.UTC)
	for name, after := range map[string]time.Time{
		"with a fraction of a second": time.Date(2026, time.March, 1, 9, 0, 0, 999_999_999, time.UTC),
		"with another label":          time.Date(2026, time.March, 2, 8, 0, 0, 0, time.FixedZone("", -11*60*60)),
	} {
		if got, ok := s.Next(after); !ok || got != want {
			t.Errorf("%s: %q.Next(%v) = %v, %v; want %v", name, s, after, got, ok, want)
		}
	}
}

// Without t.Parallel, because testing.AllocsPerRun forbids it.
func TestSchedule_Next_doesNotAllocate(t *testing.T) {
	after := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	for _, expr := range []string{"* * * * *", "0 9 L * 5L", "0 9 1W,L-3,LW * *", "0 0 29 2 *", "0 0 30 2 *"} {
		s := mustParse(t, expr)
		if got := testing.AllocsPerRun(10, func() { s.Next(after) }); got != 0 {
			t.Errorf("%q.Next allocates %v times", expr, got)
		}
	}
}

func BenchmarkNext(b *testing.B) {
	after := time.Date(2026, time.March, 1, 12, 34, 56, 0, time.UTC)
	for name, expr := range map[string]string{
		"every second":                  "* * * * * *",
		"every five minutes":            "*/5 * * * *",
		"daily":                         "0 9 * * *",
		"last Friday":                   "0 9 * * 5L",
		"three days with a W":           "0 9 1W,15W,LW * *",
		"29 February":                   "0 0 29 2 *",
		"29 February, a Sunday":         "0 0 29 2 */7",
		"30 February: never":            "0 0 30 2 *",
		"a 31st of short months: never": "0 0 31 2,4,6,9,11 *",
		"all months: never":             "0 0 */28 * 1#2",
	} {
		b.Run(name, func(b *testing.B) {
			s := mustParse(b, expr)
			b.ReportAllocs()
			for b.Loop() {
				s.Next(after)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		mustParse(b, "*/5 9-17 * JAN-NOV MON-FRI")
	}
}
