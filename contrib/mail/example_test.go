package almanacmail_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/mail"
	"os"
	"sync"
	"testing/fstest"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	almanacmail "github.com/almanac-go/almanac/contrib/mail"
	"github.com/almanac-go/almanac/signedlink"
)

// texts are templates; a program embeds a directory instead.
var texts = fstest.MapFS{
	"en/BIRTHDAY.txt": {Data: []byte("Subject: Happy birthday, {{.User.FirstName}}!\n\n{{.Payload.message}}")},
	"de/BIRTHDAY.txt": {Data: []byte("Subject: Alles Gute, {{.User.FirstName}}!\n\nZum Geburtstag viel Glück.")},
}

// A deliverer is given to a scheduler for its channel. It counts what it does for a metric.
func ExampleNew() {
	templates, err := almanacmail.ParseTemplates(texts, "en")
	if err != nil {
		panic(err)
	}
	var mu sync.Mutex
	attempts := make(map[almanacmail.Verdict]int) // a counter with a label, say
	deliverer, err := almanacmail.New(almanacmail.Settings{
		Server:    almanacmail.Server{Address: "smtp.example.com:587", Username: "almanac", Password: os.Getenv("SMTP_PASSWORD")},
		From:      mail.Address{Name: "Example", Address: "hello@example.com"},
		Templates: templates,
		Observe: func(_ context.Context, r almanacmail.Report) {
			mu.Lock()
			defer mu.Unlock()
			attempts[r.Verdict]++
		},
	})
	if err != nil {
		panic(err)
	}
	registry, err := almanac.NewRegistry(almanac.Birthday{Via: almanacmail.Channel, Execution: almanacmail.Execution()})
	if err != nil {
		panic(err)
	}
	_, err = almanac.NewScheduler(almanactest.NewRepository(nil), registry, almanac.WithDeliverer(almanacmail.Channel, deliverer))
	fmt.Println(err, deliverer.Health())
	// Output: <nil> <nil>
}

// A program's tests render its mails with the payloads of its handlers.
func ExampleParseTemplates() {
	templates, err := almanacmail.ParseTemplates(texts, "en")
	if err != nil {
		panic(err)
	}
	u := almanactest.User(almanactest.WithLocale("de-AT"))
	birthday := almanactest.Event(u.CreatedAt, almanactest.For(u))
	rendered, err := templates.Render(almanac.Delivery{Event: birthday, User: u}, "")
	fmt.Println(rendered.Locale, rendered.Subject, err)
	// Output: de Alles Gute, Ada! <nil>
}

// The links are in the mails, and a handler serves them.
func ExampleNewLinks() {
	secret := bytes.Repeat([]byte("s"), 32) // 32 random bytes, from a secret store
	links, err := almanacmail.NewLinks("https://example.com/unsubscribe", signedlink.Key{ID: "2027", Secret: secret})
	if err != nil {
		panic(err)
	}
	_ = almanacmail.Settings{Unsubscribe: links} // and the other settings

	var scheduler almanac.Scheduler // of the program
	http.Handle("/unsubscribe", links.Handler(func(ctx context.Context, user uuid.UUID, eventType string) error {
		_, err := scheduler.OptOut(ctx, user, almanac.OptOut{Type: eventType, Reason: "unsubscribe link", Author: "user"})
		return err
	}, nil))
	// Output:
}
