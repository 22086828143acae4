package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgtest"
)

// Not every JSON text is valid jsonb. What the API accepts must be stored unchanged, and
// the rest must be refused before it reaches PostgreSQL.
func TestPostgresStoresEveryAcceptedValue(t *testing.T) {
	t.Parallel()
	tests := map[string]int{
		`{"n":1e308,"m":-2.5e-300,"k":0e999}`:       http.StatusCreated,
		`{"n":1` + strings.Repeat("0", 60) + `.25}`: http.StatusCreated,
		`{"n":1e309}`:             http.StatusBadRequest,
		`{"n":1e-131073}`:         http.StatusBadRequest,
		`{"s":"\ud83d\ude00é\\"}`: http.StatusCreated,
		`{"s":"\ud83d"}`:          http.StatusBadRequest,
		`{"\ude00":1}`:            http.StatusBadRequest,
		`{"s":"\u0000"}`:          http.StatusBadRequest,
		`{"s":"\\u0001\u0001"}`:   http.StatusCreated,
		`{"a":` + strings.Repeat("[", 31) + strings.Repeat("]", 31) + `}`:        http.StatusCreated,
		`{"a":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`:    http.StatusBadRequest,
		`{"a":"` + strings.Repeat("x", 63<<10) + `"}`:                            http.StatusCreated,
		`{"` + strings.Repeat("k", 60<<10) + `":{"deliverAt":"25:00"},"a":null}`: http.StatusCreated,
	}
	p := launch(t, append(listen(t, http.StatusOK).flags(), "-database-url", pgtest.URL(t))...)
	for attributes, want := range tests {
		status, answer := p.send("POST", "/user", newborn(attributes))
		require.Equal(t, want, status, "%.80s: %.500v", attributes, answer)
	}
	require.Equal(t, 0, p.stop())
}

// POST /user takes four fields, and none of them may be empty or halved.
func TestNamesAndDateOfBirthAreRequired(t *testing.T) {
	t.Parallel()
	p := launch(t, append(listen(t, http.StatusOK).flags(), "-database-url", pgtest.URL(t))...)
	complete := map[string]string{"firstName": "Ada", "lastName": "Lovelace", "dateOfBirth": "1990-12-10", "timezone": "UTC"}
	send := func(change func(map[string]string)) int {
		profile := maps.Clone(complete)
		change(profile)
		body, err := json.Marshal(profile)
		require.NoError(t, err)
		status, _ := p.send("POST", "/user", string(body))
		return status
	}
	require.Equal(t, http.StatusCreated, send(func(map[string]string) {}))
	for field := range complete {
		require.Equal(t, http.StatusBadRequest, send(func(p map[string]string) { delete(p, field) }), "without "+field)
		require.Equal(t, http.StatusBadRequest, send(func(p map[string]string) { p[field] = "" }), field+" is empty")
	}
	require.Equal(t, http.StatusBadRequest, send(func(p map[string]string) { p["dateOfBirth"] = "--12-10" }))
	require.Equal(t, 0, p.stop())
}

func TestContactsAreOptionalAndExternalIDsUnique(t *testing.T) {
	t.Parallel()
	p := launch(t, append(listen(t, http.StatusOK).flags(), "-database-url", pgtest.URL(t))...)
	status, answer := p.send("POST", "/user", newborn(`{}`))
	require.Equal(t, http.StatusCreated, status)
	require.NotContains(t, answer["user"], "email")
	contact := strings.TrimSuffix(newborn(`{}`), "}") + `,"locale":"pt_br","email":"a@b.example","externalId":"42"}`

	status, answer = p.send("POST", "/user", contact)

	require.Equal(t, http.StatusCreated, status, answer)
	require.Subset(t, answer["user"], map[string]any{"locale": "pt-BR", "email": "a@b.example", "externalId": "42"})
	status, _ = p.send("POST", "/user", contact)
	require.Equal(t, http.StatusConflict, status)
	status, _ = p.send("PUT", "/user/"+answer["user"].(map[string]any)["id"].(string), `{"externalId":null}`)
	require.Equal(t, http.StatusOK, status)
	ids := p.together(8, http.StatusCreated, func(int) (int, map[string]any) { return p.send("POST", "/user", contact) })
	require.Equal(t, map[int]int{http.StatusCreated: 1, http.StatusConflict: 7}, ids)
	require.Equal(t, 0, p.stop())
}

func TestAUserOptsOutAndIn(t *testing.T) {
	t.Parallel()
	p := launch(t, append(listen(t, http.StatusOK).flags(), "-database-url", pgtest.URL(t))...)
	status, answer := p.send("POST", "/user", newborn(`{}`))
	require.Equal(t, http.StatusCreated, status)
	path := "/user/" + answer["user"].(map[string]any)["id"].(string)
	key := answer["nextBirthdayEvent"].(map[string]any)["occurrenceKey"]

	status, answer = p.send("POST", path+"/opt-out", `{"type":"BIRTHDAY"}`)
	require.Equal(t, http.StatusOK, status, answer)
	require.Equal(t, []any{map[string]any{"type": "BIRTHDAY"}}, refusals(answer["user"]))
	_, answer = p.send("GET", path+"/events", "")
	require.Empty(t, answer["events"])

	status, _ = p.send("POST", path+"/opt-in", `{"type":"BIRTHDAY"}`)
	require.Equal(t, http.StatusOK, status)
	_, answer = p.send("GET", path+"/events", "")
	require.Equal(t, key, answer["events"].([]any)[0].(map[string]any)["occurrenceKey"])
	require.Equal(t, 0, p.stop())
}

// newborn returns a user with those attributes.
func newborn(attributes string) string {
	return fmt.Sprintf(`{"firstName":"A","lastName":"B","dateOfBirth":"1990-01-01","timezone":"UTC","attributes":%s}`, attributes)
}

// PostgreSQL changes the text of attributes, and accepts an id once even when requests
// arrive together.
func TestAKeyCreatesOneUserInPostgres(t *testing.T) {
	t.Parallel()
	p := launch(t, append(listen(t, http.StatusOK).flags(), "-database-url", pgtest.URL(t))...)
	const attributes = `{"n":[1e2,-0.0,1.50],"é\u0001":"\ud83d\ude00\/","deliverAt":"08:00"}`
	ids := p.together(16, http.StatusCreated, func(i int) (int, map[string]any) {
		body := strings.ReplaceAll(newborn(attributes), ",", strings.Repeat(" ", i)+",")
		return p.send("POST", "/user", body, `Idempotency-Key: "once"`)
	})
	require.Equal(t, 16, ids[http.StatusCreated])
	_, answer := p.send("GET", "/events", "")
	require.Len(t, answer["events"], 1)

	other := strings.Replace(newborn(attributes), "1.50", "1.51", 1)
	status, _ := p.send("POST", "/user", other, `Idempotency-Key: "once"`)
	require.Equal(t, http.StatusUnprocessableEntity, status)
	require.Equal(t, 0, p.stop())
}

func TestOnlyOneChangeOfAVersionSucceeds(t *testing.T) {
	t.Parallel()
	p := launch(t, append(listen(t, http.StatusOK).flags(), "-database-url", pgtest.URL(t))...)
	status, answer := p.send("POST", "/user", newborn("{}"))
	require.Equal(t, http.StatusCreated, status, answer)
	path := "/user/" + answer["user"].(map[string]any)["id"].(string)

	statuses := p.together(16, http.StatusOK, func(i int) (int, map[string]any) {
		return p.send("PUT", path, fmt.Sprintf(`{"attributes":{"by":%d}}`, i), `If-Match: "1"`)
	})

	require.Equal(t, map[int]int{http.StatusOK: 1, http.StatusPreconditionFailed: 15}, statuses)
	_, answer = p.send("GET", path, "")
	require.EqualValues(t, 2, answer["user"].(map[string]any)["version"])
	require.Equal(t, 0, p.stop())
}

// together sends n requests at once and counts the statuses. All answers with the given
// status must be about the same user.
func (p *process) together(n, status int, send func(i int) (int, map[string]any)) map[int]int {
	p.t.Helper()
	statuses, answers := make([]int, n), make([]map[string]any, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { statuses[i], answers[i] = send(i) })
	}
	all.Wait()
	counts, ids := make(map[int]int), make(map[any]bool)
	for i, s := range statuses {
		if counts[s]++; s == status {
			ids[answers[i]["user"].(map[string]any)["id"]] = true
		}
	}
	require.Len(p.t, ids, 1)
	return counts
}

// Errors of the database are only for the log.
func TestDatabaseErrorsAreNotSent(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	p := launch(t, append(listen(t, http.StatusOK).flags(), "-database-url", pool.Config().ConnString())...)
	p.says("/readyz", http.StatusOK) // a program that finds no schema when it begins ends
	// The schema is renamed because DROP takes the locks of the tables in another order,
	// and can deadlock with the program's statements.
	_, err := pool.Exec(t.Context(), "ALTER SCHEMA almanac RENAME TO elsewhere")
	require.NoError(t, err)
	const id = "018f6a2b-7c1d-7e3f-8a4b-5c6d7e8f9a0b"
	requests := [][]string{
		{"POST", "/user", newborn("{}")}, {"POST", "/user", newborn("{}"), `Idempotency-Key: "k"`}, {"GET", "/user/" + id, ""},
		{"PUT", "/user/" + id, `{"firstName":"C"}`}, {"PUT", "/user/" + id, `{"firstName":""}`}, {"PUT", "/user/" + id, `{"firstName":1}`},
		{"PUT", "/user/" + id, `{"firstName":"C"}`, `If-Match: "1"`}, {"DELETE", "/user/" + id, ""},
		{"PATCH", "/user/" + id, `{"attributes":{"a":1}}`, "Content-Type: application/merge-patch+json"},
		{"GET", "/user/" + id + "/events", ""}, {"GET", "/events?status=PENDING&type=BIRTHDAY", ""}, {"GET", "/events/" + id, ""},
	}
	for i, r := range requests {
		requestID := fmt.Sprintf("request-%d", i)
		status, answer := p.send(r[0], r[1], r[2], append(r[3:], "X-Request-Id: "+requestID)...)

		require.Equal(t, http.StatusInternalServerError, status, r)
		require.Equal(t, map[string]any{
			"type": "about:blank", "title": "Internal Server Error", "status": 500.0, "requestId": requestID,
			"detail": "the request failed; its id leads to the reason in the log",
		}, answer)
	}
	logged := func() bool { return len(p.lines("request failed")) == len(requests) } // the answer comes before the log line
	require.Eventually(t, logged, patience, pollEvery)
	for _, line := range p.lines("request failed") {
		require.Contains(t, line["error"], "42P01")
	}
}
