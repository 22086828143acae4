package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBadBodiesAreRefusedFieldByFieldAndStoreNothing(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		body string
		want map[string]string
	}{
		"every field is bad": {
			`{"firstName":"","lastName":"` + strings.Repeat("x", 101) + `","dateOfBirth":"2025-02-29","timezone":"Asia/Tokio"}`,
			map[string]string{
				"firstName": "is empty", "lastName": "is longer than 100 characters",
				"dateOfBirth": "is not a day of the calendar: February 2025 has 28 days",
				"timezone":    `is not a known time zone; did you mean "Asia/Tokyo"?`,
			},
		},
		"types, missing and unknown fields are reported together with the domain's complaints": {
			`{"firstName":1,"lastName":null,"timezone":"Mars","nickname":"A","age":[3]}`,
			map[string]string{
				"firstName": "must be a string", "lastName": "must be a string", "dateOfBirth": "is required",
				"timezone": "is not a known time zone", "nickname": "is not a known field", "age": "is not a known field",
			},
		},
		"nothing is given": {`{}`, map[string]string{
			"firstName": "is required", "lastName": "is required", "dateOfBirth": "is required", "timezone": "is required",
		}},
		"the birthday is in the future": {with(`"dateOfBirth":"2026-03-02"`), map[string]string{"dateOfBirth": "is in the future"}},
		"the birthday is in the future, but the zone is unknown": {
			`{"firstName":"A","lastName":"B","dateOfBirth":"2027-01-01","timezone":""}`,
			map[string]string{"dateOfBirth": "is in the future", "timezone": "is empty"},
		},
		"optional fields are bad": {
			with(`"locale":"English","email":"G <g@h.example>","externalId":" 42"`),
			map[string]string{
				"locale": "is not a language tag (BCP 47)", "email": "is not a bare e-mail address of at most 254 bytes",
				"externalId": "begins or ends with a space",
			},
		},
		"optional fields are numbers": {
			with(`"locale":1,"email":false,"externalId":42`),
			map[string]string{"locale": "must be a string", "email": "must be a string", "externalId": `must be a string: write "42"`},
		},
		"an optional field is given twice": {
			with(`"email":"a@b","email":null`),
			map[string]string{"email": "is given more than once"},
		},
		"a field is given twice":    {`{"firstName":"A",` + grace[1:], map[string]string{"firstName": "is given more than once"}},
		"case matters":              {with(`"FirstName":"A"`), map[string]string{"FirstName": "is not a known field"}},
		"a name holds a control":    {with(`"lastName":"a\u0000b"`), map[string]string{"lastName": "contains control characters"}},
		"attributes are a list":     {with(`"attributes":[]`), map[string]string{"attributes": "must be an object"}},
		"attributes are null":       {with(`"attributes":null`), map[string]string{"attributes": "must be an object"}},
		"a number is not storable":  {with(`"attributes":{"n":1e999999}`), map[string]string{"attributes": "contain a number that is out of range"}},
		"a number vanishes":         {with(`"attributes":{"n":[0.1e-999999]}`), map[string]string{"attributes": "contain a number that is out of range"}},
		"attributes go deep":        {with(`"attributes":{"n":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`), map[string]string{"attributes": "contain more than 32 levels of nesting"}},
		"attributes hold U+0000":    {with(`"attributes":{"n":"\u0000"}`), map[string]string{"attributes": "contain characters that cannot be stored"}},
		"attributes twice within":   {with(`"attributes":{"a":{"n":1,"n":1}}`), map[string]string{"attributes": "contain a member more than once"}},
		"a name is turned around":   {with(`"lastName":"a\u202eb"`), map[string]string{"lastName": "contains control characters"}},
		"a birth too long ago":      {with(`"dateOfBirth":"1899-12-31"`), map[string]string{"dateOfBirth": "is before 1900-01-01"}},
		"a zone that is the host's": {with(`"timezone":"Local"`), map[string]string{"timezone": "is the time zone of a machine, not of a person"}},
		"a deeply nested body":      {with(`"x":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)), map[string]string{"body": "is not one JSON value: invalid character '[' exceeded max depth"}},
		"half a character":          {with(`"attributes":{"n":"\ud83d"}`), map[string]string{"body": "escapes half of a character"}},
		"the other half":            {with(`"firstName":"\\\udc00\ud83d"`), map[string]string{"body": "escapes half of a character"}},
		"the body is empty":         {" \n", map[string]string{"body": "is empty"}},
		"the body is a list":        {`[]`, map[string]string{"body": "is not a JSON object"}},
		"the body is null":          {`null`, map[string]string{"body": "is not a JSON object"}},
		"the body ends early":       {`{"firstName":"A"`, map[string]string{"body": "is not one JSON value: unexpected end of JSON input"}},
		"text after the body":       {grace + grace, map[string]string{"body": "is not one JSON value: invalid character '{' after top-level value"}},
		"the body is not UTF-8":     {with(`"firstName":"` + "\xff" + `"`), map[string]string{"body": "is not valid UTF-8"}},
		"the body is too large":     {with(`"firstName":"` + strings.Repeat("x", 256<<10) + `"`), map[string]string{"body": "is larger than 256 KiB"}},
		"an unknown name is long":   {with(`"` + strings.Repeat("é", 65) + `":1`), map[string]string{strings.Repeat("é", 64) + "…": "is not a known field"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)

			a := s.send("POST", "/user", tt.body)

			require.Equal(t, tt.want, s.complaints(a))
			s.nothing()
		})
	}
}

// with returns grace with one more member, or with one replaced.
func with(member string) string {
	name, _, _ := strings.Cut(member, ":")
	var kept []string
	for _, other := range strings.Split(strings.Trim(grace, "{}"), ",") {
		if !strings.HasPrefix(other, name) {
			kept = append(kept, other)
		}
	}
	return "{" + strings.Join(append(kept, member), ",") + "}"
}

func TestValuesAtTheirBoundsAreAccepted(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"the earliest birth":        with(`"dateOfBirth":"1900-01-01"`),
		"a name of 400 bytes":       with(`"lastName":"` + strings.Repeat("🎂", 100) + `"`),
		"a name of 100 characters":  with(`"firstName":"` + strings.Repeat("é", 100) + `"`),
		"an escaped pair":           with(`"firstName":"\ud83d\ude00\\u"`),
		"attributes of some depth":  with(`"attributes":{"n":` + strings.Repeat("[", 31) + strings.Repeat("]", 31) + `}`),
		"a body of exactly 256 KiB": grace + strings.Repeat(" ", 256<<10-len(grace)),
		"attributes with escapes":   with(`"attributes":{"n": "` + strings.Repeat(`\u00e9`, 32_000) + `"}`),
		"the day itself, in London": with(`"dateOfBirth":"2026-03-01"`),
	}
	for name, body := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)

			a := s.send("POST", "/user", body)

			require.Equal(t, http.StatusCreated, a.status, a.body)
		})
	}
}

func TestBadChangesAreRefusedAndChangeNothing(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		body string
		want map[string]string
	}{
		"null is no value": {`{"firstName":null,"lastName":"New"}`, map[string]string{"firstName": "must be a string"}},
		"types and domain together": {`{"firstName":true,"timezone":"CET1","x":0}`, map[string]string{
			"firstName": "must be a string", "timezone": "is not a known time zone", "x": "is not a known field",
		}},
		"an optional field": {`{"lastName":"New","locale":"xx","externalId":42}`, map[string]string{"locale": "has an unknown subtag", "externalId": `must be a string: write "42"`}},
		"the future":        {`{"lastName":"New","dateOfBirth":"2199-01-01"}`, map[string]string{"dateOfBirth": "is in the future"}},
		"malformed":         {`{`, map[string]string{"body": "is not one JSON value: unexpected end of JSON input"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			user, event := s.create(grace)
			path := "/user/" + user["id"].(string)

			a := s.send("PUT", path, tt.body)

			require.Equal(t, tt.want, s.complaints(a))
			require.Equal(t, user, s.object(s.send("GET", path, ""))["user"])
			require.Equal(t, event, s.object(s.send("GET", "/events/"+event["id"].(string), ""))["event"])
		})
	}
}

func TestBadPathsAndQueriesAreRefused(t *testing.T) {
	t.Parallel()
	const id = "018f6a2b-7c1d-7e3f-8a4b-5c6d7e8f9a0b"
	tests := map[string]struct {
		method, target, body string
		want                 map[string]string
	}{
		"an id that is none":          {"GET", "/user/42", "", map[string]string{"id": "is not a UUID"}},
		"an id in braces":             {"GET", "/user/%7B" + id + "%7D", "", map[string]string{"id": "is not a UUID"}},
		"an id without hyphens":       {"GET", "/events/" + strings.ReplaceAll(id, "-", ""), "", map[string]string{"id": "is not a UUID"}},
		"an id to delete":             {"DELETE", "/user/x", "", map[string]string{"id": "is not a UUID"}},
		"an id and a body":            {"PUT", "/user/x", `{"firstName":1}`, map[string]string{"id": "is not a UUID", "firstName": "must be a string"}},
		"an id and a limit":           {"GET", "/user/x/events?limit=x", "", map[string]string{"id": "is not a UUID", "limit": "is not a whole number between 1 and 1000"}},
		"an unknown status":           {"GET", "/events?status=pending", "", map[string]string{"status": "is not one of PENDING, PROCESSING, COMPLETED, FAILED, CANCELLED"}},
		"a limit of none":             {"GET", "/events?limit=0", "", map[string]string{"limit": "is not a whole number between 1 and 1000"}},
		"a limit of too many":         {"GET", "/events?limit=1001", "", map[string]string{"limit": "is not a whole number between 1 and 1000"}},
		"a cursor of another make":    {"GET", "/events?cursor=next", "", map[string]string{"cursor": "is not a cursor of an earlier page"}},
		"a type that is not text":     {"GET", "/events?type=%00", "", map[string]string{"type": "is not an event type: 1 to 50 bytes without control characters"}},
		"a type that is not UTF-8":    {"GET", "/events?type=%ff", "", map[string]string{"type": "is not an event type: 1 to 50 bytes without control characters"}},
		"everything twice":            {"GET", "/events?limit=1&limit=2&stauts=FAILED&type=", "", map[string]string{"limit": "is given more than once", "stauts": "is not a known parameter", "type": "is empty"}},
		"a query that makes no sense": {"GET", "/events?%zz", "", map[string]string{"query": "cannot be read"}},
		"a parameter without a name":  {"GET", "/events?=x", "", map[string]string{"query": "has a parameter without a name"}},
		"two without a name":          {"GET", "/events?=&=x&limit=0", "", map[string]string{"query": "has a parameter without a name", "limit": "is not a whole number between 1 and 1000"}},
		"one that is called query":    {"GET", "/user/" + id + "?query=x&=x", "", map[string]string{"query": "has a parameter without a name"}},
		"a query where none is known": {"GET", "/user/" + id + "?full=1", "", map[string]string{"full": "is not a known parameter"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)

			require.Equal(t, tt.want, s.complaints(s.send(tt.method, tt.target, tt.body)))
		})
	}
}
