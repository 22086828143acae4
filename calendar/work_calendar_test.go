package calendar_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/almanac-go/almanac/calendar"
)

func TestParseWorkCalendar(t *testing.T) {
	t.Parallel()

	c, err := calendar.ParseWorkCalendar(strings.ReplaceAll(`# holidays in Riyadh
name  SA
release 2026-03-19.2
until 2026-12-31

week Sa-We
week Su-Th from 2013-06-29
2026-09-23 holiday National Day
	2026-10-09	work	make-up day
2026-02-22 holiday
`, "\n", "\r\n"))
	require.NoError(t, err)
	require.Equal(t, []any{"SA", "2026-03-19.2", date(2026, 12, 31)}, []any{c.Name(), c.Release(), c.Until()})
	for day, want := range map[string]string{
		"2026-09-22": "works", "2026-09-23": "off National Day", "2026-02-22": "off ", "2026-10-09": "works", "2026-10-16": "off",
		"2013-06-20": "off", "2013-06-22": "works", "2013-06-27": "off", "2013-06-29": "off", "2013-07-04": "works",
		"2026-12-31": "works", "2027-01-01": "off, perhaps", "2027-01-03": "works, perhaps",
	} {
		d, err := calendar.ParseDate(day)
		require.NoError(t, err)
		works, known := c.IsWorking(d)
		got := map[bool]string{true: "works", false: "off"}[works]
		if name, off := c.Holiday(d); off {
			got += " " + name
		}
		if !known {
			got += ", perhaps"
		}
		require.Equal(t, want, got, day)
	}
	require.Equal(t, `name SA
release 2026-03-19.2
until 2026-12-31
week Mo-We,Sa-Su
week Mo-Th,Su from 2013-06-29
2026-02-22 holiday
2026-09-23 holiday National Day
2026-10-09 work make-up day
`, c.String())
}

func TestParseWorkCalendarNamesEveryBadLine(t *testing.T) {
	t.Parallel()

	_, err := calendar.ParseWorkCalendar(`name DE BY
name DE
release today
until 2026-02-30
week Mo-Xx
week Mo from tomorrow
2026-02-29 holiday
2026-12-25 Christmas Day
Christmas 25 December
2026-12-26 work
2026-12-26 holiday`)
	problems := inputProblems(t, err)
	require.Equal(t, []string{
		`line 2 has a second name`,
		`line 4 "2026-02-30" is not a day of the calendar: February 2026 has 28 days`,
		`line 5 "Mo-Xx" is not days of the week, such as Mo-Fr or Mo,We`,
		`line 6 "tomorrow" is not a date of the form YYYY-MM-DD`,
		`line 7 "2026-02-29" is not a day of the calendar: February 2026 has 28 days`,
		`line 8 has neither holiday nor work behind the date`,
		`line 9 "Christmas" is not a date of the form YYYY-MM-DD`,
		`name is not 1 to 40 letters, digits, hyphens, dots and underscores`,
		`release is not a date such as 2026-03-19, or 2026-03-19.1 for a later release of that day`,
		`until is not the last day whose holidays are known`,
		`work has 2026-12-26, which is a holiday too`,
	}, problems)

	_, err = calendar.ParseWorkCalendar("name DE\nrelease 2026-01-01\nuntil 2026-12-31\nuntil 2027-12-31\nrelease 2026-02-01")
	require.Equal(t, []string{"line 4 has a second until", "line 5 has a second release"}, inputProblems(t, err))
	_, err = calendar.ParseWorkCalendar(strings.Repeat("<html>\n", 1000))
	problems = inputProblems(t, err)
	require.Len(t, problems, 101)
	require.Equal(t, "the rest has 903 more problems", problems[100])
	_, err = calendar.ParseWorkCalendar(strings.Repeat("#", 4<<20+1))
	require.Equal(t, []string{"text has 4194305 bytes, more than 4194304"}, inputProblems(t, err))
}

func inputProblems(t testing.TB, err error) []string {
	t.Helper()
	var bad *calendar.InputError
	require.ErrorAs(t, err, &bad)
	require.ErrorIs(t, err, calendar.ErrInvalidInput)
	var problems []string
	for _, p := range bad.Problems {
		problems = append(problems, p.Field+" "+p.Problem)
	}
	return problems
}

func TestNewWorkCalendarNamesEveryProblem(t *testing.T) {
	t.Parallel()

	named := func(day string, name string) calendar.NamedDay {
		return calendar.NamedDay{Date: wall(t, day+"T00:00:00").Date, Name: name}
	}
	good := calendar.WorkCalendarOptions{Name: "A", Release: "2026-01-01", Until: date(2026, 12, 31)}
	for name, tt := range map[string]struct {
		with func(*calendar.WorkCalendarOptions)
		want []string
	}{
		"nothing": {func(o *calendar.WorkCalendarOptions) { *o = calendar.WorkCalendarOptions{} }, []string{"name", "release", "until"}},
		"weeks": {func(o *calendar.WorkCalendarOptions) {
			o.Weeks = []calendar.WorkWeek{{}, {Days: []time.Weekday{7}}, {Days: []time.Weekday{1}, From: calendar.Date{Year: 1}}}
		}, []string{"weeks", "weeks", "weeks", "weeks"}},
		"days": {func(o *calendar.WorkCalendarOptions) {
			o.Holidays = []calendar.NamedDay{{}, named("2027-01-01", ""), named("2026-01-01", "two\nlines"), named("2026-01-02", strings.Repeat("x", 101))}
			o.Work = []calendar.NamedDay{named("2026-01-01", ""), {}}
		}, []string{"holidays", "holidays", "holidays", "holidays", "work", "work", "work"}},
		"a release of two digits": {func(o *calendar.WorkCalendarOptions) { o.Release = "2026-01-01.10" }, []string{"release"}},
		"a release 0":             {func(o *calendar.WorkCalendarOptions) { o.Release = "2026-01-01.0" }, []string{"release"}},
		"a name with a comma":     {func(o *calendar.WorkCalendarOptions) { o.Name = "DE,FR" }, []string{"name"}},
		"a name that is long":     {func(o *calendar.WorkCalendarOptions) { o.Name = strings.Repeat("a", 41) }, []string{"name"}},
		"two months off": {func(o *calendar.WorkCalendarOptions) {
			for i := range 62 {
				o.Holidays = append(o.Holidays, calendar.NamedDay{Date: date(2026, 6, 1).AddDays(i)})
			}
		}, []string{"holidays"}},
		"weeks whose only day has passed": {func(o *calendar.WorkCalendarOptions) {
			for i := range 62 {
				day := date(2026, 6, 1).AddDays(i)
				o.Weeks = append(o.Weeks, calendar.WorkWeek{From: day, Days: []time.Weekday{day.AddDays(-1).Weekday()}})
			}
		}, []string{"holidays"}},
	} {
		o := good
		tt.with(&o)
		c, err := calendar.NewWorkCalendar(o)
		require.Nil(t, c, name)
		var fields []string
		for _, problem := range inputProblems(t, err) {
			field, _, _ := strings.Cut(problem, " ")
			fields = append(fields, field)
		}
		require.Equal(t, tt.want, fields, name)
	}
	for i := range 58 {
		good.Holidays = append(good.Holidays, calendar.NamedDay{Date: date(2026, 6, 1).AddDays(i)})
	}
	_, err := calendar.NewWorkCalendar(good)
	require.NoError(t, err, "with the weekend before they are sixty days")
}

// From a Saturday, as QuantLib, rickar/cal and Excel count.
func TestAddCountsWorkingDays(t *testing.T) {
	t.Parallel()

	c := workCalendar(t, "TEST", "2026-11-03 holiday", "2026-11-14 work")
	for from, want := range map[string]string{
		"2026-10-31": "10-28 10-29 10-30 10-31 11-02 11-04 11-05", // a Saturday
		"2026-11-01": "10-28 10-29 10-30 11-01 11-02 11-04 11-05",
		"2026-11-02": "10-28 10-29 10-30 11-02 11-04 11-05 11-06",
		"2026-11-03": "10-29 10-30 11-02 11-03 11-04 11-05 11-06", // a holiday
		"2026-11-13": "11-10 11-11 11-12 11-13 11-14 11-16 11-17",
	} {
		d, err := calendar.ParseDate(from)
		require.NoError(t, err)
		var got []string
		for days := -3; days <= 3; days++ {
			got = append(got, c.Add(d, days).String()[len("2026-"):])
		}
		require.Equal(t, want, strings.Join(got, " "), from)
	}
}

func TestReleasesSortByTheirText(t *testing.T) {
	t.Parallel()

	var releases []string
	for _, text := range []string{"2026-03-19", "2026-03-19.1", "2026-03-19.2", "2026-03-19.9", "2026-03-20", "2026-11-01"} {
		c, err := calendar.NewWorkCalendar(calendar.WorkCalendarOptions{Name: "A", Release: text, Until: date(2026, 1, 1)})
		require.NoError(t, err)
		releases = append(releases, c.Release())
	}
	require.True(t, slices.IsSorted(releases))
}

// The hash is of what the days are, so names, the release and the order of lines make no difference.
func TestHashIsOfTheDays(t *testing.T) {
	t.Parallel()

	plain := workCalendar(t, "A", "2026-12-25 holiday Christmas", "2026-12-26 holiday")
	for name, tt := range map[string]struct {
		days []string
		same bool
	}{
		"other names":                {[]string{"2026-12-26 holiday", "2026-12-25 holiday Weihnachten"}, true},
		"a working day twice":        {[]string{"2026-12-25 holiday", "2026-12-26 holiday", "2026-12-28 work"}, true},
		"another year":               {[]string{"2026-12-25 holiday", "2026-12-26 holiday", "2027-01-01 holiday", "2025-12-31 holiday"}, true},
		"no Saturday off":            {[]string{"2026-12-25 holiday"}, false},
		"a day more":                 {[]string{"2026-12-25 holiday", "2026-12-26 holiday", "2026-12-31 holiday"}, false},
		"a Sunday that works":        {[]string{"2026-12-25 holiday", "2026-12-26 holiday", "2026-12-27 work"}, false},
		"the day before, not the 25": {[]string{"2026-12-24 holiday", "2026-12-26 holiday"}, false},
	} {
		require.Equal(t, tt.same, plain.Hash(2026) == workCalendar(t, "B", tt.days...).Hash(2026), name)
	}
	require.Equal(t, int64(-4894298554681379432), workCalendar(t, "A").Hash(2026), "a hash that was stored stays what it is")
}

// A calendar answers as the list of its days does.
func TestWorkCalendarsAgreeWithTheirDays(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(t *rapid.T) {
		near := date(rapid.IntRange(1, 9990).Draw(t, "year"), 2, 1).AddDays(rapid.IntRange(0, 365).Draw(t, "day"))
		c := drawWorkCalendar(t, "DRAWN", near)
		again, err := calendar.ParseWorkCalendar(c.String())
		if err != nil || again.String() != c.String() {
			t.Fatalf("%s is read as %v, %v", c, again, err)
		}
		listed := make(map[string]string)
		week := ""
		for line := range strings.SplitSeq(c.String(), "\n") {
			if kind, rest, _ := strings.Cut(line, " "); kind == "week" {
				week = rest
			} else if kind != "" {
				listed[kind], _, _ = strings.Cut(rest, " ")
			}
		}
		weeks := map[string]string{"Mo-Fr": "12345", "Mo-Th,Su": "01234", "Tu,Fr": "25", "Mo": "1"}
		for i := -100; i <= 100; i++ {
			d := near.AddDays(i)
			want := strings.Contains(weeks[week], fmt.Sprint(int(d.Weekday())))
			if kind := listed[d.String()]; kind != "" {
				want = kind == "work"
			}
			works, known := c.IsWorking(d)
			other, _ := again.IsWorking(d)
			if _, off := c.Holiday(d); works != want || other != want || known != !c.Until().Before(d) || off != (listed[d.String()] == "holiday") {
				t.Fatalf("%s: works %v, known %v, a holiday %v in\n%s", d, works, known, off, c)
			}
		}
		if again.Hash(near.Year) != c.Hash(near.Year) {
			t.Fatal("the hash differs")
		}
	})
}

func FuzzParseWorkCalendar(f *testing.F) {
	f.Add("name DE\nrelease 2026-01-01\nuntil 2026-12-31\n2026-12-25 holiday Christmas Day\n2026-10-10 work")
	f.Add("# nothing\nname A\nname B\nrelease 2026-01-01.2\nuntil 9999-12-31\nweek Sa-Th\nweek Mo,We,Fr from 2026-05-01\n0001-01-01 holiday")
	f.Add("week \nweek Mo-\n2026-02-30 work\n\xff\n2026-01-01 holiday \xff")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := calendar.ParseWorkCalendar(text)
		if err != nil {
			if problems := inputProblems(t, err); len(problems) == 0 || len(problems) > 101 {
				t.Fatalf("%q: %d problems", text, len(problems))
			}
			return
		}
		again, err := calendar.ParseWorkCalendar(c.String())
		if err != nil || again.String() != c.String() || again.Hash(2026) != c.Hash(2026) {
			t.Fatalf("%q is written as %q: %v", text, c, err)
		}
		for _, days := range []int{-50, 50} {
			if d := c.Add(c.Until(), days); d.Valid() {
				if works, _ := c.IsWorking(d); !works {
					t.Fatalf("%q: %d working days from the end is %s", text, days, d)
				}
			}
		}
	})
}

func BenchmarkIsWorking(b *testing.B) {
	c := workCalendar(b, "TEST", "2026-12-25 holiday", "2026-01-01 holiday")
	for name, day := range map[string]calendar.Date{"listed": date(2026, 6, 1), "past the end": date(2028, 6, 1)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				c.IsWorking(day)
			}
		})
	}
}
