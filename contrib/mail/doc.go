// Package almanacmail delivers events by e-mail, over SMTP. A [Deliverer] renders the mail
// of an event from [Templates] in the user's language, and gives it to a submission server.
//
//	templates, err := almanacmail.ParseTemplates(files, "en")
//	…
//	deliverer, err := almanacmail.New(almanacmail.Settings{
//		Server:    almanacmail.Server{Address: "smtp.example.com:587", Username: "almanac", Password: password},
//		From:      mail.Address{Name: "Example", Address: "hello@example.com"},
//		Templates: templates,
//	})
//	…
//	registry, err := almanac.NewRegistry(almanac.Birthday{Via: almanacmail.Channel, Execution: almanacmail.Execution()})
//	scheduler, err := almanac.NewScheduler(store, registry, almanac.WithDeliverer(almanacmail.Channel, deliverer))
//
// # Outcomes
//
// The server's reply decides the outcome of an attempt. A [Verdict] names it. What concerns the
// sender, such as a wrong password, postpones the event and counts no attempt. What concerns the
// recipient is final. Everything else is tried again. The README has the table. A retry policy for
// receivers ends after minutes or days, and would make a wrong password cost each user a greeting.
//
// # Repeats
//
// A mail can arrive twice, as with any delivery: for example when the connection is lost
// after the last byte and before the reply. Message-ID, Date and the MIME boundaries depend
// on the event only, so every repeat has the same ones. The Message-ID is the idempotency
// key at [Settings].Domain. The Date is the event's instant.
//
// # Unsubscribing
//
// With [Links], every mail has the headers of RFC 8058, by which mail programs offer to
// unsubscribe with one click. [Links.Handler] serves the links.
package almanacmail
