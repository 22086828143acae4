package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/httpapi"
)

// serving sends a request to an API with an in-memory repository, and prints the status.
func serving(auth httpapi.Authenticator, r *http.Request, options ...httpapi.Option) *http.Response {
	now := time.Date(2027, time.March, 1, 0, 0, 0, 0, time.UTC)
	repository := almanactest.NewRepository(func() time.Time { return now })
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	if err != nil {
		panic(err)
	}
	scheduler, err := almanac.NewScheduler(repository, registry)
	if err != nil {
		panic(err)
	}
	api, err := httpapi.New(scheduler, repository, auth, options...)
	if err != nil {
		panic(err)
	}
	r.Host = "localhost:8080"
	answer := httptest.NewRecorder()
	api.ServeHTTP(answer, r)
	fmt.Println(answer.Code)
	return answer.Result()
}

// A user is created together with their events.
func ExampleNew() {
	serving(httpapi.NoAuthentication{}, httptest.NewRequest(http.MethodPost, "/user", strings.NewReader(
		`{"firstName": "Ada", "lastName": "Lovelace", "dateOfBirth": "1990-12-10", "timezone": "Europe/London"}`)))
	// Output: 201
}

// Operators look at what they would change before they change it.
func ExampleNewAdmin() {
	repository := almanactest.NewRepository(nil)
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	if err != nil {
		panic(err)
	}
	scheduler, err := almanac.NewScheduler(repository, registry)
	if err != nil {
		panic(err)
	}
	admin, err := httpapi.NewAdmin(scheduler, repository, httpapi.NoAuthentication{})
	if err != nil {
		panic(err)
	}
	answer := httptest.NewRecorder()
	http.StripPrefix("/admin", admin).ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "http://localhost/admin/operations", strings.NewReader(
		`{"operation": "requeue", "filter": {"reason": "receiver answered 503"}, "dryRun": true}`)))
	fmt.Println(answer.Code, answer.Body)
	// Output: 200 {"operation":"requeue","dryRun":true,"events":[],"refused":[],"more":false,"stopped":null,"unplanned":0,"requeuedBefore":0}
}

// staffOnly lets in requests that the host's own proxy has authenticated.
type staffOnly struct{}

func (staffOnly) Authenticate(r *http.Request) (challenge string, ok bool) {
	return `Negotiate`, strings.HasSuffix(r.Header.Get("X-Forwarded-Email"), "@example.com")
}

func ExampleAuthenticator() {
	request := httptest.NewRequest(http.MethodGet, "/events", nil)
	fmt.Println(serving(staffOnly{}, request).Header.Get("WWW-Authenticate"))
	request.Header.Set("X-Forwarded-Email", "grace@example.com")
	serving(staffOnly{}, request)
	// Output:
	// 401
	// Negotiate
	// 200
}

// On loopback, every program of the machine may use the API.
func ExampleNoAuthentication() {
	serving(httpapi.NoAuthentication{}, httptest.NewRequest(http.MethodGet, "/events", nil))
	// Output: 200
}

// A program that is about to stop reports so before it stops.
func ExampleOption() {
	stopping := func(context.Context) error { return fmt.Errorf("stopping") }
	serving(httpapi.NoAuthentication{}, httptest.NewRequest(http.MethodGet, "/readyz", nil), httpapi.WithReadiness(stopping))
	// Output: 503
}

// absent is a reader whose database does not answer.
type absent struct{ httpapi.Reader }

func (absent) Now(context.Context) (time.Time, error) { return time.Time{}, context.DeadlineExceeded }

// The reader may be a replica; readiness reports whether it answers.
func ExampleReader() {
	repository := almanactest.NewRepository(nil)
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	if err != nil {
		panic(err)
	}
	scheduler, err := almanac.NewScheduler(repository, registry)
	if err != nil {
		panic(err)
	}
	for _, reader := range []httpapi.Reader{repository, absent{repository}} {
		api, err := httpapi.New(scheduler, reader, httpapi.BearerToken("correct horse battery staple correct"))
		if err != nil {
			panic(err)
		}
		answer := httptest.NewRecorder()
		api.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		fmt.Println(answer.Code)
	}
	// Output:
	// 200
	// 503
}
