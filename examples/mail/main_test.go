package main

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// A greeting that a window moves to another day says so, and others do not.
func TestAMailSaysThatItsDayIsAnother(t *testing.T) {
	t.Parallel()
	templates, err := parseTemplates()
	require.NoError(t, err)
	week, err := calendar.ParseWindow("Mo-Fr 08:00-20:00")
	require.NoError(t, err)
	h := birthday{almanac.Birthday{Window: func(almanac.User) calendar.Window { return week }}}
	render := func(locale, born string) string {
		now := time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)
		u, err := almanac.NewUser(almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: born, Timezone: "Europe/Berlin", Locale: locale, Email: "ada@example.com"}, now)
		require.NoError(t, err)
		o, err := h.Next(u, now)
		require.NoError(t, err)
		e, err := almanac.NewEvent(u, h, almanac.Occurrence{Occurrence: o})
		require.NoError(t, err)
		mail, err := templates.Render(almanac.Delivery{Event: e, User: u}, "")
		require.NoError(t, err)
		return mail.Text + mail.HTML
	}
	const saturday, monday = "1990-02-14", "1990-02-16" // in 2026
	const why = "Why on this day: moved from Saturday 14 February to Monday 16 February because of closed hours"
	require.Equal(t, 2, strings.Count(render("en", saturday), why))
	require.NotContains(t, render("en", monday), "Why")
	require.Contains(t, render("de", saturday), "Montag, 16. Februar 2026\nVerlegt vom 14. Februar 2026\n")
	require.NotContains(t, render("de", monday), "Verlegt")
}

func TestEveryUserGetsAMailInTheirLanguage(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	var printed bytes.Buffer
	require.NoError(t, run(ctx, database, &printed))
	require.NoError(t, ctx.Err())
	t.Log(printed.String())

	mails := strings.Split(printed.String(), "\n----\n")
	require.Len(t, mails, len(people)+1)
	for to, want := range map[string][]string{
		"ada@example.com":    {"Subject: Happy birthday, Ada Lovelace!", `you are \d+ years old today`, `(Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, [A-Z][a-z]+ \d+, \d{4}\s`},
		"konrad@example.com": {"Subject: Alles Gute zum Geburtstag, Konrad Zuse!", `\d+ Jahre alt`, `(tag|Mittwoch), \d+\. [A-Z]\p{L}+ \d{4}\s`},
		"marian@example.com": {"Subject: Wszystkiego najlepszego, Marian Rejewski!", `\d+ (lata|lat)\.`},
		"ana@example.com":    {"Subject: Feliz aniversário, Ana Domingos!", `\d+ anos\.`, `\p{L}+, \d+ de \p{L}+ de \d{4}\s`},
		"etsuko@example.com": {"Subject: 悦子さん、お誕生日おめでとうございます", `\d+歳`, `\d{4}年\d+月\d+日（.曜日）\s`},
	} {
		found := ""
		for _, mail := range mails {
			if strings.Contains(mail, "To: <"+to+">") {
				found = mail
			}
		}
		for _, pattern := range append(want, `Message-ID: <event-[0-9a-f]{16}@example\.com>`, "Almanac, birthdays@example.com") {
			require.Regexp(t, regexp.MustCompile(pattern), found)
		}
	}

	pool, err := pgxpool.New(t.Context(), database)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	store, err := postgres.New(pool)
	require.NoError(t, err)
	greeted, err := store.Count(t.Context(), almanac.InStatus(almanac.Completed))
	require.NoError(t, err)
	require.Equal(t, len(people), greeted)
	next, err := store.Count(t.Context(), almanac.InStatus(almanac.Pending))
	require.NoError(t, err)
	require.Equal(t, len(people), next, "and so it goes on next year")
}
