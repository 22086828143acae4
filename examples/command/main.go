// Command shows the almanac command with a host's own handler. An import plans renewals,
// and a cancelled renewal has its successor at once, as the handler plans it:
//
//	go run ./examples/command users import users.csv --id-from email
//	go run ./examples/command events cancel --type RENEWAL --user 0198a1f0-7c3e-7d6a-9b1f-2f6d1c0e4a55 --yes
//
// The database is the one that DATABASE_URL names.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/cmd/command"
)

// renewal reminds a user on the first day of each month, at nine where the user lives. The
// program that delivers has the same handler.
var renewal = almanac.Recurring{Type: "RENEWAL", Rule: func(almanac.User) (calendar.Recurrence, error) {
	return calendar.Monthly{Day: 1, At: calendar.Clock{Hour: 9}}, nil
}}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	registry, err := almanac.NewRegistry(renewal)
	if err != nil {
		log.Fatal(err)
	}
	code := command.Run(ctx, os.Args[1:], command.Host{Name: "acme", Registry: registry})
	stop()
	os.Exit(code)
}
