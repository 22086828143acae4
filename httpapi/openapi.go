package httpapi

import (
	_ "embed"
	"encoding/json"
	"net/http"
)

// The descriptions of both APIs as OpenAPI 3.1, written by hand: a generator would own the handlers.
// A test compares them with the routes. The module checks compares answers with them.
var (
	//go:embed openapi/api.json
	apiDocument []byte
	//go:embed openapi/admin.json
	adminDocument []byte
)

// document answers with a JSON document.
func document(text []byte) endpoint {
	return func(r *http.Request) (reply, error) {
		var bad complaints
		if queryOf(r, &bad); bad.any() {
			return reply{}, bad.problem()
		}
		return reply{status: http.StatusOK, body: json.RawMessage(text)}, nil
	}
}
