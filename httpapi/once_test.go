package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/httpapi"
)

const key = `Idempotency-Key: "8e03978e-40d5-43dd-bc93-6894a57f9324"`

// userCount returns the number of users with events in the repository.
func (s *site) userCount() int {
	s.t.Helper()
	n, err := s.repository.Count(s.t.Context(), almanac.OfType(almanac.TypeBirthday))
	require.NoError(s.t, err)
	return n
}

func TestARepeatedRequestCreatesNoOtherUser(t *testing.T) {
	t.Parallel()
	s := open(t)
	body := with(`"attributes":{"a":[100,1],"b":"é"}`)

	first := s.send("POST", "/user", body, key, "X-Request-Id: x")

	require.Equal(t, http.StatusCreated, first.status, first.body)
	id := uuid.MustParse(s.object(first)["user"].(map[string]any)["id"].(string))
	require.EqualValues(t, 8, id.Version())
	require.Equal(t, uuid.RFC4122, id.Variant())
	for _, again := range []string{
		body, " " + strings.ReplaceAll(body, ",", " ,\n"), strings.ReplaceAll(body, "New_York", "new_york"),
		strings.NewReplacer("100", "1e2", "é", `\u00e9`).Replace(body),
	} {
		require.Equal(t, first, s.send("POST", "/user", again, key, "X-Request-Id: x"), again)
	}
	require.Equal(t, 1, s.userCount())
}

// The digest is stored. If it changed with a release, a request that is repeated during the
// upgrade would be refused.
func TestTheDigestOfARequestIsThatOfEarlierReleases(t *testing.T) {
	t.Parallel()
	s := open(t)
	for body, digest := range map[string]string{
		grace: "2NMVqjnp_8tyVeKZ3ByV630B9qcXgV2a10gWDk1VnTQ",
		with(`"locale":"","email":null,"externalId":""`): "2NMVqjnp_8tyVeKZ3ByV630B9qcXgV2a10gWDk1VnTQ",
	} {
		created := s.send("POST", "/user", body, key)
		require.Equal(t, http.StatusCreated, created.status, created.body)
		u, err := s.repository.User(t.Context(), uuid.MustParse(s.object(created)["user"].(map[string]any)["id"].(string)))
		require.NoError(t, err)
		require.Equal(t, digest, u.CreationDigest)
	}
}

func TestAKeyIsForOneProfile(t *testing.T) {
	t.Parallel()
	s := open(t)
	body := with(`"locale":"en","email":"g@h.example","externalId":"42","attributes":{"a":1}`)
	first := s.send("POST", "/user", body, key)
	require.Equal(t, first.body, s.send("POST", "/user", body, key, "X-Request-Id: "+first.header.Get("X-Request-Id")).body)
	require.Equal(t, http.StatusCreated, first.status)
	for part, other := range map[string]string{
		"Grace": "Other", "Hopper": "Other", "1906-12-09": "1906-12-10", "America/New_York": "US/Eastern", `{"a":1}`: `{"a":2}`, `"a":1`: "",
		`"en"`: `"de"`, "g@h": "h@h", `"42"`: `"43"`, `"locale":"en",`: "", `"email":"g@h.example",`: "", `"externalId":"42",`: "",
		`"locale":"en","email":"g@h.example","externalId":"42",`: "",
	} {
		p := s.problem(s.send("POST", "/user", strings.Replace(body, part, other, 1), key), http.StatusUnprocessableEntity)
		require.Equal(t, "https://pkg.go.dev/github.com/almanac-go/almanac/httpapi#hdr-Created_once", p["type"], part)
	}
	require.Equal(t, 1, s.userCount())
	require.Equal(t, s.object(first)["user"], s.object(s.send("GET", first.header.Get("Location"), ""))["user"])
}

func TestConcurrentRequestsWithOneKeyCreateOneUser(t *testing.T) {
	t.Parallel()
	s := open(t)
	var answers [20]answer
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i] = s.send("POST", "/user", grace, key, "X-Request-Id: x") })
	}
	all.Wait()

	for _, a := range answers {
		require.Equal(t, answers[0], a)
	}
	require.Equal(t, http.StatusCreated, answers[0].status)
	require.Equal(t, 1, s.userCount())
}

func TestKeysOfDifferentPrincipalsAreIndependent(t *testing.T) {
	t.Parallel()
	s := openOn(t, newRepository(), httpapi.NoAuthentication{}, httpapi.WithPrincipal(name))
	seen := make(map[string]bool)
	for i, request := range [][]string{
		{"X-Name: a", "Idempotency-Key: bc"}, {"X-Name: ab", "Idempotency-Key: c"}, {"X-Name: a", "Idempotency-Key: c"}, {"X-Name: 1", "Idempotency-Key: a:c"},
		{"Idempotency-Key: 1:ac"}, {},
	} {
		a := s.send("POST", "/user", with(fmt.Sprintf(`"firstName":"%d"`, i)), request...)

		require.Equal(t, http.StatusCreated, a.status, a.body)
		require.NotContains(t, seen, a.header.Get("Location"))
		seen[a.header.Get("Location")] = true
	}
}

func TestAKeyKeepsWorkingAfterChangesOfTheUser(t *testing.T) {
	t.Parallel()
	s := open(t)
	path := s.send("POST", "/user", grace, key).header.Get("Location")
	changed := s.object(s.send("PUT", path, `{"dateOfBirth":"1906-07-01"}`))["user"]
	events := s.object(s.send("GET", path+"/events", ""))["events"].([]any)

	a := s.send("POST", "/user", grace, key)

	require.Equal(t, http.StatusCreated, a.status, a.body)
	require.Equal(t, `"2"`, a.header.Get("Etag"))
	require.Equal(t, map[string]any{"user": changed, "nextBirthdayEvent": events[0]}, s.object(a))
	require.Equal(t, 1, s.userCount())
	for _, other := range []string{with(`"firstName":"Other"`), with(`"dateOfBirth":"1906-07-01"`), with(`"attributes":{"a":1}`)} {
		refused := s.send("POST", "/user", other, key)
		s.problem(refused, http.StatusUnprocessableEntity)
		require.NotContains(t, refused.body, "Hopper")
	}
}

func TestAKeyOfADeletedUserCreatesAnotherUser(t *testing.T) {
	t.Parallel()
	s := open(t)
	path := s.send("POST", "/user", grace, key).header.Get("Location")
	require.Equal(t, http.StatusNoContent, s.send("DELETE", path, "").status)

	a := s.send("POST", "/user", with(`"firstName":"Other"`), key)

	require.Equal(t, http.StatusCreated, a.status, a.body)
	require.Equal(t, path, a.header.Get("Location"))
}

func TestAKeyOfAUserBeingDeletedIsAConflict(t *testing.T) {
	t.Parallel()
	s := open(t)
	path := s.send("POST", "/user", grace, key).header.Get("Location")
	found, err := s.repository.Find(t.Context(), nil, almanac.Page{})
	require.NoError(t, err)
	claimed, err := found.Items[0].Claim(uuid.New())
	require.NoError(t, err)
	_, err = s.repository.Update(t.Context(), claimed, 1)
	require.NoError(t, err)
	require.Equal(t, claimed.ID.String(), s.object(s.send("POST", "/user", grace, key))["nextBirthdayEvent"].(map[string]any)["id"], "in flight")
	require.Equal(t, http.StatusNoContent, s.send("DELETE", path, "").status)

	a := s.send("POST", "/user", grace, key)

	require.Equal(t, "https://pkg.go.dev/github.com/almanac-go/almanac/httpapi#hdr-Created_once", s.problem(a, http.StatusConflict)["type"])
	require.Equal(t, "1", a.header.Get("Retry-After"))
}

func TestARefusedRequestUsesUpNoKey(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.complaints(s.send("POST", "/user", with(`"firstName":""`), key))

	require.Equal(t, http.StatusCreated, s.send("POST", "/user", grace, key).status)
}

func TestKeysAreParsedAsStrings(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		header []string
		same   string // the key that it equals; "" means that it is refused
	}{
		"in quotes":            {[]string{`"k-1"`}, "k-1"},
		"without":              {[]string{`k-1`}, "k-1"},
		"with blanks":          {[]string{`" a b "`}, `" a b "`},
		"with escapes":         {[]string{`"a\"\\b"`}, `"a\"\\b"`},
		"as long as may be":    {[]string{strings.Repeat("k", 255)}, `"` + strings.Repeat("k", 255) + `"`},
		"longer":               {[]string{strings.Repeat("k", 256)}, ""},
		"empty":                {[]string{``}, ""},
		"an empty text":        {[]string{`""`}, ""},
		"half a text":          {[]string{`"a`}, ""},
		"a quote within":       {[]string{`"a"b"`}, ""},
		"an escape of nothing": {[]string{`"a\b"`}, ""},
		"a parameter":          {[]string{`"a";b=c`}, ""},
		"blanks, no quotes":    {[]string{`a b`}, ""},
		"not ASCII":            {[]string{`"é"`}, ""},
		"a control":            {[]string{"\"a\tb\""}, ""},
		"two":                  {[]string{"a", "a"}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			var header []string
			for _, line := range tt.header {
				header = append(header, "Idempotency-Key: "+line)
			}

			a := s.send("POST", "/user", grace, header...)

			if tt.same == "" {
				require.Equal(t, map[string]string{"Idempotency-Key": "is not one text of 1 to 255 ASCII characters, in quotes"}, s.complaints(a))
				s.nothing()
				return
			}
			require.Equal(t, http.StatusCreated, a.status, a.body)
			require.Equal(t, a.header.Get("Location"), s.send("POST", "/user", grace, "Idempotency-Key: "+tt.same).header.Get("Location"))
		})
	}
}

// The id must never change: under another derivation, every repeated request would create a
// second user.
func TestTheIdOfAKeyIsAlwaysTheSame(t *testing.T) {
	t.Parallel()
	s := openOn(t, newRepository(), httpapi.NoAuthentication{}, httpapi.WithPrincipal(name))

	a := s.send("POST", "/user", grace, "X-Name: shop", key)

	require.Equal(t, "/user/0b1ae55d-5e88-868d-bae7-ea2fdeb5ce91", a.header.Get("Location"))
}

func TestAFailedLookupOfAKeyIsAServerError(t *testing.T) {
	t.Parallel()
	r := newRepository()
	s := openOn(t, r, httpapi.NoAuthentication{})
	require.Equal(t, http.StatusCreated, s.send("POST", "/user", grace, key).status)
	s = openOn(t, unread{r}, httpapi.NoAuthentication{})

	s.problem(s.send("POST", "/user", grace, key), http.StatusServiceUnavailable)
}

// unread is a repository whose users cannot be read.
type unread struct{ almanac.Repository }

func (unread) User(context.Context, uuid.UUID) (almanac.User, error) {
	return almanac.User{}, driverError{"08006"}
}
