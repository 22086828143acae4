package holidays_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/contrib/holidays"
)

// A year is the days off of a list, as MM-DD, and the working weekends.
type year struct {
	number    int
	off, work string
}

// Every German Land has these days off.
var german = []year{
	{2025, "01-01 04-18 04-21 05-01 05-29 06-09 10-03 12-25 12-26", ""},
	{2026, "01-01 04-03 04-06 05-01 05-14 05-25 10-03 12-25 12-26", ""},
	{2027, "01-01 03-26 03-29 05-01 05-06 05-17 10-03 12-25 12-26", ""},
}

const (
	epiphany    = "01-06"
	women       = "03-08"
	assumption  = "08-15"
	children    = "09-20"
	reformation = "10-31"
	allSaints   = "11-01"
)

// corpusChristi and repentance are the days of three years.
var (
	corpusChristi = [3]string{"06-19", "06-04", "05-27"}
	repentance    = [3]string{"11-19", "11-18", "11-17"}
)

// land returns the days of a German Land: those of all, and its own.
func land(own string, moving ...[3]string) []year {
	years := slices.Clone(german)
	for i := range years {
		years[i].off += " " + own
		for _, days := range moving {
			years[i].off += " " + days[i]
		}
	}
	return years
}

// england has the days off in England and in Wales.
var england = []year{
	{2025, "01-01 04-18 04-21 05-05 05-26 08-25 12-25 12-26", ""},
	{2026, "01-01 04-03 04-06 05-04 05-25 08-31 12-25 12-28", ""},
	{2027, "01-01 03-26 03-29 05-03 05-31 08-30 12-27 12-28", ""},
}

// berlin has the 80th anniversary of the end of the war, in 2025 only.
func berlin() []year {
	years := land(women)
	years[0].off += " 05-08"
	return years
}

// byHand has lists that were written by hand from the laws of the countries, and from the plans of the State Council of China.
func byHand() map[string][]year {
	return map[string][]year{
		"AT": {
			{2025, "01-01 01-06 04-21 05-01 05-29 06-09 06-19 08-15 10-26 11-01 12-08 12-25 12-26", ""},
			{2026, "01-01 01-06 04-06 05-01 05-14 05-25 06-04 08-15 10-26 11-01 12-08 12-25 12-26", ""},
			{2027, "01-01 01-06 03-29 05-01 05-06 05-17 05-27 08-15 10-26 11-01 12-08 12-25 12-26", ""},
		},
		"BE": {
			{2025, "01-01 04-21 05-01 05-29 06-09 07-21 08-15 11-01 11-11 12-25", ""},
			{2026, "01-01 04-06 05-01 05-14 05-25 07-21 08-15 11-01 11-11 12-25", ""},
			{2027, "01-01 03-29 05-01 05-06 05-17 07-21 08-15 11-01 11-11 12-25", ""},
		},
		"CN": {
			{
				2024, "01-01 02-10 02-11 02-12 02-13 02-14 02-15 02-16 02-17 04-04 04-05 04-06 05-01 05-02 05-03 05-04 05-05 06-10 " +
					"09-15 09-16 09-17 10-01 10-02 10-03 10-04 10-05 10-06 10-07",
				"02-04 02-18 04-07 04-28 05-11 09-14 09-29 10-12",
			},
			{
				2025, "01-01 01-28 01-29 01-30 01-31 02-01 02-02 02-03 02-04 04-04 04-05 04-06 05-01 05-02 05-03 05-04 05-05 " +
					"05-31 06-01 06-02 10-01 10-02 10-03 10-04 10-05 10-06 10-07 10-08",
				"01-26 02-08 04-27 09-28 10-11",
			},
			{
				2026, "01-01 01-02 01-03 02-15 02-16 02-17 02-18 02-19 02-20 02-21 02-22 02-23 04-04 04-05 04-06 " +
					"05-01 05-02 05-03 05-04 05-05 06-19 06-20 06-21 09-25 09-26 09-27 10-01 10-02 10-03 10-04 10-05 10-06 10-07",
				"01-04 02-14 02-28 05-09 09-20 10-10",
			},
		},
		"DE-BB": land(reformation),
		"DE-BE": berlin(),
		"DE-BW": land(epiphany+" "+allSaints, corpusChristi),
		"DE-BY": land(epiphany+" "+allSaints, corpusChristi),
		"DE-HB": land(reformation),
		"DE-HE": land("", corpusChristi),
		"DE-HH": land(reformation),
		"DE-MV": land(women + " " + reformation),
		"DE-NI": land(reformation),
		"DE-NW": land(allSaints, corpusChristi),
		"DE-RP": land(allSaints, corpusChristi),
		"DE-SH": land(reformation),
		"DE-SL": land(assumption+" "+allSaints, corpusChristi),
		"DE-SN": land(reformation, repentance),
		"DE-ST": land(epiphany + " " + reformation),
		"DE-TH": land(children + " " + reformation),
		"DK": {
			{2025, "01-01 04-17 04-18 04-21 05-29 06-09 12-25 12-26", ""},
			{2026, "01-01 04-02 04-03 04-06 05-14 05-25 12-25 12-26", ""},
			{2027, "01-01 03-25 03-26 03-29 05-06 05-17 12-25 12-26", ""},
		},
		"FR": {
			{2025, "01-01 04-21 05-01 05-08 05-29 06-09 07-14 08-15 11-01 11-11 12-25", ""},
			{2026, "01-01 04-06 05-01 05-08 05-14 05-25 07-14 08-15 11-01 11-11 12-25", ""},
			{2027, "01-01 03-29 05-01 05-06 05-08 05-17 07-14 08-15 11-01 11-11 12-25", ""},
		},
		"GB-ENG": england,
		"GB-WLS": england,
		"GB-NIR": {
			{2025, "01-01 03-17 04-18 04-21 05-05 05-26 07-14 08-25 12-25 12-26", ""},
			{2026, "01-01 03-17 04-03 04-06 05-04 05-25 07-13 08-31 12-25 12-28", ""},
			{2027, "01-01 03-17 03-26 03-29 05-03 05-31 07-12 08-30 12-27 12-28", ""},
		},
		"GB-SCT": {
			{2025, "01-01 01-02 04-18 05-05 05-26 08-04 12-01 12-25 12-26", ""},
			{2026, "01-01 01-02 04-03 05-04 05-25 06-15 08-03 11-30 12-25 12-28", ""},
			{2027, "01-01 01-04 03-26 05-03 05-31 08-02 11-30 12-27 12-28", ""},
		},
		"IT": {
			{2025, "01-01 01-06 04-21 04-25 05-01 06-02 08-15 11-01 12-08 12-25 12-26", ""},
			{2026, "01-01 01-06 04-06 04-25 05-01 06-02 08-15 10-04 11-01 12-08 12-25 12-26", ""},
			{2027, "01-01 01-06 03-29 04-25 05-01 06-02 08-15 10-04 11-01 12-08 12-25 12-26", ""},
		},
		"JP": {
			{2025, "01-01 01-13 02-11 02-23 02-24 03-20 04-29 05-03 05-04 05-05 05-06 07-21 08-11 09-15 09-23 10-13 11-03 11-23 11-24", ""},
			{2026, "01-01 01-12 02-11 02-23 03-20 04-29 05-03 05-04 05-05 05-06 07-20 08-11 09-21 09-22 09-23 10-12 11-03 11-23", ""},
			{2027, "01-01 01-11 02-11 02-23 03-21 03-22 04-29 05-03 05-04 05-05 07-19 08-11 09-20 09-23 10-11 11-03 11-23", ""},
		},
		"PL": {
			{2025, "01-01 01-06 04-21 05-01 05-03 06-19 08-15 11-01 11-11 12-24 12-25 12-26", ""},
			{2026, "01-01 01-06 04-06 05-01 05-03 06-04 08-15 11-01 11-11 12-24 12-25 12-26", ""},
			{2027, "01-01 01-06 03-29 05-01 05-03 05-27 08-15 11-01 11-11 12-24 12-25 12-26", ""},
		},
		"US": {
			{2025, "01-01 01-20 02-17 05-26 06-19 07-04 09-01 10-13 11-11 11-27 12-25", ""},
			{2026, "01-01 01-19 02-16 05-25 06-19 07-03 09-07 10-12 11-11 11-26 12-25", ""},
			{2027, "01-01 01-18 02-15 05-31 06-18 07-05 09-06 10-11 11-11 11-25 12-24 12-31", ""},
		},
	}
}

// Each day of three years is a working day, or none, as by a second list, and each day off of the list is
// a holiday. So a window that is closed on holidays is closed on the weekends of a break, too.
func TestDaysAreThoseOfASecondList(t *testing.T) {
	t.Parallel()
	lists := byHand()
	for _, code := range holidays.Codes() {
		if len(lists[code]) != 3 {
			t.Errorf("%s: there are lists of %d years, want 3", code, len(lists[code]))
		}
	}
	for code, years := range lists {
		c, err := holidays.Calendar(code)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, y := range years {
			off, work := strings.Fields(y.off), strings.Fields(y.work)
			for day := (calendar.Date{Year: y.number, Month: time.January, Day: 1}); day.Year == y.number; day = day.AddDays(1) {
				name := fmt.Sprintf("%02d-%02d", day.Month, day.Day)
				weekend := day.Weekday() == time.Saturday || day.Weekday() == time.Sunday
				want := !slices.Contains(off, name) && (!weekend || slices.Contains(work, name))
				if working, known := c.IsWorking(day); working != want || !known {
					t.Errorf("%s: %s is a working day: %t, known: %t, want %t", code, day, working, known, want)
				}
				if _, holiday := c.Holiday(day); slices.Contains(off, name) && !holiday {
					t.Errorf("%s: %s is no holiday", code, day) // on a weekend, IsWorking does not depend on it
				}
			}
		}
	}
}

// A file is in the normal form, and its name is the code.
func TestFilesAreInNormalForm(t *testing.T) {
	t.Parallel()
	for _, code := range holidays.Codes() {
		c, err := holidays.Calendar(code)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile("days/" + code + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		if c.String() != string(text) {
			t.Errorf("days/%s.txt is not\n%s", code, c)
		}
	}
}

func TestCalendarRefusesOtherCodes(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"", "DE", "de-by", "XX", "../days/FR"} {
		if c, err := holidays.Calendar(code); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", code)) {
			t.Errorf("the calendar of %q is %v, %v", code, c, err)
		}
	}
}
