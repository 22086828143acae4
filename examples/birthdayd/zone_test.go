package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// An import may store users without a zone. A better source takes the place of the default by one PUT.
func TestADefaultZoneGivesWayToABetterSource(t *testing.T) {
	t.Parallel()
	pool, h := pgtest.Pool(t), listen(t, http.StatusOK)
	store, err := postgres.New(pool)
	require.NoError(t, err)
	flags := append(h.flags(), "-default-zone", "Etc/UTC", "-database-url", pool.Config().ConnString())
	c, err := parse(flags, environment())
	require.NoError(t, err)
	registry, err := almanac.NewRegistry(c.handlers()...)
	require.NoError(t, err)
	importer, err := almanac.NewScheduler(store, registry, almanac.WithZoneGuess("Etc/UTC", nil))
	require.NoError(t, err)
	born := "1992" + time.Now().AddDate(0, 6, 0).Format("-01-02")
	imported, err := importer.CreateUser(t.Context(), almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: born})
	require.NoError(t, err)
	require.Equal(t, almanac.ZoneDefault, imported.User.ZoneSource)

	p := launch(t, flags...)

	status, answer := p.send("POST", "/user", `{"firstName":"Grace","lastName":"Hopper","dateOfBirth":"1906-12-09"}`)
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, answer["errors"], map[string]any{"field": "timezone", "detail": "is required"})
	for _, step := range []struct{ body, want string }{
		{`{"lastName":"King"}`, "Etc/UTC default"},
		{`{"attributes":{"country":"US"}}`, "Etc/UTC default"}, // it has several zones
		{`{"attributes":{"country":"no"}}`, "Europe/Oslo guessed"},
		{`{"timezone":"Asia/Tokyo"}`, "Asia/Tokyo declared"},
		{`{"attributes":{"country":"NO"}}`, "Asia/Tokyo declared"},
	} {
		status, answer = p.send("PUT", "/user/"+imported.User.ID.String(), step.body)
		require.Equal(t, http.StatusOK, status, answer)
		u, err := store.User(t.Context(), imported.User.ID)
		require.NoError(t, err)
		require.Equal(t, step.want, u.Timezone.String()+" "+string(u.ZoneSource), step.body)
		page, err := store.Find(t.Context(), almanac.ForUser(u.ID), almanac.Page{})
		require.NoError(t, err)
		require.Len(t, page.Items, 1)
		require.Equal(t, u.Timezone.String(), page.Items[0].Zone, "the greeting follows: %s", step.body)
	}
	require.Equal(t, 0, p.stop())
}

func TestTheZoneOfACountry(t *testing.T) {
	t.Parallel()
	for attributes, want := range map[string]string{
		`{"country":"JP"}`: "Asia/Tokyo", `{"country":"DE"}`: "", `{"country":"UK"}`: "", `{"country":7}`: "", `{}`: "", `[`: "",
	} {
		require.Equal(t, want, byCountry(almanac.User{Attributes: []byte(attributes)}), attributes)
	}
}
