package almanacmail_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	almanacmail "github.com/almanac-go/almanac/contrib/mail"
)

// Every mail of such a template would be postponed.
func TestFieldsThatDoNotExistAreFoundAtTheStart(t *testing.T) {
	t.Parallel()
	const page, data, user = "en/BIRTHDAY.txt:3:", "almanacmail.Data has no field or method ", "almanac.User has no field or method "
	for text, want := range map[string]struct{ place, problem string }{
		`{{.User.Nmae}}`: {page, ".User.Nmae: " + user + "Nmae"},
		"{{range .Payload.list}}\n{{$.Evnet}}{{end}}":            {"en/BIRTHDAY.txt:4:", "$.Evnet: " + data + "Evnet"},
		`{{with .User}}{{.Nmae}}{{end}}`:                         {page, ".Nmae: " + user + "Nmae"},
		`{{with .Payload.x}}{{.Nmae}}{{else}}{{.Nmae}}{{end}}`:   {page, ".Nmae: " + data + "Nmae"},
		`{{with .Payload.x}}{{else with .User}}{{.Nmae}}{{end}}`: {page, ".Nmae: " + user + "Nmae"},
		`{{with $x := .User.FullName}}{{end}}`:                   {page, ".User.FullName: " + user + "FullName"},
		`{{(.User).Nmae}}`:                                       {page, "(.User).Nmae: " + user + "Nmae"},
		`{{if eq 1 .Event.Wall.Day}}{{end}}`:                     {page, ".Event.Wall.Day: calendar.WallTime has no field or method Day"},
		`{{if .Event.Payload.message}}{{end}}`:                   {page, ".Event.Payload.message: json.RawMessage has no field or method message"},
		`{{print (.User.Email.Domain | len)}}`:                   {page, ".User.Email.Domain: string has no field or method Domain"},
		`{{.User.DateOfBirth.date}}`:                             {page, ".User.DateOfBirth.date: almanac.DateOfBirth has no field or method date"},
		`{{.User.DateOfBirth.Year}}`:                             {page, ".User.DateOfBirth.Year: templates cannot call a method with 2 results"},
		`{{.Event.PlannedBy.Nmae}}`:                              {page, ".Event.PlannedBy.Nmae: calendar.ZoneRules has no field or method Nmae"},
		`{{block "inner" $}}{{.Loacle}}{{end}}`:                  {page, ".Loacle: " + data + "Loacle"},
		`{{template "sign" .}}{{template "sign" $}}`:             {"sign.part.txt:2:", ".User.Nmae: " + user + "Nmae"},
		`{{template "root" .User}}`:                              {"root.part.txt:1:", "$.Nmae: " + user + "Nmae"},
	} {
		_, err := almanacmail.ParseTemplates(files(map[string]string{
			"en/BIRTHDAY.txt": "Subject: x\n\n" + text, "sign.part.txt": "\n{{with .}}{{.User.Nmae}}{{end}}", "root.part.txt": "{{with .ID}}{{$.Nmae}}{{end}}",
		}), "en")
		require.ErrorContains(t, err, "almanacmail: "+want.place)
		require.ErrorContains(t, err, ": "+want.problem)
		require.NotContains(t, err.Error(), "\n", "nothing else is wrong")
	}
	_, err := almanacmail.ParseTemplates(files(map[string]string{
		"en/BIRTHDAY.txt": "Subject: {{.User.Nmae}}\n\n{{.User.Nmae}}", "en/BIRTHDAY.html": "{{.User.Nmae}}",
	}), "en")
	for _, place := range []string{"en/BIRTHDAY.txt:1:", "en/BIRTHDAY.txt:3:", "en/BIRTHDAY.html:1:"} {
		require.ErrorContains(t, err, place)
	}
}

// Odd templates that work are not refused.
func TestTemplatesThatWorkAreAccepted(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{{.User.Name}} {{.User.DateOfBirth.Date.Year}} {{.Event.Zone}} {{.Event.Due.UTC.Location}}`:     "Ada Lovelace 1990 America/New_York UTC",
		`{{range .User.OptOuts}}{{.Nmae}}{{else}}none{{end}}`:                                            "none",
		`{{range .Payload.list}}{{.nmae}}{{break}}{{end}}`:                                               "x",
		`{{range $i, $x := .Payload.list}}{{$i}}{{$x.nmae}}{{.nmae}}{{$.User.FirstName}}{{end}}`:         "0xxAda",
		`{{with .Payload}}{{.nmae}}{{end}} {{(index .Payload.list 0).nmae}}`:                             "y x",
		`{{with $.Payload.list}}{{len .}}{{else with .User}}{{.FirstName}}{{end}}`:                       "1",
		`{{with .User.Email | print}}{{.}}{{end}}`:                                                       "ada@example.org",
		`{{with $u := .User}}{{.FirstName}}{{$u.LastName}}{{$u = 7}}{{$u}}{{end}}`:                       "AdaLovelace7",
		`{{$ := .User}}{{$.FirstName}} {{.Locale}}`:                                                      "Ada en",
		`{{$ = .Payload}}{{$.nmae}}`:                                                                     "y",
		`{{define "user"}}{{.FirstName}} {{$.LastName}}{{end}}{{template "user" .User}}`:                 "Ada Lovelace",
		`{{define "any"}}{{with .}}{{.nmae}}{{end}}{{end}}{{template "any" .Payload}}{{template "any"}}`: "y",
		`{{define "loop"}}{{with .Payload}}{{template "loop" .Event}}{{end}}{{.Locale}}{{end}}{{define "unused"}}{{.Nmae}}{{end}}` +
			`{{define "rec"}}{{if .Locale}}{{.Locale}}{{else}}{{template "rec" .}}{{end}}{{end}}{{template "rec" .}}`: "en",
		`{{.Event.Wall.Before .Event.Wall}} {{.Event.Wall.Date | .Event.Wall.Date.Before}}`: "false false",
		`{{printf "%s" .Event.Payload}}`:                         `{"nmae": "y", "list": [{"nmae": "x"}]}`,
		`{{(.User).FirstName}} {{(.User | print) | len | lt 5}}`: "Ada true",
	} {
		parsed, err := almanacmail.ParseTemplates(files(map[string]string{"en/BIRTHDAY.txt": "Subject: x\n\n" + text}), "en")
		require.NoError(t, err, text)
		mail, err := parsed.Render(delivery("en", `{"nmae": "y", "list": [{"nmae": "x"}]}`), "")
		require.NoError(t, err, text)
		require.Equal(t, want, mail.Text, text)
	}
}
