package almanacmail_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/calendar"
	almanacmail "github.com/almanac-go/almanac/contrib/mail"
	"github.com/almanac-go/almanac/internal/calendartest"
)

// dated are the weekday and the long date of 2026-12-30 and 2027-03-07, by locale, as ICU 78
// writes them with the data of Unicode CLDR 48.
var dated = map[string]string{
	"am":         "ረቡዕ|30 ዲሴምበር 2026|እሑድ|7 ማርች 2027",
	"ar":         "الأربعاء|30 ديسمبر 2026|الأحد|7 مارس 2027",
	"ar-SA":      "الأربعاء|٣٠ ديسمبر ٢٠٢٦|الأحد|٧ مارس ٢٠٢٧",
	"ar-EG":      "الأربعاء|٣٠ ديسمبر ٢٠٢٦|الأحد|٧ مارس ٢٠٢٧",
	"ar-DZ":      "الأربعاء|30 ديسمبر 2026|الأحد|7 مارس 2027",
	"ar-TN":      "الأربعاء|30 ديسمبر 2026|الأحد|7 مارس 2027",
	"ar-MA":      "الأربعاء|30 دجنبر 2026|الأحد|7 مارس 2027",
	"ar-IQ":      "الأربعاء|٣٠ كانون الأول ٢٠٢٦|الأحد|٧ آذار ٢٠٢٧",
	"ar-JO":      "الأربعاء|٣٠ كانون الأول ٢٠٢٦|الأحد|٧ آذار ٢٠٢٧",
	"ar-MR":      "الأربعاء|٣٠ دجمبر ٢٠٢٦|الأحد|٧ مارس ٢٠٢٧",
	"fa":         "چهارشنبه|۳۰ دسامبر ۲۰۲۶|یکشنبه|۷ مارس ۲۰۲۷",
	"fa-AF":      "چهارشنبه|۳۰ دسمبر ۲۰۲۶|یکشنبه|۷ مارچ ۲۰۲۷",
	"he":         "יום רביעי|30 בדצמבר 2026|יום ראשון|7 במרץ 2027",
	"ko":         "수요일|2026년 12월 30일|일요일|2027년 3월 7일",
	"vi":         "Thứ Tư|30 tháng 12, 2026|Chủ Nhật|7 tháng 3, 2027",
	"bg":         "сряда|30 декември 2026\u202fг.|неделя|7 март 2027\u202fг.",
	"cs":         "středa|30. prosince 2026|neděle|7. března 2027",
	"da":         "onsdag|30. december 2026|søndag|7. marts 2027",
	"de":         "Mittwoch|30. Dezember 2026|Sonntag|7. März 2027",
	"el":         "Τετάρτη|30 Δεκεμβρίου 2026|Κυριακή|7 Μαρτίου 2027",
	"en":         "Wednesday|December 30, 2026|Sunday|March 7, 2027",
	"es":         "miércoles|30 de diciembre de 2026|domingo|7 de marzo de 2027",
	"fi":         "keskiviikko|30. joulukuuta 2026|sunnuntai|7. maaliskuuta 2027",
	"fr":         "mercredi|30 décembre 2026|dimanche|7 mars 2027",
	"hr":         "srijeda|30. prosinca 2026.|nedjelja|7. ožujka 2027.",
	"hu":         "szerda|2026. december 30.|vasárnap|2027. március 7.",
	"it":         "mercoledì|30 dicembre 2026|domenica|7 marzo 2027",
	"ja":         "水曜日|2026年12月30日|日曜日|2027年3月7日",
	"nl":         "woensdag|30 december 2026|zondag|7 maart 2027",
	"no":         "onsdag|30. desember 2026|søndag|7. mars 2027",
	"pl":         "środa|30 grudnia 2026|niedziela|7 marca 2027",
	"pt":         "quarta-feira|30 de dezembro de 2026|domingo|7 de março de 2027",
	"ro":         "miercuri|30 decembrie 2026|duminică|7 martie 2027",
	"ru":         "среда|30 декабря 2026\u202fг.|воскресенье|7 марта 2027\u202fг.",
	"sk":         "streda|30. decembra 2026|nedeľa|7. marca 2027",
	"sv":         "onsdag|30 december 2026|söndag|7 mars 2027",
	"tr":         "Çarşamba|30 Aralık 2026|Pazar|7 Mart 2027",
	"uk":         "середа|30 грудня 2026\u202fр.|неділя|7 березня 2027\u202fр.",
	"zh":         "星期三|2026年12月30日|星期日|2027年3月7日",
	"de-AT":      "Mittwoch|30. Dezember 2026|Sonntag|7. März 2027",
	"de-CH":      "Mittwoch|30. Dezember 2026|Sonntag|7. März 2027",
	"en-US":      "Wednesday|December 30, 2026|Sunday|March 7, 2027",
	"en-CA":      "Wednesday|December 30, 2026|Sunday|March 7, 2027",
	"en-GB":      "Wednesday|30 December 2026|Sunday|7 March 2027",
	"en-AU":      "Wednesday|30 December 2026|Sunday|7 March 2027",
	"pt-BR":      "quarta-feira|30 de dezembro de 2026|domingo|7 de março de 2027",
	"nb":         "onsdag|30. desember 2026|søndag|7. mars 2027",
	"es-MX":      "miércoles|30 de diciembre de 2026|domingo|7 de marzo de 2027",
	"zh-TW":      "星期三|2026年12月30日|星期日|2027年3月7日",
	"zh-Hans-SG": "星期三|2026年12月30日|星期日|2027年3月7日",
}

const dates = `{"first": "2026-12-30", "second": "2027-03-07"}`

func TestDatesFollowTheLanguage(t *testing.T) {
	t.Parallel()
	const text = "Subject: x\n\n{{weekday .Payload.first}}|{{date .Payload.first}}|{{weekday .Payload.second}}|{{date .Payload.second}}"
	contents := map[string]string{"xh/BIRTHDAY.txt": "Subject: x\n\n{{date .Payload.first}}", "uk-Latn/BIRTHDAY.txt": "Subject: x\n\n{{date .Payload.first}}"}
	for locale := range dated {
		contents[locale+"/BIRTHDAY.txt"] = text
	}
	parsed, err := almanacmail.ParseTemplates(files(contents), "en")
	require.NoError(t, err)
	for locale, want := range dated {
		mail, err := parsed.Render(delivery(locale, dates), "")
		require.NoError(t, err)
		require.Equal(t, want, mail.Text, locale)
	}
	for _, locale := range []string{"xh", "uk-Latn"} {
		mail, err := parsed.Render(delivery(locale, dates), "")
		require.NoError(t, err)
		require.Equal(t, "2026-12-30", mail.Text, "another language, or another script")
	}
	mail, err := parsed.Render(delivery("de-AT", `{"first": "2027-01-01", "second": "2027-02-01"}`), "")
	require.NoError(t, err)
	require.Equal(t, "Freitag|1. Jänner 2027|Montag|1. Februar 2027", mail.Text)
}

// Each table has twelve months and seven days, in order.
func TestEveryMonthAndWeekdayHasAName(t *testing.T) {
	t.Parallel()
	contents := make(map[string]string)
	for locale := range dated {
		contents[locale+"/BIRTHDAY.txt"] = "Subject: x\n\n{{range .Payload.days}}{{date .}}|{{end}}{{range .Payload.days}}{{weekday .}}|{{end}}"
	}
	parsed, err := almanacmail.ParseTemplates(files(contents), "en")
	require.NoError(t, err)
	// The first days of the months of 2027 are on every weekday.
	days := strings.Split("01 02 03 04 05 06 07 08 09 10 11 12", " ")
	payload := `{"days": ["2027-` + strings.Join(days, `-01", "2027-`) + `-01"]}`
	for locale := range dated {
		mail, err := parsed.Render(delivery(locale, payload), "")
		require.NoError(t, err, locale)
		different := make(map[string]bool)
		for _, one := range strings.Split(strings.TrimSuffix(mail.Text, "|"), "|") {
			different[one] = true
		}
		require.Len(t, different, 12+7, locale)
	}
}

func TestDatesAreOfTheEventOrThePayload(t *testing.T) {
	t.Parallel()
	parsed, err := almanacmail.ParseTemplates(files(map[string]string{
		"de/BIRTHDAY.txt":  "Subject: {{date .Event.Wall}}\n\n{{weekday .Event.Wall.Date}} {{.Payload.date | date}}",
		"de/BIRTHDAY.html": "<p>{{date .Payload.date}}</p>",
	}), "de")
	require.NoError(t, err)
	d := delivery("de", `{"date": "2026-12-30"}`)
	d.Event.Wall.Date = calendar.Date{Year: 2027, Month: time.January, Day: 1}
	mail, err := parsed.Render(d, "")
	require.NoError(t, err)
	require.Equal(t, almanacmail.Mail{Locale: "de", Subject: "1. Januar 2027", Text: "Freitag 30. Dezember 2026", HTML: "<p>30. Dezember 2026</p>"}, mail)
	for payload, want := range map[string]string{
		`{"date": "30.12.2026"}`: "is not a date", `{"date": "2026-02-29"}`: "is not a day", `{"date": 7}`: "int64 is not a calendar.Date", `{"date": null}`: "is not a calendar.Date",
	} {
		_, err := parsed.Render(delivery("de", payload), "")
		require.ErrorContains(t, err, want)
	}
	d = delivery("de", `{"date": "2026-12-30"}`)
	d.Event.Wall.Date.Year = 0 // as in a date of birth without a year
	_, err = parsed.Render(d, "")
	require.ErrorContains(t, err, "is not a date")
}

// What no date or no language allows is found at the start.
func TestDatesThatCannotBeWrittenAreFoundAtTheStart(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{{date .Event.Due}}`:           "en/BIRTHDAY.txt:3:13: .Event.Due: date takes a calendar.Date, a calendar.WallTime or a text YYYY-MM-DD, not time.Time",
		`{{.User.DateOfBirth|weekday}}`: "weekday takes a calendar.Date, a calendar.WallTime or a text YYYY-MM-DD, not almanac.DateOfBirth",
	} {
		_, err := almanacmail.ParseTemplates(files(map[string]string{"en/BIRTHDAY.txt": "Subject: x\n\n" + text}), "en")
		require.ErrorContains(t, err, want)
	}
	_, err := almanacmail.ParseTemplates(files(map[string]string{"xh/BIRTHDAY.txt": "Subject: x\n\n{{.Payload.date | weekday}}"}), "xh")
	require.EqualError(t, err, "almanacmail: xh/BIRTHDAY.txt:3:18: the names of weekdays are not known for locale xh")
}

// A date by a calendar of the host's own has the form of the locale, and the host's name of the month.
func TestDatesByACalendarOfTheHostHaveItsNames(t *testing.T) {
	t.Parallel()
	require.NoError(t, calendar.RegisterSystems(calendartest.Lunar{}))
	contents := make(map[string]string)
	for _, locale := range []string{"de", "en", "ja", "vi", "xh"} {
		contents[locale+"/BIRTHDAY.txt"] = "Subject: x\n\n{{dateBy .Event.KeyUnit.System .Payload.first}}|{{dateBy .Payload.by .Payload.first}}|{{dateBy \"\" .Payload.first}}"
	}
	parsed, err := almanacmail.ParseTemplates(files(contents), "en")
	require.NoError(t, err)
	leap, err := calendartest.Lunar{}.Date(calendar.SystemDate{Year: 2028, Month: 5, Leap: true, Day: 7})
	require.NoError(t, err)
	payload := `{"by": "lunar", "first": "` + leap.String() + `"}`
	for locale, want := range map[string]string{
		"de": "7. Leap Moon 5 2028", "en": "Leap Moon 5 7, 2028", "ja": "7 Leap Moon 5 2028", "vi": "7 Leap Moon 5 2028", "xh": "2028-05L-07",
	} {
		mail, err := parsed.Render(delivery(locale, payload), "")
		require.NoError(t, err, locale)
		parts := strings.Split(mail.Text, "|")
		require.Equal(t, want, parts[1], locale)
		require.Equal(t, parts[2], parts[0], "an event of the Gregorian calendar")
	}
	mail, err := parsed.Render(delivery("en", `{"by": "unheard-of", "first": "2027-03-15"}`), "")
	require.NoError(t, err)
	require.Equal(t, []string{"March 15, 2027", "March 15, 2027"}, strings.Split(mail.Text, "|")[1:], "a calendar that the program does not know")
}
