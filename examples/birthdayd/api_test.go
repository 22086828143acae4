package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgtest"
)

// What is JSON is not always a jsonb. Whatever the API lets through must be
// stored as it is, and the rest must be refused before PostgreSQL has to.
func TestWhatTheAPIAcceptsPostgresStores(t *testing.T) {
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
		status, answer := p.send("POST", "/user", fmt.Sprintf(
			`{"firstName":"A","lastName":"B","dateOfBirth":"1990-01-01","timezone":"UTC","attributes":%s}`, attributes))
		require.Equal(t, want, status, "%.80s: %.500v", attributes, answer)
	}
	require.Equal(t, 0, p.stop())
}
