package rrule_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/almanac-go/almanac/internal/rrule"
)

func TestParse(t *testing.T) {
	t.Parallel()

	tests := map[string]struct{ text, want string }{
		"the least":                            {"FREQ=DAILY", "FREQ=DAILY"},
		"a property name before it":            {"RRULE:FREQ=DAILY", "FREQ=DAILY"},
		"lower case":                           {"rrule:freq=weekly;byday=mo,-1we;until=20270101t090000z;wkst=su", ""},
		"lower case that is allowed":           {"rrule:freq=weekly;byday=mo;until=20270101t090000z;wkst=su", "FREQ=WEEKLY;UNTIL=20270101T090000Z;BYDAY=MO;WKST=SU"},
		"any order of parts":                   {"COUNT=3;BYHOUR=9;FREQ=DAILY;INTERVAL=2", "FREQ=DAILY;INTERVAL=2;COUNT=3;BYHOUR=9"},
		"empty parts are omitted":              {"FREQ=DAILY;INTERVAL=1;WKST=MO;RSCALE=GREGORIAN;SKIP=OMIT", "FREQ=DAILY"},
		"a calendar without a skip":            {"RSCALE=GREGORIAN;FREQ=DAILY", "FREQ=DAILY"},
		"a skip":                               {"RSCALE=gregorian;FREQ=YEARLY;SKIP=forward", "FREQ=YEARLY;RSCALE=GREGORIAN;SKIP=FORWARD"},
		"lists are ordered, each number once":  {"FREQ=MONTHLY;BYMONTHDAY=-1,15,1,+15,-2,01", "FREQ=MONTHLY;BYMONTHDAY=1,15,-2,-1"},
		"weekdays are ordered, each once":      {"FREQ=MONTHLY;BYDAY=SU,1WE,MO,-1WE,MO,WE,+2WE,-2WE", "FREQ=MONTHLY;BYDAY=MO,WE,1WE,2WE,-2WE,-1WE,SU"},
		"an end on a date":                     {"FREQ=DAILY;UNTIL=20271224", "FREQ=DAILY;UNTIL=20271224"},
		"a local end":                          {"FREQ=DAILY;UNTIL=20271224T180000", "FREQ=DAILY;UNTIL=20271224T180000"},
		"midnight":                             {"FREQ=DAILY;BYHOUR=0;BYMINUTE=0;BYSECOND=0", "FREQ=DAILY;BYHOUR=0;BYMINUTE=0;BYSECOND=0"},
		"the farthest numbers":                 {"FREQ=YEARLY;BYYEARDAY=366,-366;BYSETPOS=366,-366", "FREQ=YEARLY;BYYEARDAY=366,-366;BYSETPOS=366,-366"},
		"the farthest weekdays":                {"FREQ=YEARLY;BYDAY=53MO,-53MO", "FREQ=YEARLY;BYDAY=53MO,-53MO"},
		"the farthest weeks, months and times": {"FREQ=YEARLY;BYWEEKNO=53,-53;BYMONTH=12;BYHOUR=23;BYMINUTE=59;BYSECOND=59", "FREQ=YEARLY;BYMONTH=12;BYWEEKNO=53,-53;BYHOUR=23;BYMINUTE=59;BYSECOND=59"},
		"the greatest count and interval":      {"FREQ=DAILY;COUNT=10000;INTERVAL=2147483647", "FREQ=DAILY;INTERVAL=2147483647;COUNT=10000"},
		"another calendar":                     {"FREQ=YEARLY;BYMONTH=6,5l,5,13;rscale=hebrew;SKIP=FORWARD;BYMONTHDAY=-1,8", "FREQ=YEARLY;BYMONTH=5,5L,6,13;BYMONTHDAY=8,-1;RSCALE=HEBREW;SKIP=FORWARD"},
		"another calendar without leap months": {"RSCALE=DANGI;FREQ=MONTHLY;BYMONTH=8;WKST=MO", "FREQ=MONTHLY;BYMONTH=8;RSCALE=DANGI"},
		"what another calendar lacks":          {"FREQ=YEARLY;RSCALE=DANGI;BYWEEKNO=1", ""},
		"a frequency that it lacks":            {"FREQ=HOURLY;RSCALE=DANGI", ""},
		"a month that none has":                {"FREQ=YEARLY;RSCALE=DANGI;BYMONTH=14", ""},
		"a leap month of the Gregorian year":   {"FREQ=YEARLY;RSCALE=GREGORIAN;BYMONTH=2L", ""},
		"a calendar that is not given":         {"FREQ=YEARLY;RSCALE=CHINESE", ""},
		"days of the year below daily":         {"FREQ=HOURLY;BYYEARDAY=-1;BYMONTHDAY=31", "FREQ=HOURLY;BYYEARDAY=-1;BYMONTHDAY=31"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			rule, err := rrule.Parse(tt.text, "HEBREW", "DANGI")
			if rule.String() != tt.want || (err == nil) != (tt.want != "") {
				t.Errorf("Parse(%q) = %q, %v, want %q", tt.text, rule, err, tt.want)
			}
			if again, err := rrule.Parse(tt.want, "HEBREW", "DANGI"); tt.want != "" && (again != rule || err != nil) {
				t.Errorf("%q is read back as %q, %v", tt.want, again, err)
			}
		})
	}
}

func TestParseNamesEveryProblem(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		text string
		want []string // each begins a problem
	}{
		"nothing":                      {"", []string{`"" is not of the form`, "FREQ is missing"}},
		"a prefix alone":               {"RRULE:", []string{`"" is not of the form`, "FREQ is missing"}},
		"an empty part":                {"FREQ=DAILY;", []string{`"" is not of the form`}},
		"no frequency":                 {"COUNT=3", []string{"FREQ is missing"}},
		"a frequency that is none":     {"FREQ=DAYLY;BYWEEKNO=3", []string{`FREQ="DAYLY" is not SECONDLY, MINUTELY`}},
		"letters that only look right": {"FREQ=DA\u0131LY", []string{`FREQ="DA`}},
		"a repeated part":              {"FREQ=DAILY;BYHOUR=1;BYHOUR=2", []string{`"BYHOUR" is given more than once`}},
		"a repeated frequency":         {"FREQ=DAILY;freq=DAILY", []string{`"FREQ" is given more than once`}},
		"an experimental part":         {"FREQ=DAILY;X-FUN=1", []string{`"X-FUN" is no part`}},
		"a blank":                      {"FREQ=DAILY; COUNT=1", []string{`" COUNT" is no part`}},
		"a line break":                 {"FREQ=DAILY\r\nCOUNT=1", []string{`FREQ="DAILY\r\nCOUNT=1" is not`}},
		"a count of none":              {"FREQ=DAILY;COUNT=0", []string{`COUNT="0" is not a number from 1 to 10000`}},
		"a negative count":             {"FREQ=DAILY;COUNT=-1", []string{`COUNT="-1" is not`}},
		"a count with a sign":          {"FREQ=DAILY;COUNT=+1", []string{`COUNT="+1" is not`}},
		"a count just too great":       {"FREQ=DAILY;COUNT=10001", []string{`COUNT="10001" is not`}},
		"a count of 2 to the 63rd":     {"FREQ=DAILY;COUNT=9223372036854775808", []string{`COUNT="9223372036854775808" is not`}},
		"an interval of none":          {"FREQ=DAILY;INTERVAL=0", []string{`INTERVAL="0" is not a number from 1 to 2147483647`}},
		"an interval just too great":   {"FREQ=DAILY;INTERVAL=2147483648", []string{`INTERVAL="2147483648" is not`}},
		"count and end":                {"FREQ=DAILY;COUNT=3;UNTIL=20270101", []string{"COUNT and UNTIL exclude"}},
		"an end that is no date":       {"FREQ=DAILY;UNTIL=20270230", []string{`UNTIL="20270230" is not a date`}},
		"an end in the year 0":         {"FREQ=DAILY;UNTIL=00000101", []string{`UNTIL="00000101" is not`}},
		"an end with a fraction":       {"FREQ=DAILY;UNTIL=20270101T090000.5", []string{`UNTIL="20270101T090000.5" is not`}},
		"an end with an offset":        {"FREQ=DAILY;UNTIL=20270101T090000+0100", []string{`UNTIL="20270101T090000+0100" is not`}},
		"an end at a leap second":      {"FREQ=DAILY;UNTIL=20161231T235960Z", []string{`UNTIL="20161231T235960Z" is not`}},
		"the second 60":                {"FREQ=DAILY;BYSECOND=59,60", []string{`BYSECOND="60" is not a number from 0 to 59`}},
		"every list out of its range": {
			"FREQ=YEARLY;BYMONTH=0,13;BYWEEKNO=54,-54;BYYEARDAY=367;BYMONTHDAY=0,32;BYHOUR=24;BYMINUTE=60;BYSETPOS=0,-367", []string{
				`BYMONTH="0" is not a number from 1 to 12`, `BYMONTH="13"`,
				`BYWEEKNO="54" is not a number from 1 to 53 or from -53 to -1`, `BYWEEKNO="-54"`, `BYYEARDAY="367"`,
				`BYMONTHDAY="0"`, `BYMONTHDAY="32"`, `BYHOUR="24"`, `BYMINUTE="60"`, `BYSETPOS="0"`, `BYSETPOS="-367"`,
			},
		},
		"entries that are no numbers":     {"FREQ=YEARLY;BYMONTH=5L,;BYMONTHDAY=+,--1,1.5,1_0,\u0661", []string{`BYMONTH="5L"`, `BYMONTH=""`, `BYMONTHDAY="+"`, `BYMONTHDAY="--1"`, `BYMONTHDAY="1.5"`, `BYMONTHDAY="1_0"`, `BYMONTHDAY="` + "\u0661"}},
		"months do not count from an end": {"FREQ=YEARLY;BYMONTH=-1", []string{`BYMONTH="-1"`}},
		"days that are none":              {"FREQ=MONTHLY;BYDAY=MU,0MO,54MO,-54MO,1,,1 MO,MO1", []string{`BYDAY="MU" is not one of SU, MO`, `BYDAY="0MO"`, `BYDAY="54MO"`, `BYDAY="-54MO"`, `BYDAY="1"`, `BYDAY=""`, `BYDAY="1 MO"`, `BYDAY="MO1"`}},
		"a numbered day in a week":        {"FREQ=WEEKLY;BYDAY=1MO", []string{"BYDAY takes numbers"}},
		"a numbered day beside weeks":     {"FREQ=YEARLY;BYWEEKNO=3;BYDAY=1MO", []string{"BYDAY takes no numbers beside BYWEEKNO"}},
		"numbered weeks in a month":       {"FREQ=MONTHLY;BYWEEKNO=3", []string{"BYWEEKNO is for FREQ=YEARLY"}},
		"days of the year in a month":     {"FREQ=MONTHLY;BYYEARDAY=3", []string{"BYYEARDAY is not for FREQ=MONTHLY"}},
		"days of the year in a week":      {"FREQ=WEEKLY;BYYEARDAY=3", []string{"BYYEARDAY is not for FREQ=WEEKLY"}},
		"days of the year in a day":       {"FREQ=DAILY;BYYEARDAY=3", []string{"BYYEARDAY is not for FREQ=DAILY"}},
		"days of the month in a week":     {"FREQ=WEEKLY;BYMONTHDAY=3", []string{"BYMONTHDAY is not for FREQ=WEEKLY"}},
		"a position alone":                {"FREQ=MONTHLY;BYSETPOS=1", []string{"BYSETPOS needs another part"}},
		"a skip without a calendar":       {"FREQ=MONTHLY;SKIP=OMIT", []string{"SKIP needs RSCALE, such as RSCALE=GREGORIAN"}},
		"a skip that is none":             {"FREQ=MONTHLY;RSCALE=GREGORIAN;SKIP=SIDEWAYS", []string{`SKIP="SIDEWAYS" is not OMIT, BACKWARD, FORWARD`}},
		"another calendar":                {"FREQ=MONTHLY;RSCALE=CHINESE;SKIP=FORWARD", []string{`RSCALE="CHINESE" is not GREGORIAN`}},
		"a week that begins on no day":    {"FREQ=WEEKLY;WKST=1MO", []string{`WKST="1MO" is not SU`}},
		"long text is clipped":            {"FREQ=" + strings.Repeat("A", 100), []string{`FREQ="` + strings.Repeat("A", 40) + `"... is not`}},
		"text of more than 4 KiB":         {"FREQ=DAILY;BYHOUR=" + strings.Repeat("1,", 2040) + "1", []string{"4099 bytes long, more than 4096"}},
		"a mebibyte":                      {strings.Repeat("FREQ=DAILY;;;;;;", 1<<16), []string{"1048576 bytes long"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			rule, err := rrule.Parse(tt.text)
			var bad *rrule.Error
			if !errors.As(err, &bad) || rule != (rrule.Rule{}) {
				t.Fatalf("Parse(%.100q) = %q, %v, want no rule and an *Error", tt.text, rule, err)
			}
			fits := len(bad.Problems) == len(tt.want)
			for i := 0; fits && i < len(tt.want); i++ {
				fits = strings.HasPrefix(bad.Problems[i], tt.want[i])
			}
			if !fits {
				t.Errorf("Parse(%.100q) has the problems\n%s\nwant\n%s", tt.text, strings.Join(bad.Problems, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

func TestParseKeepsErrorsShort(t *testing.T) {
	t.Parallel()

	tests := map[string]string{
		"a thousand parts of one name": strings.Repeat("A=1;", 1000) + "A=1",
		"as many entries as fit":       "FREQ=YEARLY;BYMONTH=" + strings.Repeat("\x00,", 2000),
		"ten thousand parts":           strings.Repeat("FREQ=DAILY;", 10_000),
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			if _, err := rrule.Parse(text); err == nil || len(err.Error()) > 3000 {
				t.Errorf("Parse(%.20q...) returns an error of %d bytes, want one of 3000 at most", text, len(err.Error()))
			}
		})
	}

	_, err := rrule.Parse(tests["a thousand parts of one name"])
	if !strings.HasSuffix(err.Error(), "; and 982 more") { // of 1002, 20 are told
		t.Errorf("the error ends in %q, want the number of problems that it leaves out", err.Error()[len(err.Error())-30:])
	}
}

func TestUntil(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		rule    string
		want    string
		utc, ok bool
	}{
		"a rule without end":          {"FREQ=DAILY;COUNT=3", "", false, false},
		"a date is its last second":   {"FREQ=DAILY;UNTIL=20271224", "2027-12-24 23:59:59", false, true},
		"a local time":                {"FREQ=DAILY;UNTIL=20271224T180000", "2027-12-24 18:00:00", false, true},
		"an instant":                  {"FREQ=DAILY;UNTIL=20271224T180000Z", "2027-12-24 18:00:00", true, true},
		"the last day there is":       {"FREQ=DAILY;UNTIL=99991231", "9999-12-31 23:59:59", false, true},
		"the first second there is":   {"FREQ=DAILY;UNTIL=00010101T000000", "0001-01-01 00:00:00", false, true},
		"years below 1000 have zeros": {"FREQ=DAILY;UNTIL=00990101", "0099-01-01 23:59:59", false, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var want time.Time
			if tt.ok {
				want = wall(t, tt.want)
			}
			got, utc, ok := parse(t, tt.rule).Until()
			if got != want || utc != tt.utc || ok != tt.ok {
				t.Errorf("%s ends at %v, %v, %v, want %v, %v, %v", tt.rule, got, utc, ok, want, tt.utc, tt.ok)
			}
		})
	}
}

func TestOncePerDay(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		rule string
		want bool
	}{
		"the time of the start":      {"FREQ=DAILY", true},
		"a time of its own":          {"FREQ=YEARLY;BYHOUR=9;BYMINUTE=30;BYSECOND=0", true},
		"two hours":                  {"FREQ=MONTHLY;BYHOUR=9,17", false},
		"two minutes":                {"FREQ=WEEKLY;BYMINUTE=0,30", false},
		"two seconds":                {"FREQ=DAILY;BYSECOND=0,30", false},
		"one hour, given twice":      {"FREQ=DAILY;BYHOUR=9,09", true},
		"hours, of which one counts": {"FREQ=HOURLY;BYHOUR=9", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			if got := parse(t, tt.rule).OncePerDay(); got != tt.want {
				t.Errorf("%s: once per day = %v, want %v", tt.rule, got, tt.want)
			}
		})
	}
	if (rrule.Rule{}).OncePerDay() {
		t.Error("the zero Rule recurs")
	}
}
