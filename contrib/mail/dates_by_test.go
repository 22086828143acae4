package almanacmail_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/calendar"
	almanacmail "github.com/almanac-go/almanac/contrib/mail"
)

// sampled is a calendar of which the days of testdata/dates.txt are known.
type sampled struct {
	name string
	days map[calendar.Date]calendar.SystemDate
}

func (s sampled) Info() calendar.SystemInfo {
	skip := calendar.Missing{Month: calendar.MissingSkip, Day: calendar.MissingSkip}
	return calendar.SystemInfo{Name: s.name, Release: "1", First: 1, Last: 9999, Missing: skip}
}

func (s sampled) Day(d calendar.Date) (calendar.SystemDate, error) {
	day, known := s.days[d]
	if !known {
		return day, &calendar.SystemError{System: s.name, Problem: "has no " + d.String()}
	}
	return day, nil
}

func (s sampled) Date(d calendar.SystemDate) (calendar.Date, error) {
	return calendar.Date{}, &calendar.SystemError{System: s.name, Problem: "has no " + d.String()}
}

func (s sampled) Months(year int) (months []calendar.SystemMonth, err error) {
	for _, day := range s.days {
		if day.Year == year {
			months = append(months, calendar.SystemMonth{Number: day.Month, Leap: day.Leap, Days: 30, Name: "never shown"})
		}
	}
	slices.SortFunc(months, func(a, b calendar.SystemMonth) int { return strings.Compare(code(a), code(b)) })
	return months, nil
}

func code(m calendar.SystemMonth) string {
	return calendar.SystemDate{Month: m.Number, Leap: m.Leap, Day: 1}.String()
}

// Each date is as ICU writes it: one in each month of each calendar, in each language.
func TestDatesByAnotherCalendarAreThoseOfICU(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/dates.txt")
	require.NoError(t, err)
	days := make(map[string][]string)            // by calendar, as YYYY-MM-DD
	want := make(map[string]map[string][]string) // by calendar and locale
	contents := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		parts := strings.Split(strings.TrimSuffix(line, "\n"), "|")
		switch {
		case line[0] == '#':
		case parts[1] == "":
			s := sampled{parts[0], make(map[calendar.Date]calendar.SystemDate)}
			for _, pair := range parts[2:] {
				iso, day, _ := strings.Cut(pair, "=")
				date, err := calendar.ParseDate(iso)
				require.NoError(t, err)
				s.days[date], err = calendar.ParseSystemDate(day)
				require.NoError(t, err)
				days[s.name] = append(days[s.name], iso)
			}
			want[s.name] = make(map[string][]string)
			require.NoError(t, calendar.RegisterSystems(s))
		default:
			want[parts[0]][parts[1]] = parts[2:]
			contents[parts[1]+"/BIRTHDAY.txt"] = "Subject: x\n\n{{range .Payload.days}}{{dateBy $.Payload.by .}}|{{end}}"
		}
	}
	parsed, err := almanacmail.ParseTemplates(files(contents), "en")
	require.NoError(t, err)
	require.Len(t, want, 7)
	for name, locales := range want {
		require.Len(t, locales, len(contents), name)
		payload, err := json.Marshal(map[string]any{"by": name, "days": days[name]})
		require.NoError(t, err)
		for locale, dates := range locales {
			mail, err := parsed.Render(delivery(locale, string(payload)), "")
			require.NoError(t, err, "%s %s", name, locale)
			require.Equal(t, locale, mail.Locale)
			require.Equal(t, dates, strings.Split(strings.TrimSuffix(mail.Text, "|"), "|"), fmt.Sprint(name, " ", locale))
		}
	}
}
