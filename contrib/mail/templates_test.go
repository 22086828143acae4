package almanacmail_test

import (
	"encoding/json"
	"io/fs"
	"maps"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	almanacmail "github.com/almanac-go/almanac/contrib/mail"
)

// files makes a file system of names and contents.
func files(contents map[string]string) fstest.MapFS {
	system := make(fstest.MapFS)
	for name, content := range contents {
		system[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return system
}

// delivery is a delivery of a payload to a user with a locale.
func delivery(locale, payload string) almanac.Delivery {
	d := greeting(ada())
	d.User.Locale, d.Event.Payload = locale, json.RawMessage(payload)
	return d
}

func TestAUserGetsTheNearestLocale(t *testing.T) {
	t.Parallel()
	contents := make(map[string]string)
	for _, locale := range []string{"en", "en-GB", "de", "pt-BR", "fr", "ru", "zh-Hant", "sr-Latn"} {
		contents[locale+"/BIRTHDAY.txt"] = "Subject: " + locale + "\n\ntext"
	}
	parsed, err := almanacmail.ParseTemplates(files(contents), "fr")
	require.NoError(t, err)
	for locale, want := range map[string]string{
		"de": "de", "de-AT": "de", "de-CH-1996": "de", // contained in
		"en": "en", "en-GB": "en-GB", "en-US": "en", "en-AU": "en",
		"pt": "pt-BR", "pt-PT": "pt-BR", // understood
		"zh-TW": "zh-Hant", "zh-HK": "zh-Hant", "sr-Latn-BA": "sr-Latn",
		"": "fr", "ja": "fr", "xx-nonsense": "fr", "not a tag": "fr", // nothing suits
		"uk": "fr", "zh-CN": "fr", // of another language, or in another script
	} {
		mail, err := parsed.Render(delivery(locale, `{}`), "")
		require.NoError(t, err)
		require.Equal(t, want, mail.Locale, "for %q", locale)
		require.Equal(t, want, mail.Subject)
	}
}

// A type that a locale lacks comes whole from another locale.
func TestATypeFallsBackByItself(t *testing.T) {
	t.Parallel()
	parsed, err := almanacmail.ParseTemplates(files(map[string]string{
		"en/BIRTHDAY.txt": "Subject: en\n\ntext", "en/BIRTHDAY.html": "<b>en</b>", "en/RENEWAL.txt": "Subject: en\n\nrenewal",
		"de/BIRTHDAY.txt": "Subject: de\n\nText",
	}), "en")
	require.NoError(t, err)
	require.Equal(t, []string{"BIRTHDAY", "RENEWAL"}, parsed.Types())
	mail, err := parsed.Render(delivery("de", `{}`), "")
	require.NoError(t, err)
	require.Equal(t, almanacmail.Mail{Locale: "de", Subject: "de", Text: "Text"}, mail, "no HTML in another language")
	d := delivery("de", `{}`)
	d.Event.Type = "RENEWAL"
	mail, err = parsed.Render(d, "")
	require.NoError(t, err)
	require.Equal(t, almanacmail.Mail{Locale: "en", Subject: "en", Text: "renewal"}, mail)
	d.Event.Type = "OTHER"
	_, err = parsed.Render(d, "")
	require.ErrorContains(t, err, `no template for event type "OTHER"`)
}

func TestTemplatesSeeTheDelivery(t *testing.T) {
	t.Parallel()
	parsed, err := almanacmail.ParseTemplates(files(map[string]string{
		"sign.part.txt":    "Yours, {{template \"name\" .}}",
		"name.part.txt":    "the default name",
		"en/name.part.txt": "Almanac {{.Locale}}",
		"frame.part.html":  `<html lang="{{.Locale}}">{{block "content" .}}{{end}}</html>`,
		"en/BIRTHDAY.txt":  "Subject: {{.User.Name}}\r\n\r\n{{.Payload.message}} {{if eq .Payload.years 1}}first{{end}} {{.Payload.price}} {{len .Payload.list}} {{index .Payload.list 1}}\n{{template \"sign\" .}}",
		"en/BIRTHDAY.html": `{{define "content"}}<a href="{{.Unsubscribe}}">{{.Payload.message}}</a>{{end}}{{template "frame" .}}`,
	}), "en")
	require.NoError(t, err)
	mail, err := parsed.Render(delivery("en", `{"message": "<Hey>", "years": 1, "price": 1.5, "list": [1, 2], "huge": 1e999}`), "https://example.com/?a=b&c=d")
	require.NoError(t, err)
	require.Equal(t, almanacmail.Mail{
		Locale: "en", Subject: "Ada Lovelace", Text: "<Hey> first 1.5 2 2\nYours, Almanac en",
		HTML: `<html lang="en"><a href="https://example.com/?a=b&amp;c=d">&lt;Hey&gt;</a></html>`,
	}, mail)
}

// A mail says why its day was chosen, if working days or a window have moved the event. In another language it has
// the day that the rule names, which is zero for a day that nothing moved.
func TestAMailSaysWhyItsDayWasChosen(t *testing.T) {
	t.Parallel()
	parsed, err := almanacmail.ParseTemplates(files(map[string]string{
		"en/RENT.txt": "Subject: rent\n\n{{.Payload.message}}{{with index .Payload \"reason\"}} ({{.}}){{end}}",
		"de/RENT.txt": "Subject: Miete\n\nDie Miete ist fällig{{if and .Event.Nominal.Date.Year (ne .Event.Nominal.Date .Event.Wall.Date)}}, verlegt vom {{date .Event.Nominal}} auf den {{date .Event.Wall}}{{end}}",
	}), "en")
	require.NoError(t, err)
	days, err := calendar.ParseWorkCalendar("name LAND\nrelease 2026-01-01\nuntil 2027-12-31\n2026-04-03 holiday Good Friday")
	require.NoError(t, err)
	nine := calendar.Clock{Hour: 9}
	third := calendar.Within{Of: calendar.Monthly{Day: 3, At: nine}, WorkDays: days}
	for _, tt := range []struct {
		rule         calendar.Recurrence
		from, en, de string
	}{
		{third, "2026-03-20", "The rent is due (moved from Friday 3 April to Monday 6 April because of Good Friday)", "Die Miete ist fällig, verlegt vom 3. April 2026 auf den 6. April 2026"},
		{third, "2026-05-20", "The rent is due", "Die Miete ist fällig"},
		{calendar.Monthly{Day: 3, At: nine, WorkDays: days}, "2026-05-20", "The rent is due (third working day of LAND)", "Die Miete ist fällig"},
	} {
		rent := almanac.Recurring{
			Type: "RENT", Message: func(almanac.User, almanac.Occurrence) string { return "The rent is due" },
			Rule: func(almanac.User) (calendar.Recurrence, error) { return tt.rule, nil },
		}
		at, err := time.Parse(time.DateOnly, tt.from)
		require.NoError(t, err)
		o, err := rent.Next(ada(), at)
		require.NoError(t, err)
		e, err := almanac.NewEvent(ada(), rent, almanac.Occurrence{Occurrence: o})
		require.NoError(t, err)
		for locale, want := range map[string]string{"en": tt.en, "de": tt.de} {
			d := delivery(locale, "{}")
			d.Event = e
			mail, err := parsed.Render(d, "")
			require.NoError(t, err)
			require.Equal(t, want, mail.Text)
		}
	}
}

func TestPluralsFollowTheLanguage(t *testing.T) {
	t.Parallel()
	text := "Subject: x\n\n{{plural \"years\" .Payload.years}}"
	parsed, err := almanacmail.ParseTemplates(files(map[string]string{
		"en/BIRTHDAY.txt": text, "en/messages.json": `{"years": {"one": "{{.PluralCount}} year", "other": "{{.PluralCount}} years"}}`,
		"pl/BIRTHDAY.txt": text, "pl/messages.json": `{"years": {"one": "{{.PluralCount}} rok", "few": "{{.PluralCount}} lata", "many": "{{.PluralCount}} lat", "other": "{{.PluralCount}} roku"}}`,
		"ja/BIRTHDAY.txt": text, "ja/messages.json": `{"years": {"other": "{{.PluralCount}}年"}}`,
		"fr/BIRTHDAY.txt": text, "fr/messages.json": `{"years": {"one": "{{.PluralCount}} an", "other": "{{.PluralCount}} ans"}}`,
		"pt-BR/BIRTHDAY.txt": text, "pt-BR/messages.json": `{"years": {"one": "{{.PluralCount}} ano", "other": "{{.PluralCount}} anos"}}`,
	}), "en")
	require.NoError(t, err)
	for locale, want := range map[string]map[string]string{
		"en": {"0": "0 years", "1": "1 year", "21": "21 years"},
		"pl": {"1": "1 rok", "3": "3 lata", "5": "5 lat", "12": "12 lat", "22": "22 lata"},
		"ja": {"1": "1年"}, "fr": {"0": "0 an", "1": "1 an", "2": "2 ans", "1000000": "1000000 ans"}, "pt": {"1": "1 ano", "2": "2 anos"},
	} {
		for number, want := range want {
			mail, err := parsed.Render(delivery(locale, `{"years": `+number+`}`), "")
			require.NoError(t, err)
			require.Equal(t, want, mail.Text, locale)
		}
	}
}

// Every mistake that can be found without a payload is found before the program starts.
func TestMistakesAreFoundAtTheStart(t *testing.T) {
	t.Parallel()
	const good = "Subject: x\n\ntext"
	english := map[string]string{"en/BIRTHDAY.txt": good}
	tests := map[string]struct {
		more map[string]string
		want string
	}{
		"syntax":                         {map[string]string{"de/BIRTHDAY.txt": "Subject: x\n\nline 3\n{{.User.FirstName"}, "de/BIRTHDAY.txt:4"},
		"syntax of a subject":            {map[string]string{"de/BIRTHDAY.txt": "Subject: {{if}}\n\ntext"}, "de/BIRTHDAY.txt:1"},
		"syntax of HTML":                 {map[string]string{"en/BIRTHDAY.html": "{{end}}"}, "en/BIRTHDAY.html:1"},
		"syntax of a part":               {map[string]string{"part.part.txt": "{{end}}"}, `part.part.txt: template: part:1`},
		"an unknown function":            {map[string]string{"de/BIRTHDAY.txt": "Subject: x\n\n{{shout .Payload.message}}"}, `function "shout" not defined`},
		"no subject":                     {map[string]string{"de/BIRTHDAY.txt": "Dear Ada,\n\ntext"}, "does not begin with a line"},
		"a subject of two lines":         {map[string]string{"de/BIRTHDAY.txt": "Subject: a\nb\n\ntext"}, "does not begin with a line"},
		"a part that is missing":         {map[string]string{"de/BIRTHDAY.txt": "Subject: x\n\n{{if .User.Email}}{{template \"none\"}}{{end}}"}, `there is no part "none"`},
		"a part of HTML that is missing": {map[string]string{"en/BIRTHDAY.html": "{{range .Payload.list}}{{else}}{{template \"none\"}}{{end}}"}, `there is no part "none"`},
		"HTML that cannot be escaped":    {map[string]string{"en/BIRTHDAY.html": `<a href="{{if .Unsubscribe}}{{.Unsubscribe}}">{{end}}`}, "{{if}} branches end in different contexts"},
		"HTML without text":              {map[string]string{"en/RENEWAL.html": "<p>"}, "has no RENEWAL.txt beside it"},
		"a message that is missing":      {map[string]string{"de/BIRTHDAY.txt": "Subject: x\n\n{{with .Payload}}{{print (plural \"years\" .years)}}{{end}}"}, `there is no message "years"`},
		"a plural form that is missing":  {map[string]string{"pl/BIRTHDAY.txt": good, "pl/messages.json": `{"years": {"one": "rok", "many": "lat", "other": "roku"}}`}, `for the number 2: message "years" has no plural form "few"`},
		"a message of bad syntax":        {map[string]string{"de/BIRTHDAY.txt": good, "de/messages.json": `{"years": {"one": "{{", "other": "x"}}`}, "messages.json"},
		"messages that are not JSON":     {map[string]string{"de/BIRTHDAY.txt": good, "de/messages.json": `years: x`}, "messages.json"},
		"a directory that is no locale":  {map[string]string{"english/BIRTHDAY.txt": good}, `directory "english" is not a locale`},
		"a locale twice":                 {map[string]string{"EN/BIRTHDAY.txt": good}, "two directories are the locale en"},
		"a type without fallback":        {map[string]string{"de/RENEWAL.txt": good}, `"RENEWAL" has no template in the fallback locale en`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := maps.Clone(english)
			maps.Copy(all, tt.more)
			_, err := almanacmail.ParseTemplates(files(all), "en")
			require.ErrorContains(t, err, tt.want)
			require.NotContains(t, err.Error(), "\n", "nothing else is wrong")
		})
	}
	_, err := almanacmail.ParseTemplates(files(nil), "en")
	require.ErrorContains(t, err, "no templates")
	_, err = almanacmail.ParseTemplates(files(english), "english")
	require.ErrorContains(t, err, "fallback")
}

// mistakes are templates with mistakes in every place, and found are the lines of the error.
var (
	mistakes = map[string]string{
		"footer.part.txt":     "{{template \"address\"}} {{plural \"days\" 1}}", // wrong in both locales
		"broken.part.txt":     "{{define \"inner\"}}{{end}}{{end}}",
		"de/RENEWAL.txt":      "Subject: x\n\n{{template \"footer\" .}}{{template \"broken\" .}}{{template \"inner\" .}}",
		"de/BIRTHDAY.txt":     "Dear Ada,\n\n{{if (plural \"weeks\" (len (index .Payload 0).list))}}{{template \"none\"}}{{end}}",
		"de/BIRTHDAY.html":    `<a href="{{if .Unsubscribe}}{{.Unsubscribe}}">{{end}}{{plural "weeks" 2}}`,
		"de/messages.json":    `{"years": {"one": "x"}, "days": {"other": "x", "one": "{{"}}`,
		"en/BIRTHDAY.txt":     "Subject: {{if}}\n\n{{end}}",
		"en/HTMLONLY.html":    "{{end}}",
		"en/messages.json":    `years: x`, // so that no template lacks a message
		"english/OTHER.txt":   "Subject: x\n\ntext",
		"fr/ONLYFRENCH.txt":   "Subject: x\n\n{{template \"footer\" .}}",
		"fr/ONLYFRENCH.html":  "{{template \"none\"}}",
		"fr/address.part.txt": "",
	}
	found = []string{
		`almanacmail: de/messages.json: "days" for the number 1: template: :1: unclosed action`,
		`almanacmail: de/messages.json: "years" for the number 0: message "years" has no plural form "other"`,
		`almanacmail: de/BIRTHDAY.txt does not begin with a line "Subject: …" and an empty line`,
		`almanacmail: broken.part.txt: template: broken:1: unexpected {{end}}`,
		`almanacmail: footer.part.txt:1:11: there is no part "address" for locale de`,
		`almanacmail: de/BIRTHDAY.txt:3:6: there is no message "weeks" in de/messages.json`,
		`almanacmail: de/BIRTHDAY.txt:3:64: there is no part "none" for locale de`,
		`almanacmail: de/BIRTHDAY.html:1:55: there is no message "weeks" in de/messages.json`,
		`almanacmail: html/template:de/BIRTHDAY.html:1:14: {{if}} branches end in different contexts`,
		`almanacmail: en/messages.json: invalid character 'y' looking for beginning of value`,
		`almanacmail: template: en/BIRTHDAY.txt:1: missing value for if`,
		`almanacmail: footer.part.txt:1:11: there is no part "address" for locale en`,
		`almanacmail: template: en/BIRTHDAY.txt:3: unexpected {{end}}`,
		`almanacmail: en/HTMLONLY.html has no HTMLONLY.txt beside it`,
		`almanacmail: template: en/HTMLONLY.html:1: unexpected {{end}}`,
		`almanacmail: directory "english" is not a locale: language: tag is not well-formed`,
		`almanacmail: footer.part.txt:1:25: there is no message "days" in fr/messages.json`,
		`almanacmail: fr/ONLYFRENCH.html:1:11: there is no part "none" for locale fr`,
		`almanacmail: event type "ONLYFRENCH" has no template in the fallback locale en`,
		`almanacmail: event type "RENEWAL" has no template in the fallback locale en`,
	}
)

// A program that fixes one mistake after the other would start many times.
func TestEveryMistakeIsReported(t *testing.T) {
	t.Parallel()
	for range 20 { // the order does not depend on that of maps
		_, err := almanacmail.ParseTemplates(files(mistakes), "en")
		require.Error(t, err)
		lines := strings.Split(err.Error(), "\n")
		require.Len(t, lines, len(found), "%s", err)
		for i, line := range lines {
			require.True(t, strings.HasPrefix(line, found[i]), line) // templates add to some
		}
	}
	_, err := almanacmail.ParseTemplates(files(map[string]string{"en/BIRTHDAY.txt": "one"}), "english")
	require.ErrorContains(t, err, "en/BIRTHDAY.txt")
	require.ErrorContains(t, err, `fallback locale "english"`)
}

// unreadable is a file system of which no file can be read.
type unreadable struct{ fs.FS }

func (unreadable) ReadFile(name string) ([]byte, error) {
	return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrPermission}
}

// What follows from a file that cannot be read is not a mistake of its own.
func TestEveryFileThatCannotBeReadIsReported(t *testing.T) {
	t.Parallel()
	_, err := almanacmail.ParseTemplates(unreadable{files(map[string]string{
		"en/BIRTHDAY.txt": "", "en/BIRTHDAY.html": "", "en/messages.json": "", "footer.part.txt": "", "de/BIRTHDAY.txt": "", "de/messages.json": "",
	})}, "en")
	require.ErrorIs(t, err, fs.ErrPermission)
	require.Len(t, strings.Split(err.Error(), "\n"), 6, "%s", err)
}

// What a payload lacks would otherwise be sent as "<no value>".
func TestAMemberThatIsMissingIsAnError(t *testing.T) {
	t.Parallel()
	parsed, err := almanacmail.ParseTemplates(files(map[string]string{"en/BIRTHDAY.txt": "Subject: x\n\n{{.Payload.message}}"}), "en")
	require.NoError(t, err)
	for _, payload := range []string{`{}`, `7`, `"text"`, ``} {
		_, err := parsed.Render(delivery("en", payload), "")
		require.Error(t, err, payload)
	}
}

// Templates are used by many workers at once.
func TestTemplatesAreSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	parsed := templates(t)
	for range 8 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			for range 50 {
				_, err := parsed.Render(greeting(almanactest.User()), "https://example.com")
				require.NoError(t, err)
			}
		})
	}
}
