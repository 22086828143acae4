package almanacmail

import (
	"cmp"
	_ "embed"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/text/language"

	"github.com/almanac-go/almanac/calendar"
)

//go:embed months.txt
var monthsText string

// monthForm is how a language writes dates of another calendar.
type monthForm struct {
	pattern string // as in dateForm; 初 stands for a day in Chinese numerals; "" means the pattern of Gregorian dates
	// months are in the order of numbers. For the Hebrew calendar Adar I and Adar II follow, and for others with leap
	// months the pattern of their names, in which * stands for the name of the month before. A single # means that months
	// have no names, and are numbered in the order of the year.
	months []string
}

// monthForms has the forms of months.txt, by calendar and language: "hebrew de".
var monthForms = sync.OnceValue(func() map[string]monthForm {
	forms := make(map[string]monthForm)
	for line := range strings.Lines(monthsText) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		columns := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		form := monthForm{columns[2], strings.Split(columns[3], "|")}
		for _, name := range strings.Fields(columns[0]) {
			for _, locale := range strings.Fields(columns[1]) {
				forms[name+" "+locale] = form
			}
		}
	}
	return forms
})

// monthFormOf returns how a locale writes dates of a calendar, or false for a calendar of the host's own.
func monthFormOf(name string, locale language.Tag) (monthForm, bool) {
	if strings.HasPrefix(name, "islamic-") {
		name = "islamic"
	}
	for {
		form, known := monthForms()[name+" "+locale.String()]
		if known || locale.IsRoot() {
			return form, known
		}
		locale = locale.Parent()
	}
}

// dateBy writes a date by another calendar in the locale's form. It writes a Gregorian date for the calendar "", and
// for one that the program does not know, so that no mail is lost.
func (m *messages) dateBy(name string, value any) (string, error) {
	system, err := calendar.LoadSystem(name)
	if err != nil {
		return m.date(value)
	}
	date, err := dateOf(value)
	if err != nil {
		return "", err
	}
	day, err := system.Day(date)
	form, known := dateFormOf(m.locale)
	if err != nil || !known {
		return day.String(), err
	}
	other, ofCLDR := monthFormOf(name, m.locale)
	if !ofCLDR && form.months == "" { // the host's names do not stand in a pattern for numbers
		return day.In(system), nil
	}
	month, err := other.month(system, day)
	pattern := cmp.Or(other.pattern, form.pattern)
	return strings.NewReplacer("D", form.number(day.Day), "初", chineseDay(day.Day), "M", month, "Y", form.number(day.Year)).Replace(pattern), err
}

// month returns the name of the month in which a day is, or its number in the year. If f has no name for it, the result
// is the calendar's own name.
func (f monthForm) month(system calendar.System, day calendar.SystemDate) (string, error) {
	months, err := system.Months(day.Year)
	if err != nil {
		return "", err
	}
	if slices.Equal(f.months, []string{"#"}) {
		at := slices.IndexFunc(months, func(m calendar.SystemMonth) bool { return m.Number == day.Month && m.Leap == day.Leap })
		return strconv.Itoa(at + 1), nil
	}
	if len(f.months) < max(12, day.Month) {
		return day.MonthIn(system)
	}
	name := f.months[day.Month-1]
	hebrew := len(f.months) == 14
	leapYear := slices.ContainsFunc(months, func(m calendar.SystemMonth) bool { return m.Leap })
	switch {
	case hebrew && day.Leap:
		name = f.months[12]
	case hebrew && leapYear && day.Month == 6:
		name = f.months[13]
	case day.Leap:
		name = strings.ReplaceAll(f.months[len(f.months)-1], "*", name)
	}
	return name, nil
}

// chineseDay returns the name of a day of a month in the Chinese calendar, from 初一 to 三十.
func chineseDay(day int) string {
	digit := string([]rune("十一二三四五六七八九")[day%10])
	switch {
	case day <= 10:
		return "初" + digit
	case day < 20:
		return "十" + digit
	case day == 20:
		return "二十"
	case day < 30:
		return "廿" + digit
	}
	return "三十"
}
