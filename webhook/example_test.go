package webhook_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/almanac-go/almanac/webhook"
)

func ExampleNew() {
	_, err := webhook.New("http://169.254.169.254/latest/meta-data", webhook.WithSecrets("secret"))
	fmt.Println(err)
	// Output:
	// webhook: the URL's scheme is "http", not https (http takes AllowPrivate)
	// webhook: secret 1 is not base64, as in whsec_$(openssl rand -base64 32)
}

// A receiver verifies before it believes.
func ExampleVerifier_Handler() {
	verifier, err := webhook.NewVerifier("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		panic(err)
	}
	receiver := verifier.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNoContent) // what r.Header's X-Idempotency-Key has not done before
	}))

	answer := httptest.NewRecorder()
	receiver.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/hook", strings.NewReader("{}")))
	fmt.Println(answer.Code)
	// Output: 401
}
