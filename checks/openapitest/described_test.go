package openapitest_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/config"
	"github.com/stretchr/testify/require"
)

// operation is one operation of a document.
type operation struct{ method, path string }

// described is the document of an API, and the answers that a test has seen.
type described struct {
	text      []byte
	document  libopenapi.Document
	validator validator.Validator
	statuses  map[operation][]int // the documented statuses
	seen      map[operation]map[int]bool
}

// describe reads the document that an API serves.
func describe(t *testing.T, h http.Handler) *described {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/openapi.json", nil))
	require.Equal(t, http.StatusOK, w.Code)
	document, err := libopenapi.NewDocument(w.Body.Bytes())
	require.NoError(t, err)
	d := &described{text: w.Body.Bytes(), document: document, statuses: map[operation][]int{}, seen: map[operation]map[int]bool{}}
	var errs []error
	d.validator, errs = validator.NewValidator(document, config.WithFormatAssertions(), config.WithStrictMode(),
		// A host defines what attributes and payloads contain.
		config.WithStrictIgnorePaths("$.body.attributes.**", "$.body.**.attributes.**", "$.body.payload.**", "$.body.**.payload.**", "$.body.**.deliveryPayload.**"),
		// Headers of every answer and of every request, which the documents need not have.
		config.WithStrictIgnoredHeaders("content-type", "cache-control", "x-content-type-options", "sec-fetch-site"))
	require.Empty(t, errs)
	var text struct {
		Paths map[string]map[string]struct {
			Responses map[string]any
		}
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &text))
	for path, operations := range text.Paths {
		for method, is := range operations {
			op := operation{strings.ToUpper(method), path}
			d.seen[op] = map[int]bool{}
			for status := range is.Responses {
				number, err := strconv.Atoi(status)
				require.NoError(t, err)
				d.statuses[op] = append(d.statuses[op], number)
			}
			slices.Sort(d.statuses[op])
		}
	}
	require.NotEmpty(t, d.statuses)
	return d
}

// of returns the operation that a request is for.
func (d *described) of(t *testing.T, method, target string) operation {
	t.Helper()
	path, _, _ := strings.Cut(target, "?")
	parts := strings.Split(path, "/")
	for op := range d.statuses {
		known := strings.Split(op.path, "/")
		same := len(known) == len(parts) && op.method == method
		for i := 0; same && i < len(known); i++ {
			same = known[i] == parts[i] || strings.HasPrefix(known[i], "{") && !d.literal(op.path, known, parts[i], i)
		}
		if same {
			return op
		}
	}
	require.Fail(t, "the document has no such operation", "%s %s", method, target)
	return operation{}
}

// literal reports whether another path has part where path has a parameter.
func (d *described) literal(path string, known []string, part string, at int) bool {
	for op := range d.statuses {
		other := strings.Split(op.path, "/")
		if op.path != path && len(other) == len(known) && other[at] == part {
			return true
		}
	}
	return false
}

// request is a request of a test. Header lines are "Name: value".
type request struct {
	method, target, body string
	header               []string
}

// answer is an answer that is as the document says.
type answer struct {
	header http.Header
	body   map[string]any
}

// send sends a request, and compares it and the answer with the document. The answer must
// have the status. A request that the document does not allow must be refused with 400 or 415.
func (d *described) send(t *testing.T, h http.Handler, want int, r request) answer {
	t.Helper()
	build := func() *http.Request {
		var body io.Reader
		if r.body != "" {
			body = strings.NewReader(r.body)
		}
		q := httptest.NewRequestWithContext(t.Context(), r.method, "http://localhost"+r.target, body)
		if r.body != "" {
			q.Header.Set("Content-Type", "application/json")
		}
		for _, line := range r.header {
			name, value, _ := strings.Cut(line, ": ")
			if q.Header.Set(name, value); name == "Host" {
				q.Header.Del(name)
				q.Host = value
			}
		}
		return q
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, build())
	require.Equal(t, want, w.Code, "%s %s: %s", r.method, r.target, w.Body)

	sent, asked := w.Result(), build()
	asked.Host = "localhost"
	text := w.Body.Bytes()
	sent.Body = io.NopCloser(bytes.NewReader(text))
	if r.target == "/openapi.json" && want == http.StatusOK {
		require.Equal(t, d.text, text) // the validator has compared it with the schema of OpenAPI
	} else if ok, errs := d.validator.ValidateHttpResponse(asked, sent); !ok {
		require.Empty(t, errs, "the answer %d to %s %s is not as described: %s", want, r.method, r.target, text)
	}
	isLines := slices.Contains(r.header, lines) // the validator would read them as one value
	if want != http.StatusBadRequest && want != http.StatusUnsupportedMediaType && !isLines {
		asked = build()
		asked.Host = "localhost"
		if ok, errs := d.validator.ValidateHttpRequest(asked); !ok {
			require.Empty(t, errs, "the request %s %s is not as described, and is answered %d", r.method, r.target, want)
		}
	}
	d.seen[d.of(t, r.method, r.target)][want] = true
	a := answer{header: w.Header()}
	if len(text) > 0 {
		require.NoError(t, json.Unmarshal(text, &a.body))
	}
	return a
}

// complete requires that each documented status was seen.
func (d *described) complete(t *testing.T) {
	t.Helper()
	for op, statuses := range d.statuses {
		for _, status := range statuses {
			require.True(t, d.seen[op][status], "%s %s was never answered %d", op.method, op.path, status)
		}
	}
}
