// Mail sends birthday mails in five languages to a mailbox on this machine, which prints
// them. A real program gives the deliverer the address of its mail server instead.
//
// It stores its events in the database that DATABASE_URL names. Five users around the world
// have their birthday in a moment. When each has a mail, it ends.
package main

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log"
	"log/slog"
	"net/mail"
	"os"
	"os/signal"
	"syscall"
	"time"
	_ "time/tzdata"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	almanacmail "github.com/almanac-go/almanac/contrib/mail"
	"github.com/almanac-go/almanac/postgres"
)

//go:embed templates
var embedded embed.FS

// birthday is the ready-made handler with two changes: users without an address are not
// greeted, and the payload also has the age. Templates write it as "22 lata". The age is null
// if the year of birth is not known.
type birthday struct{ almanac.Birthday }

func (b birthday) Next(u almanac.User, after time.Time) (calendar.Occurrence, error) {
	if u.Email == "" {
		return calendar.Occurrence{}, calendar.ErrNoOccurrence
	}
	return b.Birthday.Next(u, after)
}

func (b birthday) Payload(u almanac.User, o almanac.Occurrence) (json.RawMessage, error) {
	payload, err := b.Birthday.Payload(u, o)
	if err != nil {
		return nil, err
	}
	var facts map[string]any // such as the reason, if a Window moves the greeting to another day
	if err := json.Unmarshal(payload, &facts); err != nil {
		return nil, err
	}
	facts["age"] = nil
	if years, known := u.DateOfBirth.Age(o.Occurrence); known {
		facts["age"] = years
	}
	return json.Marshal(facts)
}

func parseTemplates() (*almanacmail.Templates, error) {
	files, err := fs.Sub(embedded, "templates")
	if err != nil {
		return nil, err
	}
	return almanacmail.ParseTemplates(files, "en")
}

// newScheduler returns a scheduler that greets by mail. The function at says when.
func newScheduler(store almanac.Repository, server string, at func(almanac.User) calendar.Clock) (almanac.Scheduler, error) {
	templates, err := parseTemplates()
	if err != nil {
		return nil, err
	}
	deliverer, err := almanacmail.New(almanacmail.Settings{
		Server: almanacmail.Server{
			Address:    server,                  // "smtp.example.com:587", with Username and Password
			Encryption: almanacmail.Unencrypted, // for this machine only; leave it out
		},
		From:      mail.Address{Name: "Almanac", Address: "birthdays@example.com"},
		Templates: templates,
	})
	if err != nil {
		return nil, err
	}
	registry, err := almanac.NewRegistry(birthday{almanac.Birthday{
		At: at, Via: almanacmail.Channel, Execution: almanacmail.Execution(),
	}})
	if err != nil {
		return nil, err
	}
	return almanac.NewScheduler(store, registry, almanac.WithDeliverer(almanacmail.Channel, deliverer))
}

func run(ctx context.Context, database string, out io.Writer) error {
	pool, err := pgxpool.New(ctx, database)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := postgres.Migrate(ctx, pool); err != nil {
		return err
	}
	store, err := postgres.New(pool)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	box, err := openMailbox(out, len(people), stop) // stops when every mail is there
	if err != nil {
		return err
	}
	defer box.close()
	if err := greet(ctx, store, box.address); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func main() {
	slog.SetLogLoggerLevel(slog.LevelWarn) // of what is logged, only what is wrong
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Getenv("DATABASE_URL"), os.Stdout); err != nil {
		log.Fatal(err)
	}
}
