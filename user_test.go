package almanac_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
)

// user makes the user of a profile that the test itself wrote, as of now.
func user(t testing.TB, p almanac.Profile, now string) almanac.User {
	t.Helper()
	u, err := almanac.NewUser(p, instant(t, now))
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// ada is a user like any other.
func ada(t testing.TB) almanac.User {
	t.Helper()
	return user(t, adasProfile(), "2026-01-01T00:00:00Z")
}

func adasProfile() almanac.Profile {
	return almanac.Profile{
		ID:        uuid.MustParse("123e4567-e89b-12d3-a456-426614174000"),
		FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Europe/London",
	}
}

// complaints returns "field problem" for each field of a *ValidationError.
func complaints(t testing.TB, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	var invalid *almanac.ValidationError
	if !errors.As(err, &invalid) || !errors.Is(err, almanac.ErrInvalid) {
		t.Fatalf("error %v, want a *ValidationError", err)
	}
	var said []string
	for _, f := range invalid.Fields {
		said = append(said, f.Field+" "+f.Problem)
	}
	return said
}

func TestNewUserChecksNames(t *testing.T) {
	t.Parallel()

	tests := map[string]struct{ name, problem string }{
		"plain":                       {"Ada", ""},
		"of many scripts":             {"Ada 愛 Ада عائشة", ""},
		"one character":               {"李", ""},
		"with an apostrophe":          {"O'Brien-Smith", ""},
		"with a blank inside":         {"Mary Ann", ""},
		"a hundred characters":        {strings.Repeat("ä", 100), ""},
		"a hundred emoji":             {strings.Repeat("🎂", 100), ""},
		"a hundred and one":           {strings.Repeat("a", 101), "is longer than 100 characters"},
		"a hundred and one umlauts":   {strings.Repeat("ä", 101), "is longer than 100 characters"},
		"empty":                       {"", "is empty"},
		"blank":                       {" \u2003\t", "is empty"},
		"nothing but a joiner":        {"\u200b\u2060\ufeff", "is empty"},
		"a joiner between letters":    {"علی\u200cرضا", ""},
		"a separator of lines":        {"Ada\u2028Lovelace", "contains control characters"},
		"a NUL":                       {"A\x00da", "contains control characters"},
		"a line end":                  {"Ada\nBcc: all@example.com", "contains control characters"},
		"a C1 control":                {"Ada\u0085", "contains control characters"},
		"turned around":               {"Ada\u202Eecalevol", "contains control characters"},
		"isolated":                    {"Ada\u2066x\u2069", "contains control characters"},
		"marked right to left is not": {"عائشة\u200F", ""},
		"not UTF-8":                   {"Ada\xff", "is not valid UTF-8"},
		"half a surrogate in UTF-8":   {"Ada\xed\xa0\x80", "is not valid UTF-8"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, last := adasProfile(), adasProfile()
			first.FirstName, last.LastName = tt.name, tt.name

			_, firstErr := almanac.NewUser(first, instant(t, "2026-01-01T00:00:00Z"))
			_, lastErr := almanac.NewUser(last, instant(t, "2026-01-01T00:00:00Z"))

			wantFirst, wantLast := []string{"firstName " + tt.problem}, []string{"lastName " + tt.problem}
			if tt.problem == "" {
				wantFirst, wantLast = nil, nil
			}
			if got := complaints(t, firstErr); !slices.Equal(got, wantFirst) {
				t.Errorf("first name %q: %q, want %q", tt.name, got, wantFirst)
			}
			if got := complaints(t, lastErr); !slices.Equal(got, wantLast) {
				t.Errorf("last name %q: %q, want %q", tt.name, got, wantLast)
			}
		})
	}
}

func TestNewUserChecksTheDateOfBirthInTheUsersZone(t *testing.T) {
	t.Parallel()

	const now = "2026-03-15T10:30:00Z" // the 16th in Kiritimati, still the 14th in Niue
	tests := map[string]struct{ born, zone, problem string }{
		"long ago":                            {"1990-12-10", "UTC", ""},
		"the earliest":                        {"1900-01-01", "UTC", ""},
		"today":                               {"2026-03-15", "UTC", ""},
		"tomorrow":                            {"2026-03-16", "UTC", "is in the future"},
		"tomorrow, where it is already today": {"2026-03-16", "Pacific/Kiritimati", ""},
		"the day after that":                  {"2026-03-17", "Pacific/Kiritimati", "is in the future"},
		"today, where it is still yesterday":  {"2026-03-15", "Pacific/Niue", "is in the future"},
		"yesterday, where it is still today":  {"2026-03-14", "Pacific/Niue", ""},
		"a leap day":                          {"2024-02-29", "UTC", ""},
		"a leap day of a common year":         {"2023-02-29", "UTC", "is not a day of the calendar: February 2023 has 28 days"},
		"a leap day of 1900":                  {"1900-02-29", "UTC", "is not a day of the calendar: February 1900 has 28 days"},
		"30 February":                         {"1990-02-30", "UTC", "is not a day of the calendar: February 1990 has 28 days"},
		"before anybody alive":                {"1899-12-31", "UTC", "is before 1900-01-01"},
		"no date":                             {"yesterday", "UTC", "is not a date of the form YYYY-MM-DD"},
		"nothing":                             {"", "UTC", "is empty"},
		"with a time":                         {"1990-12-10T00:00:00Z", "UTC", "is not a date of the form YYYY-MM-DD"},
		"American":                            {"12/10/1990", "UTC", "is not a date of the form YYYY-MM-DD"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := adasProfile()
			p.DateOfBirth, p.Timezone = tt.born, tt.zone

			u, err := almanac.NewUser(p, instant(t, now))

			if tt.problem == "" {
				if err != nil || u.DateOfBirth.String() != tt.born {
					t.Errorf("born %s in %s: %v, %v; want it accepted", tt.born, tt.zone, u.DateOfBirth, err)
				}
				return
			}
			if got, want := complaints(t, err), []string{"dateOfBirth " + tt.problem}; !slices.Equal(got, want) {
				t.Errorf("born %s in %s: %q, want %q", tt.born, tt.zone, got, want)
			}
			var born *almanac.InvalidDateOfBirthError
			if !errors.As(err, &born) || !errors.Is(err, almanac.ErrInvalidDateOfBirth) || born.Value != tt.born || errors.Is(err, calendar.ErrInvalidTimezone) {
				t.Errorf("born %s in %s: %v, want an *InvalidDateOfBirthError of that value within", tt.born, tt.zone, err)
			}
		})
	}
}

func TestNewUserChecksAttributes(t *testing.T) {
	t.Parallel()

	const unfit, notObject = "contain", "are not a JSON object" // how the problem begins
	padded := func(n int) string { return `{"a": "` + strings.Repeat("x", n-len(`{"a": ""}`)) + `"}` }
	list := func(n int, value string) string { return `{"a":[` + strings.Repeat(value+",", n-1) + value + `]}` }
	tests := map[string]struct{ attributes, problem string }{
		"an object":                      {`{"hireDate": "2020-02-29"}`, ""},
		"an empty object":                {`{}`, ""},
		"an object among blanks":         {" \n{\"a\": [1, null]}\t", ""},
		"as large as may be":             {padded(64 << 10), ""},
		"as large, with escapes":         {`{"a": "` + strings.Repeat(`\u00e9`, 32<<10-5) + `"}`, ""},
		"larger":                         {padded(64<<10 + 1), "are longer than 65536 bytes as PostgreSQL writes them"},
		"a longer text than is read":     {`{` + strings.Repeat(" ", 256<<10-1) + `}`, "are longer than 262144 bytes"},
		"larger once blanks are in":      {list(30_000, "1"), "are longer than 65536 bytes as PostgreSQL writes them"},
		"larger by all the digits":       {list(10_000, "1e308"), "are longer than 65536 bytes as PostgreSQL writes them"},
		"an array":                       {`[]`, notObject},
		"null":                           {`null`, notObject},
		"a number":                       {`1`, notObject},
		"a text":                         {`"{}"`, notObject},
		"empty":                          {``, notObject},
		"half an object":                 {`{"a":`, notObject},
		"two objects":                    {`{}{}`, notObject},
		"a NUL":                          {`{"a": "\u0000"}`, unfit},
		"a NUL in a key":                 {`{"\u0000": 1}`, unfit},
		"not UTF-8":                      {"{\"a\": \"\xff\"}", unfit},
		"half a surrogate pair":          {`{"a": "\ud83c"}`, unfit},
		"the other half":                 {`{"a": "\uDF82"}`, unfit},
		"halves in the wrong order":      {`{"a": "\udf82\ud83c"}`, unfit},
		"a surrogate pair":               {`{"a": "\ud83c\udf82"}`, ""},
		"a backslash and then a u0000":   {`{"a": "C:\\u0000"}`, ""},
		"a member twice":                 {`{"a": {"b": 1, "b": 2}}`, unfit + " a member more than once"},
		"a number beyond all databases'": {`{"a": 1e200000}`, unfit},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := adasProfile()
			p.Attributes = json.RawMessage(tt.attributes)

			u, err := almanac.NewUser(p, instant(t, "2026-01-01T00:00:00Z"))

			if tt.problem == "" {
				if err != nil || string(u.Attributes) != tt.attributes {
					t.Errorf("attributes %.80q: %v, want them accepted", tt.attributes, err)
				}
				return
			}
			if got := complaints(t, err); len(got) != 1 || !strings.HasPrefix(got[0], "attributes "+tt.problem) {
				t.Errorf("attributes %.80q: %q, want them refused: %s", tt.attributes, got, tt.problem)
			}
		})
	}
}

func TestNewUserChecksTheLocale(t *testing.T) {
	t.Parallel()

	const unknown, malformed = "has an unknown subtag", "is not a language tag (BCP 47)"
	tests := map[string]struct{ given, canonical, problem string }{
		"none":                       {"", "", ""},
		"a language":                 {"pt", "pt", ""},
		"a region":                   {"pt-BR", "pt-BR", ""},
		"in other cases":             {"EN-us", "en-US", ""},
		"with an underscore":         {"zh_hant_tw", "zh-Hant-TW", ""},
		"a script that is the usual": {"en-Latn", "en-Latn", ""},
		"a deprecated language":      {"iw", "he", ""},
		"a language of old":          {"i-klingon", "tlh", ""},
		"Serbo-Croatian":             {"sh", "sr-Latn", ""},
		"an extension":               {"de-DE-u-co-phonebk", "de-DE-u-co-phonebk", ""},
		"a variant":                  {"sl-rozaj", "sl-rozaj", ""},
		"a continent":                {"es-419", "es-419", ""},
		"private":                    {"x-Elvish", "x-elvish", ""},
		"none that is known":         {"und", "und", ""},
		"a hundred bytes":            {"en-x-" + strings.Repeat("abcdefg-", 11) + "abcdefg", "en-x-" + strings.Repeat("abcdefg-", 11) + "abcdefg", ""},
		"longer":                     {"en-x-" + strings.Repeat("abcdefg-", 12) + "a", "", "is longer than 100 bytes"},
		"longer in canonical form":   {"sh-x-" + strings.Repeat("abcdefg-", 11) + "abcdefg", "", "is longer than 100 bytes"},
		"an unknown language":        {"xx", "", unknown},
		"an unknown region":          {"en-QB", "", unknown},
		"of POSIX":                   {"en_US.UTF-8", "", malformed},
		"a name":                     {"English", "", malformed},
		"a list":                     {"en,de", "", malformed},
		"blank":                      {" ", "", malformed},
		"with a blank":               {"en ", "", malformed},
		"a NUL":                      {"en\x00", "", malformed},
		"not UTF-8":                  {"\xff", "", malformed},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := adasProfile()
			p.Locale = tt.given

			u, err := almanac.NewUser(p, instant(t, "2026-01-01T00:00:00Z"))

			if tt.problem != "" {
				if got, want := complaints(t, err), []string{"locale " + tt.problem}; !slices.Equal(got, want) {
					t.Errorf("locale %q: %q, want %q", tt.given, got, want)
				}
				return
			}
			if err != nil || u.Locale != tt.canonical {
				t.Errorf("locale %q: %q, %v; want %q", tt.given, u.Locale, err, tt.canonical)
			}
			if again, err := u.Edit(almanac.ProfileChange{Locale: &u.Locale}, instant(t, "2026-01-02T00:00:00Z")); err != nil || again.Locale != u.Locale {
				t.Errorf("locale %q again: %q, %v; want it unchanged", u.Locale, again.Locale, err)
			}
		})
	}
}

func TestNewUserChecksTheEmail(t *testing.T) {
	t.Parallel()

	long := func(n int) string {
		return strings.Repeat("a", 64) + "@" + strings.Repeat("b", n-65-len(".example")) + ".example"
	}
	for email, ok := range map[string]bool{
		"":                                   true,
		"ada@example.com":                    true,
		"Ada.Lovelace+mail@Example.COM":      true,
		"ada@localhost":                      true,
		"gráce@bücher.example":               true, // SMTPUTF8
		"用户@例子.广告":                           true,
		`"ada lovelace"@example.com`:         true,
		"ada@[192.0.2.1]":                    true,
		long(254):                            true,
		long(255):                            false,
		"ada":                                false,
		"ada@":                               false,
		"@example.com":                       false,
		"ada@@example.com":                   false,
		"ada@example.com, grace@example.com": false,
		"Ada <ada@example.com>":              false,
		"<ada@example.com>":                  false,
		"ada@example.com (Ada)":              false,
		"friends:ada@example.com;":           false,
		" ada@example.com":                   false,
		"ada@example.com\n":                  false,
		"ada@example.com\r\nBcc: all@x.org":  false,
		"\"a\nb\"@example.com":               false,
		"a b@example.com":                    false,
		"ada\u00a0b@example.com":             false,
		"ada\u202e@example.com":              false,
		"ada\u0085@example.com":              false,
		"ada\x00@example.com":                false,
		"ada\xff@example.com":                false,
		"ada@exam\xffple.com":                false,
		"ada..b@example.com":                 false,
	} {
		t.Run(email, func(t *testing.T) {
			t.Parallel()
			p := adasProfile()
			p.Email = email

			u, err := almanac.NewUser(p, instant(t, "2026-01-01T00:00:00Z"))

			if want := []string{"email is not a bare e-mail address of at most 254 bytes"}; !ok && !slices.Equal(complaints(t, err), want) {
				t.Errorf("e-mail %q: %v, want it refused", email, err)
			}
			if ok && (err != nil || u.Email != email) {
				t.Errorf("e-mail %q: %q, %v; want it as given", email, u.Email, err)
			}
		})
	}
}

func TestNewUserChecksTheExternalID(t *testing.T) {
	t.Parallel()

	const control, space = "contains characters that cannot be printed", "begins or ends with a space"
	for id, problem := range map[string]string{
		"":                             "",
		"42":                           "",
		"0042":                         "",
		"tenant 7/№ ä":                 "",
		strings.Repeat("x", 200):       "",
		strings.Repeat("ä", 100):       "",
		strings.Repeat("x", 201):       "is longer than 200 bytes",
		strings.Repeat("ä", 100) + "x": "is longer than 200 bytes",
		" ":                            space,
		" 42":                          space,
		"42 ":                          space,
		"4\n2":                         control,
		"4\x002":                       control,
		"4\u200b2":                     control,
		"4\u202e2":                     control,
		"4\u00a02":                     control,
		"4\xff2":                       "is not valid UTF-8",
	} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			p := adasProfile()
			p.ExternalID = id

			u, err := almanac.NewUser(p, instant(t, "2026-01-01T00:00:00Z"))

			if problem == "" && (err != nil || u.ExternalID != id) {
				t.Errorf("external id %q: %q, %v; want it as given", id, u.ExternalID, err)
			}
			if want := []string{"externalId " + problem}; problem != "" && !slices.Equal(complaints(t, err), want) {
				t.Errorf("external id %q: %v, want %q", id, err, want)
			}
		})
	}
}

func TestEditChangesAndRemovesOptionalFields(t *testing.T) {
	t.Parallel()
	p, now := adasProfile(), instant(t, "2026-01-02T00:00:00Z")
	p.Locale, p.Email, p.ExternalID = "en-GB", "ada@example.com", "42"
	u := user(t, p, "2026-01-01T00:00:00Z")
	fields := func(u almanac.User) []string { return []string{u.Locale, u.Email, u.ExternalID} }
	none, name, locale, email, external, bad := "", "Augusta", "FR-ca", "a@b.example", "43", "\x00"

	for what, tt := range map[string]struct {
		change almanac.ProfileChange
		want   []string
	}{
		"nil leaves unchanged": {almanac.ProfileChange{FirstName: &name}, fields(u)},
		"each is changed":      {almanac.ProfileChange{Locale: &locale, Email: &email, ExternalID: &external}, []string{"fr-CA", email, external}},
		"each is removed":      {almanac.ProfileChange{Locale: &none, Email: &none, ExternalID: &none}, []string{"", "", ""}},
	} {
		if edited, err := u.Edit(tt.change, now); err != nil || !slices.Equal(fields(edited), tt.want) || edited.Version != 2 {
			t.Errorf("%s: %q, %v; want %q", what, fields(edited), err, tt.want)
		}
	}
	_, err := u.Edit(almanac.ProfileChange{Locale: &bad, Email: &bad, ExternalID: &bad}, now)
	if got := complaints(t, err); len(got) != 3 {
		t.Errorf("complaints %q, want one for each field", got)
	}
}

func TestNewUserNamesEveryInvalidField(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		profile almanac.Profile
		want    []string
	}{
		"nothing is given": {almanac.Profile{}, []string{
			"firstName is empty", "lastName is empty", "dateOfBirth is empty", "timezone is empty",
		}},
		"everything is bad": {
			almanac.Profile{FirstName: "\x00", LastName: "\xff", DateOfBirth: "1899-01-01", Timezone: "Europe/Kyev", Attributes: json.RawMessage("1")},
			[]string{
				"firstName contains control characters", "lastName is not valid UTF-8", "dateOfBirth is before 1900-01-01",
				`timezone is not a known time zone; did you mean "Europe/Kyiv"?`, "attributes are not a JSON object",
			},
		},
		"a birth in the future, and no zone to judge it by": {
			almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "2030-01-01", Timezone: "UTC+5"},
			[]string{"timezone is not a known time zone", "dateOfBirth is in the future"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			u, err := almanac.NewUser(tt.profile, instant(t, "2026-01-01T00:00:00Z"))

			if got := complaints(t, err); !slices.Equal(got, tt.want) || !reflect.DeepEqual(u, almanac.User{}) {
				t.Errorf("NewUser = %v, %q\nwant %q", u, got, tt.want)
			}
			if !errors.Is(err, almanac.ErrInvalidDateOfBirth) || !errors.Is(err, calendar.ErrInvalidTimezone) {
				t.Errorf("%v matches birth %v, zone %v; want both", err, errors.Is(err, almanac.ErrInvalidDateOfBirth), errors.Is(err, calendar.ErrInvalidTimezone))
			}
		})
	}
}

func TestNewUserFillsIn(t *testing.T) {
	t.Parallel()

	p, now := adasProfile(), time.Date(2026, 1, 1, 9, 0, 0, 0, time.FixedZone("elsewhere", 3600))
	p.Timezone, p.Attributes = "asia/calcutta", json.RawMessage(`{"a":1}`)

	u, err := almanac.NewUser(p, now)

	if err != nil || u.ID != p.ID || u.Version != 1 || u.Timezone.String() != "Asia/Calcutta" || u.Name() != "Ada Lovelace" {
		t.Errorf("NewUser = %+v, %v", u, err)
	}
	if want := instant(t, "2026-01-01T08:00:00Z"); u.CreatedAt != want || u.UpdatedAt != want {
		t.Errorf("created %v, updated %v; want %v in UTC", u.CreatedAt, u.UpdatedAt, want)
	}
	p.Attributes[1] = 'X'
	if string(u.Attributes) != `{"a":1}` {
		t.Errorf("the user shares the caller's attributes: %s", u.Attributes)
	}
	p.ID, p.Attributes = uuid.Nil, nil
	if u, err = almanac.NewUser(p, now); err != nil || u.ID.Version() != 7 || string(u.Attributes) != "{}" {
		t.Errorf("id %v, attributes %s, %v; want a fresh UUIDv7 and {}", u.ID, u.Attributes, err)
	}
}

func TestADateOfBirthInTheFutureMatchesItsError(t *testing.T) {
	t.Parallel()

	now := instant(t, "2026-03-15T12:00:00Z")
	for date, want := range map[string]bool{"2026-03-16": true, "1899-12-31": false, "soon": false} {
		_, err := almanac.NewUser(almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: date, Timezone: "UTC"}, now)
		var born *almanac.InvalidDateOfBirthError
		if !errors.As(err, &born) || !errors.Is(err, almanac.ErrInvalidDateOfBirth) || born.Future != want || errors.Is(err, almanac.ErrDateOfBirthInFuture) != want {
			t.Errorf("born %s: %v, %+v; in the future %v", date, err, born, want)
		}
	}
}

func TestEditChangesOnlyTheNamedFields(t *testing.T) {
	t.Parallel()

	was := ada(t)
	later := instant(t, "2026-02-01T00:00:00Z")
	tests := map[string]struct {
		change almanac.ProfileChange
		expect func(u *almanac.User)
	}{
		"nothing":       {almanac.ProfileChange{}, func(*almanac.User) {}},
		"first name":    {almanac.ProfileChange{FirstName: ptr("Augusta")}, func(u *almanac.User) { u.FirstName = "Augusta" }},
		"last name":     {almanac.ProfileChange{LastName: ptr("King")}, func(u *almanac.User) { u.LastName = "King" }},
		"date of birth": {almanac.ProfileChange{DateOfBirth: ptr("1992-02-29")}, func(u *almanac.User) { u.DateOfBirth, _ = almanac.ParseDateOfBirth("1992-02-29", "") }},
		"zone":          {almanac.ProfileChange{Timezone: ptr("asia/tokyo")}, func(u *almanac.User) { u.Timezone = calendar.StoredTimezone("Asia/Tokyo") }},
		"attributes":    {almanac.ProfileChange{Attributes: json.RawMessage(`{"b":2}`)}, func(u *almanac.User) { u.Attributes = json.RawMessage(`{"b":2}`) }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got, err := was.Edit(tt.change, later)

			want := was
			want.Version, want.UpdatedAt = 2, later
			tt.expect(&want)
			if err != nil || !reflect.DeepEqual(got, want) || was.Version != 1 {
				t.Errorf("Edit = %+v, %v\nwant %+v", got, err, want)
			}
		})
	}
}

func TestEditRefusesAsNewUserDoes(t *testing.T) {
	t.Parallel()

	now := instant(t, "2026-03-15T23:30:00Z")
	newborn := user(t, almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "2026-03-16", Timezone: "Asia/Tokyo"}, "2026-03-15T23:30:00Z")
	tests := map[string]struct {
		change almanac.ProfileChange
		want   []string
	}{
		"a blank name":                            {almanac.ProfileChange{FirstName: ptr(" "), LastName: ptr("")}, []string{"firstName is empty", "lastName is empty"}},
		"an unknown zone":                         {almanac.ProfileChange{Timezone: ptr("Mars/Base")}, []string{"timezone is not a known time zone"}},
		"a birth in the future":                   {almanac.ProfileChange{DateOfBirth: ptr("2026-03-17")}, []string{"dateOfBirth is in the future"}},
		"a move to a zone where the date is past": {almanac.ProfileChange{Timezone: ptr("Pacific/Niue")}, []string{"dateOfBirth is in the future"}},
		"attributes":                              {almanac.ProfileChange{Attributes: json.RawMessage("null")}, []string{"attributes are not a JSON object"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			if _, err := newborn.Edit(tt.change, now); !slices.Equal(complaints(t, err), tt.want) {
				t.Errorf("Edit: %q, want %q", complaints(t, err), tt.want)
			}
		})
	}
}

// What a user need not have, by default and with the option.
func TestNewUserWithoutNamesOrDateOfBirth(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		first, last, born string
		name              string
		refused           []string // by default
		always            []string // with the option, too
	}{
		"complete":            {"Ada", "Lovelace", "1990-12-10", "Ada Lovelace", nil, nil},
		"a first name":        {"Sukarno", "", "1901-06-06", "Sukarno", []string{"lastName is empty"}, nil},
		"a last name":         {"", "Teller", "1948-02-14", "Teller", []string{"firstName is empty"}, nil},
		"no date":             {"Ada", "Lovelace", "", "Ada Lovelace", []string{"dateOfBirth is empty"}, nil},
		"no year":             {"Ada", "Lovelace", "--12-10", "Ada Lovelace", []string{"dateOfBirth has no year"}, nil},
		"a leap day, no year": {"Ada", "Lovelace", "--02-29", "Ada Lovelace", []string{"dateOfBirth has no year"}, nil},
		"nothing but a zone":  {"", "", "", "", []string{"firstName is empty", "lastName is empty", "dateOfBirth is empty"}, nil},
		"blanks are no names": {" ", "\u200b", "1990-12-10", "", []string{"firstName is empty", "lastName is empty"}, []string{"firstName is empty", "lastName is empty"}},
		"no day of the year": {"Ada", "Lovelace", "--02-30", "", []string{"dateOfBirth is not a day of the year in the form --MM-DD"},
			[]string{"dateOfBirth is not a day of the year in the form --MM-DD"}},
		"in the future": {"", "", "2026-01-02", "", []string{"firstName is empty", "lastName is empty", "dateOfBirth is in the future"}, []string{"dateOfBirth is in the future"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, now := almanac.Profile{FirstName: tt.first, LastName: tt.last, DateOfBirth: tt.born, Timezone: "UTC"}, instant(t, "2026-01-01T00:00:00Z")
			change := almanac.ProfileChange{FirstName: &tt.first, LastName: &tt.last, DateOfBirth: &tt.born}

			_, err := almanac.NewUser(p, now)
			if got := complaints(t, err); !slices.Equal(got, tt.refused) {
				t.Errorf("by default: %q, want %q", got, tt.refused)
			}
			if _, err = ada(t).Edit(change, now); !slices.Equal(complaints(t, err), tt.refused) {
				t.Errorf("an edit by default: %q, want %q", complaints(t, err), tt.refused)
			}
			u, err := almanac.NewUser(p, now, almanac.WithOptionalProfile())
			if got := complaints(t, err); !slices.Equal(got, tt.always) {
				t.Fatalf("with the option: %q, want %q", got, tt.always)
			}
			if tt.always == nil && (u.Name() != tt.name || u.DateOfBirth.String() != tt.born || u.DateOfBirth.IsZero() != (tt.born == "")) {
				t.Errorf("named %q, born %q; want %q, %q", u.Name(), u.DateOfBirth, tt.name, tt.born)
			}
			edited, err := ada(t).Edit(change, now, almanac.WithOptionalProfile())
			if got := complaints(t, err); !slices.Equal(got, tt.always) || tt.always == nil && edited.Name() != tt.name {
				t.Errorf("an edit with the option: %q, %q; want %q, %q", edited.Name(), got, tt.name, tt.always)
			}
			// A program without the option may edit the rest of such a user.
			if tt.always == nil {
				if _, err := u.Edit(almanac.ProfileChange{Timezone: ptr("Asia/Tokyo")}, now); err != nil {
					t.Errorf("an edit of the zone: %v", err)
				}
			}
		})
	}
}

func TestDateOfBirthReturnsItsText(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(t *rapid.T) {
		day := calendar.DateOf(time.Date(2000, time.January, rapid.IntRange(1, 366).Draw(t, "day of a leap year"), 0, 0, 0, 0, time.UTC))
		text := fmt.Sprintf("--%02d-%02d", day.Month, day.Day)
		year := rapid.OneOf(rapid.Just(0), rapid.IntRange(1900, 9999)).Draw(t, "year")
		day.Year = year
		if year != 0 {
			text = day.String()
		}

		d, err := almanac.ParseDateOfBirth(text, "")

		if year != 0 && !day.Valid() { // 29 February of a common year
			if err == nil {
				t.Fatalf("%s is accepted", text)
			}
			return
		}
		is, known := d.Year()
		if err != nil || d.String() != text || d.Date() != day || is != year || known != (year != 0) || d.IsZero() {
			t.Fatalf("%s is %s, %v, year %d %v: %v", text, d, d.Date(), is, known, err)
		}
		if short, err := almanac.ParseDateOfBirth(fmt.Sprintf("--%02d%02d", day.Month, day.Day), ""); err != nil || (short == d) != (year == 0) {
			t.Fatalf("the short form is %s, %v; want %s without a year", short, err, d)
		}
	})
}

// What is accepted is printed in one form, which is accepted as the same date.
func FuzzParseDateOfBirth(f *testing.F) {
	for _, s := range []string{"1990-03-15", "--03-15", "--0315", "--02-29", "--0229", "--2-29", "---03-15", "--03-1", "0000-03-15", "0004-02-29", "--13-01", "--００-01", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := almanac.ParseDateOfBirth(s, "")
		if err != nil {
			var invalid *almanac.InvalidDateOfBirthError
			if !errors.As(err, &invalid) || invalid.Reason == "" || !d.IsZero() {
				t.Fatalf("%q: %v with %v", s, d, err)
			}
			return
		}
		again, err := almanac.ParseDateOfBirth(d.String(), "")
		year, known := d.Year()
		if err != nil || again != d || known && (year < 1900 || !d.Date().Valid()) || d.IsZero() {
			t.Fatalf("%q is %q, and again %q, %v", s, d, again, err)
		}
		if short := len(s) == len("--0315"); !short && s != d.String() {
			t.Fatalf("%q is printed as %q", s, d)
		}
	})
}

func TestEditMergesAttributes(t *testing.T) {
	t.Parallel()

	long := strings.Repeat("‹", 20_000) // 60,000 bytes, which an escape would double
	tests := map[string]struct{ attributes, merge, want string }{
		"a member more":       {`{"a": 1}`, `{"b": 2}`, `{"a":1,"b":2}`},
		"a member replaced":   {`{"a": 1, "b": [1, 2]}`, `{"b": [3]}`, `{"a":1,"b":[3]}`},
		"a member removed":    {`{"a": 1, "b": 2}`, `{"b": null}`, `{"a":1}`},
		"a member within":     {`{"a": {"b": 1, "c": 2}}`, `{"a": {"c": 3}}`, `{"a":{"b":1,"c":3}}`},
		"what browsers avoid": {`{"a": "<&>"}`, `{"b": "<"}`, `{"a":"<&>","b":"<"}`},
		"beside a long text":  {`{"a": "` + long + `"}`, `{"b": 1}`, `{"a":"` + long + `","b":1}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := almanactest.User(almanactest.WithAttributes(tt.attributes))

			got, err := u.Edit(almanac.ProfileChange{Merge: json.RawMessage(tt.merge)}, time.Date(2026, time.November, 1, 0, 0, 0, 0, time.UTC))

			if err != nil || string(got.Attributes) != tt.want {
				t.Errorf("attributes %.80s, %v; want %.80s", got.Attributes, err, tt.want)
			}
		})
	}
}

// What was stored by other rules, or by SQL, is no reason to refuse an edit of something else.
func TestEditChecksNothingThatWasStored(t *testing.T) {
	t.Parallel()

	at := time.Date(2026, time.November, 1, 0, 0, 0, 0, time.UTC)
	long, digits := strings.Repeat("y", 70<<10), strings.Repeat("9", 500)
	u := almanactest.User()
	u.Attributes = json.RawMessage(`{"long": "` + long + `", "b": "` + strings.Repeat("z", 2<<10) + `", "n": ` + digits + `}`)
	u.CreationDigest = strings.Repeat("d", 1000)
	u.OptOuts = slices.Repeat([]almanac.OptOut{{Type: "A"}}, 101)
	tests := map[string]struct {
		change almanac.ProfileChange
		want   string // the attributes; "" for those that were stored
	}{
		"a name":                           {almanac.ProfileChange{FirstName: ptr("Augusta")}, ""},
		"a zone":                           {almanac.ProfileChange{Timezone: ptr("Asia/Tokyo")}, ""},
		"an opt-in":                        {almanac.ProfileChange{OptIn: []almanac.OptOut{{Type: "B"}}}, ""},
		"other attributes":                 {almanac.ProfileChange{Attributes: json.RawMessage(`{}`)}, `{}`},
		"a member less":                    {almanac.ProfileChange{Merge: json.RawMessage(`{"long": null}`)}, `{"b":"` + strings.Repeat("z", 2<<10) + `","n":` + digits + `}`},
		"a member less that is not enough": {almanac.ProfileChange{Merge: json.RawMessage(`{"b": null, "c": 1}`)}, `{"c":1,"long":"` + long + `","n":` + digits + `}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got, err := u.Edit(tt.change, at)

			if tt.want == "" {
				tt.want = string(u.Attributes)
			}
			if err != nil || string(got.Attributes) != tt.want {
				t.Errorf("attributes %.80s, %v; want %.80s", got.Attributes, err, tt.want)
			}
		})
	}
	more := json.RawMessage(`{"more": "` + strings.Repeat("m", 3<<10) + `"}`)
	if _, err := u.Edit(almanac.ProfileChange{Merge: more}, at); !slices.Equal(complaints(t, err), []string{"attributes are longer than 65536 bytes as PostgreSQL writes them"}) {
		t.Errorf("attributes become longer: %v", err)
	}
}

// A patch is judged before any work is done on it, as attributes themselves are.
func TestEditRefusesToMerge(t *testing.T) {
	t.Parallel()

	tests := map[string]struct{ merge, problem string }{
		"no object":              {`[1]`, "merge are not a JSON object"},
		"no JSON":                {`{"a":`, "merge are not a JSON object"},
		"half a character":       {`{"\ud83c": 1}`, "merge contain characters that cannot be stored"},
		"a byte that is no text": {"{\"\xff\": 1}", "merge contain characters that cannot be stored"},
		"deeper than is kept":    {strings.Repeat(`{"a":`, 9_999) + "1" + strings.Repeat("}", 9_999), "merge contain"},
		"a member twice":         {`{"a": 1, "a": null}`, "merge contain a member more than once"},
		"longer than is kept":    {`{"a": "` + strings.Repeat("x", 64<<10) + `"}`, "merge are longer than 65536 bytes"},
		"too long in the end":    {`{"a": "` + strings.Repeat("x", 63<<10) + `"}`, "attributes are longer than 65536 bytes"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := almanactest.User(almanactest.WithAttributes(`{"kept": "` + strings.Repeat("y", 2<<10) + `"}`))

			_, err := u.Edit(almanac.ProfileChange{Merge: json.RawMessage(tt.merge)}, time.Date(2026, time.November, 1, 0, 0, 0, 0, time.UTC))

			if !errors.Is(err, almanac.ErrInvalid) || !strings.Contains(err.Error(), tt.problem) {
				t.Errorf("error %.120v, want one that says %q", err, tt.problem)
			}
		})
	}
}
