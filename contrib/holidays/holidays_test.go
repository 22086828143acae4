package holidays_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/contrib/holidays"
)

// A list is the days of a country or a region in three years. It was compared, day by day, with its source,
// which is a name and a version. The README has the same text, with links.
type list struct {
	source string
	years  []year
}

// collection is one repository for several countries. It is no official list.
const collection = "openpotato/openholidaysapi.data dd3dfa8"

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

// These days have other dates in each of the three years.
var (
	easterSunday  = [3]string{"04-20", "04-05", "03-28"}
	pentecost     = [3]string{"06-08", "05-24", "05-16"}
	corpusChristi = [3]string{"06-19", "06-04", "05-27"}
	repentance    = [3]string{"11-19", "11-18", "11-17"}
)

// land returns the list of a German Land: the days of all, and its own. The source is its law.
func land(source, own string, moving ...[3]string) list {
	years := slices.Clone(german)
	for i := range years {
		years[i].off += " " + own
		for _, days := range moving {
			years[i].off += " " + days[i]
		}
	}
	return list{source, years}
}

// britain has the source of all lists of the United Kingdom.
const britain = "gov.uk, alphagov/frontend 609b0436d"

// england has the days off in England and in Wales.
var england = list{britain, []year{
	{2025, "01-01 04-18 04-21 05-05 05-26 08-25 12-25 12-26", ""},
	{2026, "01-01 04-03 04-06 05-04 05-25 08-31 12-25 12-28", ""},
	{2027, "01-01 03-26 03-29 05-03 05-31 08-30 12-27 12-28", ""},
}}

// berlin has the 80th anniversary of the end of the war, in 2025 only.
func berlin() list {
	l := land("FeiertG § 1 of 2019-01-30, as quoted in lexaris.de, and the list of the Senate; "+
		"8 May 2025: bill of 2023-09-05, and "+collection, women)
	l.years[0].off += " 05-08"
	return l
}

// byHand has a list of each code. They were written by hand, and not copied.
func byHand() map[string]list {
	return map[string]list{
		"AT": {"BGBl. 153/1957 in the version of 2019-03-22; " + collection, []year{
			{2025, "01-01 01-06 04-21 05-01 05-29 06-09 06-19 08-15 10-26 11-01 12-08 12-25 12-26", ""},
			{2026, "01-01 01-06 04-06 05-01 05-14 05-25 06-04 08-15 10-26 11-01 12-08 12-25 12-26", ""},
			{2027, "01-01 01-06 03-29 05-01 05-06 05-17 05-27 08-15 10-26 11-01 12-08 12-25 12-26", ""},
		}},
		"BE": {"belgium.be, royal decree of 1974-04-18; " + collection, []year{
			{2025, "01-01 04-20 04-21 05-01 05-29 06-08 06-09 07-21 08-15 11-01 11-11 12-25", ""},
			{2026, "01-01 04-05 04-06 05-01 05-14 05-24 05-25 07-21 08-15 11-01 11-11 12-25", ""},
			{2027, "01-01 03-28 03-29 05-01 05-06 05-16 05-17 07-21 08-15 11-01 11-11 12-25", ""},
		}},
		"CN": {"State Council, plans of 2024, 2025 and 2026 in LKI/chinese-calendar e678429", []year{
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
		}},
		"DE-BB": land("FTG § 2 of 1998-07-06; the version of 2015-04-30 as quoted in anwalt24.de", reformation, easterSunday, pentecost),
		"DE-BE": berlin(),
		"DE-BW": land("FTG of 1995-05-08, by the list of the ministry of the interior", epiphany+" "+allSaints, corpusChristi),
		"DE-BY": land("FTG Art. 1 of 2019-03-26, as quoted in gesetze.io", epiphany+" "+allSaints, corpusChristi),
		"DE-HB": land("FTG § 2 of 2015-07-28; 31 October: law of 2018-06-26, by Bundestag paper 19/14698", reformation),
		"DE-HE": land("HFeiertagsG § 1 of 2012-12-13, as quoted in lexaris.io", "", corpusChristi),
		"DE-HH": land("31 October: Feiertagsgesetz § 1 by the law of 2018-03-12, as quoted in weka.de. "+
			"We found no other day of § 1. The other days: StVO § 30, as quoted in imkerschule-sh.de", reformation),
		"DE-MV": land("no text of FTG M-V § 2 found; StVO § 30 as quoted in imkerschule-sh.de; "+
			"8 March: law of June 2022 as reported, and "+collection, women+" "+reformation),
		"DE-NI": land("NFeiertagsG § 2 of 2018-06-22, as quoted in kirchenrecht-braunschweig.de", reformation),
		"DE-NW": land("Feiertagsgesetz NW § 2 of 1994-12-20, as quoted in justiz-nrw.wolterskluwer-online.de", allSaints, corpusChristi),
		"DE-RP": land("LFtG § 2 of 2009-10-27, as quoted in lexaris.de", allSaints, corpusChristi),
		"DE-SH": land("SFTG § 2 of 2018-03-21", reformation),
		"DE-SL": land("SFG § 2 of 2015-10-13, as quoted in kirchenrecht-ekir.de, and the list of the ministry of the interior",
			assumption+" "+allSaints, corpusChristi),
		"DE-SN": land("SächsSFG § 1 of 1992-11-10, as quoted in justiz-nrw.wolterskluwer-online.de", reformation, repentance),
		"DE-ST": land("FeiertG LSA § 2 of 2006-11-22, as quoted in lexaris.de", epiphany+" "+reformation),
		"DE-TH": land("ThürFGtG § 2 of 2019-03-19, as quoted in kirchenrecht-ekm.de", children+" "+reformation),
		"DK": {"lov om detailsalg § 2 by lov 214 of 2023-03-06", []year{
			{2025, "01-01 04-17 04-18 04-20 04-21 05-29 06-08 06-09 12-25 12-26", ""},
			{2026, "01-01 04-02 04-03 04-05 04-06 05-14 05-24 05-25 12-25 12-26", ""},
			{2027, "01-01 03-25 03-26 03-28 03-29 05-06 05-16 05-17 12-25 12-26", ""},
		}},
		"FR": {"etalab/jours-feries-france-data 0c55b24", []year{
			{2025, "01-01 04-21 05-01 05-08 05-29 06-09 07-14 08-15 11-01 11-11 12-25", ""},
			{2026, "01-01 04-06 05-01 05-08 05-14 05-25 07-14 08-15 11-01 11-11 12-25", ""},
			{2027, "01-01 03-29 05-01 05-06 05-08 05-17 07-14 08-15 11-01 11-11 12-25", ""},
		}},
		"GB-ENG": england,
		"GB-WLS": england,
		"GB-NIR": {britain, []year{
			{2025, "01-01 03-17 04-18 04-21 05-05 05-26 07-14 08-25 12-25 12-26", ""},
			{2026, "01-01 03-17 04-03 04-06 05-04 05-25 07-13 08-31 12-25 12-28", ""},
			{2027, "01-01 03-17 03-26 03-29 05-03 05-31 07-12 08-30 12-27 12-28", ""},
		}},
		"GB-SCT": {britain, []year{
			{2025, "01-01 01-02 04-18 05-05 05-26 08-04 12-01 12-25 12-26", ""},
			{2026, "01-01 01-02 04-03 05-04 05-25 06-15 08-03 11-30 12-25 12-28", ""},
			{2027, "01-01 01-04 03-26 05-03 05-31 08-02 11-30 12-27 12-28", ""},
		}},
		"IT": {"Ufficio del Cerimoniale di Stato and legge 151/2025; " + collection, []year{
			{2025, "01-01 01-06 04-21 04-25 05-01 06-02 08-15 11-01 12-08 12-25 12-26", ""},
			{2026, "01-01 01-06 04-06 04-25 05-01 06-02 08-15 10-04 11-01 12-08 12-25 12-26", ""},
			{2027, "01-01 01-06 03-29 04-25 05-01 06-02 08-15 10-04 11-01 12-08 12-25 12-26", ""},
		}},
		"JP": {"Cabinet Office, file of 2026-02-02 in shogo82148/holidays-jp 7a6c69d", []year{
			{2025, "01-01 01-13 02-11 02-23 02-24 03-20 04-29 05-03 05-04 05-05 05-06 07-21 08-11 09-15 09-23 10-13 11-03 11-23 11-24", ""},
			{2026, "01-01 01-12 02-11 02-23 03-20 04-29 05-03 05-04 05-05 05-06 07-20 08-11 09-21 09-22 09-23 10-12 11-03 11-23", ""},
			{2027, "01-01 01-11 02-11 02-23 03-21 03-22 04-29 05-03 05-04 05-05 07-19 08-11 09-20 09-23 10-11 11-03 11-23", ""},
		}},
		"PL": {"Dz.U. 2025 poz. 296; " + collection, []year{
			{2025, "01-01 01-06 04-20 04-21 05-01 05-03 06-08 06-19 08-15 11-01 11-11 12-24 12-25 12-26", ""},
			{2026, "01-01 01-06 04-05 04-06 05-01 05-03 05-24 06-04 08-15 11-01 11-11 12-24 12-25 12-26", ""},
			{2027, "01-01 01-06 03-28 03-29 05-01 05-03 05-16 05-27 08-15 11-01 11-11 12-24 12-25 12-26", ""},
		}},
		"US": {"5 U.S.C. 6103 by Public Law 117-17 and Executive Order 11582; lists of federal courts of 2025 and 2026", []year{
			{2025, "01-01 01-20 02-17 05-26 06-19 07-04 09-01 10-13 11-11 11-27 12-25", ""},
			{2026, "01-01 01-19 02-16 05-25 06-19 07-03 07-04 09-07 10-12 11-11 11-26 12-25", ""},
			{2027, "01-01 01-18 02-15 05-31 06-18 06-19 07-04 07-05 09-06 10-11 11-11 11-25 12-24 12-25 12-31", ""},
		}},
	}
}

// Each day of a calendar is a working day, or none, as by a second list, and each day off of the list is
// a holiday. So a window that is closed on holidays is closed on the weekends of a break, too.
func TestDaysAreThoseOfASecondList(t *testing.T) {
	t.Parallel()
	for code, l := range byHand() {
		c, err := holidays.Calendar(code)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, y := range l.years {
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

// No day of a calendar is outside the three years of its list.
func TestEachDayIsInASecondList(t *testing.T) {
	t.Parallel()
	lists := byHand()
	for _, code := range holidays.Codes() {
		years := lists[code].years
		if len(years) != 3 || years[1].number != years[0].number+1 || years[2].number != years[0].number+2 {
			t.Errorf("%s: the list has not three years in a row: %v", code, years)
			continue
		}
		c, err := holidays.Calendar(code)
		if err != nil {
			t.Fatal(err)
		}
		if want := (calendar.Date{Year: years[2].number, Month: time.December, Day: 31}); c.Until() != want {
			t.Errorf("%s: the calendar ends on %s, the list on %s", code, c.Until(), want)
		}
		for line := range strings.Lines(c.String()) {
			var number int
			if n, _ := fmt.Sscanf(line, "%4d-", &number); n == 1 && (number < years[0].number || number > years[2].number) {
				t.Errorf("%s: no list has the year of %q", code, line)
			}
		}
	}
}

var link = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)

// Each list has a source with a version, and the README names it in the row of the code. No source is the
// collection alone.
func TestEachListNamesItsSource(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	sources := make(map[string]string)
	for line := range strings.Lines(string(readme)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			continue
		}
		for code := range strings.SplitSeq(cells[1], ",") {
			sources[strings.Trim(code, " `")] = strings.TrimSpace(link.ReplaceAllString(cells[3], "$1"))
		}
	}
	for code, l := range byHand() {
		switch {
		case !strings.ContainsAny(l.source, "0123456789"):
			t.Errorf("%s: the source %q has no version", code, l.source)
		case sources[code] != l.source:
			t.Errorf("%s: the README has the source %q, want %q", code, sources[code], l.source)
		case l.source == collection:
			t.Errorf("%s: the only source is the collection", code)
		}
	}
}

// easter returns Easter Sunday by the formula of Meeus, Jones and Butcher.
func easter(year int) calendar.Date {
	a, b, c := year%19, year/100, year%100
	h := (19*a + b - b/4 - (b-(b+8)/25+1)/3 + 15) % 30
	l := (32 + 2*(b%4) + 2*(c/4) - h - c%4) % 7
	n := h + l - 7*((a+11*h+22*l)/451) + 114
	return calendar.Date{Year: year, Month: time.Month(n / 31), Day: n%31 + 1}
}

// The laws of the Länder name the days of Easter, but have no dates. They follow from Easter Sunday. The day
// of repentance is the Wednesday before the last Sunday of the church year.
func TestGermanDaysFollowFromEaster(t *testing.T) {
	t.Parallel()
	for i, y := range german {
		sunday := easter(y.number)
		name := func(d calendar.Date) string { return fmt.Sprintf("%02d-%02d", d.Month, d.Day) }
		christmas := calendar.Date{Year: y.number, Month: time.December, Day: 25}
		advent := christmas.AddDays(-21 - (int(christmas.Weekday())+6)%7 - 1)
		all := strings.Join([]string{
			"01-01", name(sunday.AddDays(-2)), name(sunday.AddDays(1)), "05-01", name(sunday.AddDays(39)),
			name(sunday.AddDays(50)), "10-03", "12-25", "12-26",
		}, " ")
		own := [4]string{name(sunday), name(sunday.AddDays(49)), name(sunday.AddDays(60)), name(advent.AddDays(-11))}
		moving := [4]string{easterSunday[i], pentecost[i], corpusChristi[i], repentance[i]}
		if all != y.off || own != moving {
			t.Errorf("%d: the list is %s and %v, want %s and %v", y.number, y.off, moving, all, own)
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

func TestAnErrorNamesTheCalendarsOfTheCountry(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		"DE":    `holidays: there is no calendar "DE"; there are DE-BB, DE-BE, DE-BW, DE-BY, DE-HB, DE-HE, DE-HH, DE-MV, DE-NI, DE-NW, DE-RP, DE-SH, DE-SL, DE-SN, DE-ST, DE-TH`,
		"fr":    `holidays: there is no calendar "fr"; there are FR`,
		"FR-XY": `holidays: there is no calendar "FR-XY"; there are FR`,
		"XX":    `holidays: there is no calendar "XX"`,
		"D":     `holidays: there is no calendar "D"`,
	} {
		if _, err := holidays.Calendar(code); err == nil || err.Error() != want {
			t.Errorf("the error for %q is %v, not %s", code, err, want)
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
