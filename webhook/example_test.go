package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/webhook"
)

// A delivery, seen by the sender and by the receiver.
func Example() {
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	verifier, err := webhook.NewVerifier(secret)
	if err != nil {
		panic(err)
	}
	receiver := httptest.NewServer(verifier.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Printf("%s: %s\n", r.Header.Get("X-Idempotency-Key"), body)
	})))
	defer receiver.Close()

	deliverer, err := webhook.New(receiver.URL, webhook.WithSecrets(secret), webhook.AllowPrivate())
	if err != nil {
		panic(err)
	}
	defer deliverer.CloseIdleConnections()
	err = deliverer.Deliver(context.Background(), almanac.Delivery{Attempt: 1, At: time.Now(), Event: almanac.Event{
		Type: almanac.TypeBirthday, IdempotencyKey: "event-0da59425d0ba435e",
		Payload: []byte(`{"message": "Hey, Ada Lovelace it's your birthday"}`),
	}})
	fmt.Println(err)
	// Output:
	// event-0da59425d0ba435e: {"eventId":"00000000-0000-0000-0000-000000000000","eventType":"BIRTHDAY","message":"Hey, Ada Lovelace it's your birthday"}
	// <nil>
}

// New reports every wrong setting at once.
func ExampleNew() {
	_, err := webhook.New("http://169.254.169.254/latest/meta-data", webhook.WithSecrets("secret"))
	fmt.Println(err)
	// Output:
	// webhook: the URL's scheme is "http", not https; http needs AllowPrivate
	// webhook: secret 1 is not base64, as in whsec_$(openssl rand -base64 32)
}

// A receiver verifies a delivery before it acts.
func ExampleVerifier_Handler() {
	verifier, err := webhook.NewVerifier("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		panic(err)
	}
	receiver := verifier.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNoContent) // the place to do so is after the key is stored
	}))

	answer := httptest.NewRecorder()
	receiver.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/hook", strings.NewReader("{}")))
	fmt.Println(answer.Code)
	// Output: 401
}

// answering returns the error of a delivery to a receiver that answers with a status.
func answering(status int, header ...string) error {
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for _, h := range header {
			w.Header().Set("Retry-After", h)
		}
		w.WriteHeader(status)
	}))
	defer receiver.Close()
	deliverer, err := webhook.New(receiver.URL, webhook.AllowPrivate())
	if err != nil {
		panic(err)
	}
	defer deliverer.CloseIdleConnections()
	return deliverer.Deliver(context.Background(), almanac.Delivery{Attempt: 1, At: time.Now(), Event: almanac.Event{Payload: []byte("{}")}})
}

// The response status decides whether another attempt follows.
func ExampleDeliverer() {
	for _, err := range []error{answering(http.StatusAccepted), answering(http.StatusTooManyRequests, "60"), answering(http.StatusGone)} {
		fmt.Println(err, errors.Is(err, almanac.ErrPermanent))
	}
	// Output:
	// <nil> false
	// webhook: receiver answered 429 Too Many Requests false
	// webhook: receiver answered 410 Gone true
}

func ExampleStatusError() {
	var status *webhook.StatusError
	fmt.Println(errors.As(answering(http.StatusTeapot), &status), status.Code)
	// Output: true 418
}

// New names every setting that is out of bounds.
func ExampleOption() {
	_, err := webhook.New("https://example.com/hook", webhook.WithConcurrency(-1), webhook.WithTimeout(0))
	fmt.Println(err)
	// Output:
	// webhook: timeout of 0s is under a microsecond
	// webhook: concurrency is negative
}

// A receiver acts once for each key, in its own database. OnceSchema is among its migrations.
func ExampleBeginner() {
	pool, err := pgxpool.New(context.Background(), "postgres://shop@localhost/shop") // connects when it is used
	if err != nil {
		panic(err)
	}
	defer pool.Close()
	verifier, err := webhook.NewVerifier("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		panic(err)
	}
	receiver, err := verifier.Once(pool, 7*24*time.Hour, func(ctx context.Context, tx pgx.Tx, delivery webhook.Accepted) error {
		_, err := tx.Exec(ctx, "INSERT INTO vouchers (reason) VALUES ($1)", delivery.Body)
		return err
	})
	if err != nil {
		panic(err)
	}

	answer := httptest.NewRecorder()
	receiver.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/hook", strings.NewReader("{}")))
	fmt.Println(answer.Code)
	// Output: 401
}

// An effect that can never succeed returns a permanent error, and the sender stops trying.
func ExampleEffect() {
	var effect webhook.Effect = func(_ context.Context, _ pgx.Tx, delivery webhook.Accepted) error {
		var body struct{ Message string }
		if err := json.Unmarshal(delivery.Body, &body); err != nil {
			return almanac.Permanent(err)
		}
		fmt.Println(delivery.Key, body.Message)
		return nil
	}
	for _, body := range []string{`{"message": "Hey, Ada"}`, `{`} {
		err := effect(context.Background(), nil, webhook.Accepted{Key: "event-0da59425d0ba435e", Body: []byte(body)})
		fmt.Println(err, errors.Is(err, almanac.ErrPermanent))
	}
	// Output:
	// event-0da59425d0ba435e Hey, Ada
	// <nil> false
	// unexpected end of JSON input true
}

// The body is the object that the sender signed.
func ExampleAccepted() {
	delivery := webhook.Accepted{Key: "event-0da59425d0ba435e", Body: []byte(`{"eventType": "BIRTHDAY"}`)}
	var event struct{ EventType string }
	fmt.Println(json.Unmarshal(delivery.Body, &event), delivery.Key, event.EventType)
	// Output: <nil> event-0da59425d0ba435e BIRTHDAY
}

// Each tenant has a receiver. The events of all of them that start together are posted in one request for each.
func ExampleNewReceivers() {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println(r.URL.Path, r.Header.Get("Content-Type"))
	}))
	defer server.Close()
	tenant := func(d almanac.Delivery) string {
		var of struct{ Tenant string }
		_ = json.Unmarshal(d.User.Attributes, &of)
		return of.Tenant
	}
	find := func(_ context.Context, tenant string) (webhook.Receiver, error) { // in a directory of tenants
		return webhook.Receiver{URL: server.URL + "/" + tenant, Lane: "crm-" + tenant}, nil
	}
	receivers, err := webhook.NewReceivers(tenant, find, 0, webhook.AllowPrivate(), webhook.WithCloudEvents("/greetings", "com.example."))
	if err != nil {
		panic(err)
	}
	defer receivers.CloseIdleConnections()
	deliverer := almanac.Batched(receivers, 100) // for almanac.WithDeliverer
	greeting := almanac.Delivery{
		User:  almanac.User{Attributes: json.RawMessage(`{"tenant": "acme"}`)},
		Event: almanac.Event{Type: "BIRTHDAY", IdempotencyKey: "event-0da59425d0ba435e", Payload: json.RawMessage(`{"message": "Hey, Ada"}`)},
	}
	fmt.Println(deliverer.Deliver(context.Background(), greeting))
	greeting.Event.Lane = "crm-acme"
	fmt.Println(deliverer.Deliver(context.Background(), greeting))
	// Output:
	// moved to lane "crm-acme"
	// /acme application/cloudevents-batch+json
	// <nil>
}
