package command_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/cmd/command"
)

// The stock command, called from a program.
func ExampleRun() {
	code := command.Run(context.Background(), strings.Fields("when --zone UTC --rule daily --at 09:00 --from 2027-03-01 -n 1"), command.Host{Err: os.Stdout})
	fmt.Println("exit code", code)
	// Output:
	//   WALL TIME            CLOCKS SHOW          OFFSET  INSTANT               REASON
	//   2027-03-01T09:00:00  2027-03-01T09:00:00  +00:00  2027-03-01T09:00:00Z  exact
	// exit code 0
}

// A command of one's own: here it plans the renewals of new users, on every first of a month.
func ExampleHost() {
	renewal := almanac.Recurring{Type: "RENEWAL", Rule: func(almanac.User) (calendar.Recurrence, error) {
		return calendar.Monthly{Day: 1, At: calendar.Clock{Hour: 9}}, nil
	}}
	registry, err := almanac.NewRegistry(renewal)
	if err != nil {
		fmt.Println(err)
	}
	users := strings.NewReader("email,firstName,lastName,dateOfBirth,timezone\nada@example.com,Ada,Lovelace,1990-12-10,Europe/London\n")
	acme := command.Host{Name: "acme", Registry: registry, In: users, Err: os.Stdout}

	code := command.Run(context.Background(), strings.Fields("users import - --format csv --id-from email --dry-run"), acme)
	fmt.Println("exit code", code)
	// Output:
	// would store 1 user with 1 event; 0 rows refused
	// exit code 0
}
