package cron_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/almanac-go/almanac/internal/cron"
)

func TestParse_namesEveryProblem(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		expr string
		want []string
	}{
		"an empty expression":                 {"", []string{"the expression is empty"}},
		"blanks only":                         {" \t\n", []string{"the expression is empty"}},
		"four fields":                         {"* * * *", []string{"the number of fields is 4: it should be 5 (minute, hour, day-of-month, month, day-of-week), or 6 with second first"}},
		"seven fields":                        {"* * * * * * 2026", []string{"the number of fields is 7: it should be 5 (minute, hour, day-of-month, month, day-of-week), or 6 with second first"}},
		"a minute too many":                   {"60 * * * *", []string{`minute "60": "60" is not between 0 and 59`}},
		"a second too many":                   {"60 * * * * *", []string{`second "60": "60" is not between 0 and 59`}},
		"an hour too many":                    {"0 24 * * *", []string{`hour "24": "24" is not between 0 and 23`}},
		"day 0":                               {"0 0 0 * *", []string{`day-of-month "0": "0" is not between 1 and 31`}},
		"day 32":                              {"0 0 32 * *", []string{`day-of-month "32": "32" is not between 1 and 31`}},
		"month 0":                             {"0 0 1 0 *", []string{`month "0": "0" is not between 1 and 12`}},
		"month 13":                            {"0 0 1 13 *", []string{`month "13": "13" is not between 1 and 12`}},
		"weekday 8":                           {"0 0 * * 8", []string{`day-of-week "8": "8" is not between 0 and 7`}},
		"a huge number":                       {"18446744073709551617 * * * *", []string{`minute "18446744073709551617": "18446744073709551617" is not between 0 and 59`}},
		"a negative number":                   {"-5 * * * *", []string{`minute "-5": a value is missing`}},
		"a sign":                              {"+5 * * * *", []string{`minute "+5": "+5" is not a number`}},
		"a weekday near no day":               {"0 0 W * *", []string{`day-of-month "W": a value is missing`}},
		"a word":                              {"0 noon * * *", []string{`hour "noon": "noon" is not a number`}},
		"a name of the wrong field":           {"0 0 * MON JAN", []string{`month "MON": "MON" is neither a number nor a name from JAN to DEC`, `day-of-week "JAN": "JAN" is neither a number nor a name from SUN to SAT`}},
		"a name in full":                      {"0 0 * March *", []string{`month "March": "March" is neither a number nor a name from JAN to DEC`}},
		"a letter that only folds to S":       {"0 0 * * ſun", []string{`day-of-week "ſun": "ſun" is neither a number nor a name from SUN to SAT`}},
		"an empty item":                       {"1,,2 * * * *", []string{`minute "1,,2": a value is missing`}},
		"a trailing comma":                    {"1, * * * *", []string{`minute "1,": a value is missing`}},
		"a range without an end":              {"1- * * * *", []string{`minute "1-": a value is missing`}},
		"a range of three":                    {"1-2-3 * * * *", []string{`minute "1-2-3": "2-3" is not a number`}},
		"a range that wraps":                  {"0 22-2 * * *", []string{`hour "22-2": "22-2" runs backwards: write two ranges`}},
		"an hour range that ends at 0":        {"0 22-0 * * *", []string{`hour "22-0": "22-0" runs backwards: write two ranges`}},
		"a week that wraps":                   {"0 0 * * FRI-MON", []string{`day-of-week "FRI-MON": "FRI-MON" runs backwards: write two ranges`}},
		"a range of stars":                    {"*-5 * * * *", []string{`minute "*-5": "*" is not a number`}},
		"a step of zero":                      {"*/0 * * * *", []string{`minute "*/0": step "0" is not a number from 1 to 60`}},
		"a step below zero":                   {"*/-1 * * * *", []string{`minute "*/-1": step "-1" is not a number from 1 to 60`}},
		"a step longer than the field":        {"*/90 * * * *", []string{`minute "*/90": step "90" is not a number from 1 to 60`}},
		"a step of many digits":               {"0 */99999999999999999999 * * *", []string{`hour "*/99999999999999999999": step "99999999999999999999" is not a number from 1 to 24`}},
		"a step longer than the week":         {"0 0 * * */8", []string{`day-of-week "*/8": step "8" is not a number from 1 to 7`}},
		"a step longer than the month":        {"0 0 */32 * *", []string{`day-of-month "*/32": step "32" is not a number from 1 to 31`}},
		"a step that is missing":              {"*/ * * * *", []string{`minute "*/": step "" is not a number from 1 to 60`}},
		"two steps":                           {"*/5/5 * * * *", []string{`minute "*/5/5": step "5/5" is not a number from 1 to 60`}},
		"a step of nothing":                   {"/5 * * * *", []string{`minute "/5": a value is missing`}},
		"a question mark for the minute":      {"? * * * *", []string{`minute "?": "?" is not a number`}},
		"L for the hour":                      {"0 L * * *", []string{`hour "L": "L" is not a number`}},
		"no distance from the last day":       {"0 0 L-0 * *", []string{`day-of-month "L-0": "L-0" is not between L-1 and L-30`}},
		"a distance longer than a month":      {"0 0 L-31 * *", []string{`day-of-month "L-31": "L-31" is not between L-1 and L-30`}},
		"a distance of no number":             {"0 0 L-x * *", []string{`day-of-month "L-x": "L-x" is not between L-1 and L-30`}},
		"a weekday near a distance":           {"0 0 L-3W * *", []string{`day-of-month "L-3W": "L-3W" is not between L-1 and L-30`}},
		"the weekdays near a range":           {"0 0 1-5W * *", []string{`day-of-month "1-5W": "1-5" is not a number`}},
		"a weekday near a day too many":       {"0 0 32W * *", []string{`day-of-month "32W": "32" is not between 1 and 31`}},
		"a weekday near each second day":      {"0 0 15W/2 * *", []string{`day-of-month "15W/2": "15W" is not a number`}},
		"a W for the weekday":                 {"0 0 * * 5W", []string{`day-of-week "5W": "5W" is neither a number nor a name from SUN to SAT`}},
		"L alone for the weekday":             {"0 0 * * L", []string{`day-of-week "L": "L" is neither a number nor a name from SUN to SAT`}},
		"L twice":                             {"0 0 * * 5LL", []string{`day-of-week "5LL": "5LL" is neither a number nor a name from SUN to SAT`}},
		"the last of several weekdays":        {"0 0 * * 1-5L", []string{`day-of-week "1-5L": "1-5" is neither a number nor a name from SUN to SAT`}},
		"the last eighth weekday":             {"0 0 * * 8L", []string{`day-of-week "8L": "8" is not between 0 and 7`}},
		"the sixth Friday":                    {"0 0 * * 5#6", []string{`day-of-week "5#6": occurrence "6" is not a number from 1 to 5`}},
		"the zeroth Friday":                   {"0 0 * * 5#0", []string{`day-of-week "5#0": occurrence "0" is not a number from 1 to 5`}},
		"an occurrence of no weekday":         {"0 0 * * #2", []string{`day-of-week "#2": a value is missing`}},
		"a zone":                              {"TZ=Europe/Berlin 0 9 * * *", []string{`"TZ=Europe/Berlin" has no place here: the time zone is chosen apart from the expression`}},
		"a zone and more":                     {" CRON_TZ=UTC 0 99 * * *", []string{`"CRON_TZ=UTC" has no place here: the time zone is chosen apart from the expression`, `hour "99": "99" is not between 0 and 23`}},
		"a zone and nothing else":             {"TZ=UTC", []string{`"TZ=UTC" has no place here: the time zone is chosen apart from the expression`, "the expression is empty"}},
		"a zone and a macro":                  {"TZ=UTC @daily", []string{`"TZ=UTC" has no place here: the time zone is chosen apart from the expression`}},
		"an interval":                         {"@every 1h", []string{`"@every 1h" is not one of @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly`}},
		"the start of a machine":              {"@reboot", []string{`"@reboot" is not one of @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly`}},
		"a macro in another case":             {"@Daily", []string{`"@Daily" is not one of @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly`}},
		"a macro with a field":                {"@daily 5", []string{`"@daily 5" is not one of @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly`}},
		"a byte that is no text":              {"\xff * * * *", []string{`minute "\xff": "\xff" is not a number`}},
		"a long field is clipped":             {strings.Repeat("7", 100) + " * * * *", []string{`minute "77777777777777777777777777777777"...: "77777777777777777777777777777777"... is not between 0 and 59`}},
		"a field is clipped at a letter":      {"0 " + strings.Repeat("x", 31) + "жж * * *", []string{`hour "` + strings.Repeat("x", 31) + `"...: "` + strings.Repeat("x", 31) + `"... is not a number`}},
		"a byte too many":                     {"* * * * *" + strings.Repeat(" ", 248), []string{"the expression is 257 bytes long, more than 256"}},
		"a megabyte":                          {strings.Repeat("1,", 1<<19), []string{"the expression is 1048576 bytes long, more than 256"}},
		"two hundred bad items, one reported": {strings.Repeat("x,", 120) + " * * * *", []string{`minute "x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,"...: "x" is not a number`}},
		"every field at once": {"60 61 24 32 13 8", []string{
			`second "60": "60" is not between 0 and 59`,
			`minute "61": "61" is not between 0 and 59`,
			`hour "24": "24" is not between 0 and 23`,
			`day-of-month "32": "32" is not between 1 and 31`,
			`month "13": "13" is not between 1 and 12`,
			`day-of-week "8": "8" is not between 0 and 7`,
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s, err := cron.Parse(tt.expr)
			if got := problemsOf(t, err); !slices.Equal(got, tt.want) {
				t.Errorf("Parse(%.80q): problems\n\t%q\nwant\n\t%q", tt.expr, got, tt.want)
			}
			if s != (cron.Schedule{}) {
				t.Errorf("Parse(%.80q) = %v, want the zero Schedule beside the error", tt.expr, s)
			}
		})
	}
}

// problemsOf requires that err is an *Error whose text contains all its problems, and
// returns them.
func problemsOf(t *testing.T, err error) []string {
	t.Helper()
	var bad *cron.Error
	if !errors.As(err, &bad) {
		t.Fatalf("error %v, want an *Error", err)
	}
	if want := "cron: " + strings.Join(bad.Problems, "; "); err.Error() != want {
		t.Errorf("message %q, want %q", err, want)
	}
	return bad.Problems
}

func TestSchedule_String(t *testing.T) {
	t.Parallel()

	tests := map[string]struct{ expr, want string }{
		"blanks become one":          {"\t0  9\n*   * MON-FRI ", "0 9 * * MON-FRI"},
		"other white space too":      {"0 9\u00a0* * *", "0 9 * * *"},
		"names keep their case":      {"0 9 * jan Mon", "0 9 * jan Mon"},
		"steps stay steps":           {"*/5 7/15 * * *", "*/5 7/15 * * *"},
		"seconds stay":               {"0 0 9 * * *", "0 0 9 * * *"},
		"a macro stays a macro":      {" @daily ", "@daily"},
		"256 bytes are not too many": {"* * * * *" + strings.Repeat(" ", 247), "* * * * *"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := mustParse(t, tt.expr)
			if got := s.String(); got != tt.want {
				t.Errorf("Parse(%q).String() = %q, want %q", tt.expr, got, tt.want)
			}
			if again := mustParse(t, s.String()); again != s {
				t.Errorf("Parse(%q) is not equal to the schedule that says so", s)
			}
		})
	}
}

func TestSchedule_OncePerDay(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		expr string
		want bool
	}{
		"one minute of one hour":       {"0 9 * * *", true},
		"on some days only":            {"30 0 9 1,15 * MON", true},
		"a macro":                      {"@weekly", true},
		"a step that reaches one hour": {"0 */24 * * *", true},
		"two hours":                    {"0 9,17 * * *", false},
		"two minutes":                  {"0,30 9 * * *", false},
		"every second of one minute":   {"* 0 9 * * *", false},
		"hourly":                       {"@hourly", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			if got := mustParse(t, tt.expr).OncePerDay(); got != tt.want {
				t.Errorf("%q.OncePerDay() = %v, want %v", tt.expr, got, tt.want)
			}
		})
	}
}

func TestSchedule_zeroHasNoSlots(t *testing.T) {
	t.Parallel()

	var s cron.Schedule
	if next, ok := s.Next(time.Unix(0, 0).UTC()); ok || s.OncePerDay() || s.String() != "" {
		t.Errorf("the zero Schedule: Next = %v, OncePerDay = %v, String = %q; want nothing at all", next, s.OncePerDay(), s)
	}
}

func mustParse(t failer, expr string) cron.Schedule {
	t.Helper()
	s, err := cron.Parse(expr)
	if err != nil {
		t.Fatalf("Parse(%q): %v, want it accepted", expr, err)
	}
	return s
}
