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
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

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
