// Command almanac looks at wall times, zones and what a database plans by them, and
// looks after that database.
//
//	almanac when --zone America/New_York --at 02:30 --from 2026-03-07 --rule daily
//	almanac zone Europe/Dublin
//	almanac zones reconcile --dry-run
//	almanac migrate up
//	almanac doctor
//	almanac stats
//	almanac shards move almanac_07 --to "postgres://admin@new/app" --dry-run
//	almanac users import people.csv --id-from email
//	almanac users find "ada lo"
//	almanac users show ada@example.com
//	almanac users preview ada@example.com BIRTHDAY
//	almanac why ada@example.com BIRTHDAY 2026-12-10
//	almanac users opt-out 0198a1f0-7c3e-7d6a-9b1f-2f6d1c0e4a55 --type BIRTHDAY
//	almanac events list --upcoming
//	almanac events cancel 0198a1f0-7c3e-7d6a-9b1f-2f6d1c0e4a55 --reason "asked not to be greeted"
//	almanac backfill BIRTHDAY --birthday
//	almanac pause BIRTHDAY
//	almanac audit on
//	source <(almanac completion bash)
//
// It exits with
//
//	0    when all went well
//	1    when something went wrong; a row or an event that was refused is such a case
//	2    when the arguments were not understood
//	130  when it was interrupted, by ^C or SIGTERM, and could end in good order
//
// A second signal ends it at once, as signals do (143 in a shell for SIGTERM).
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // a machine without zone files must not plan differently

	"github.com/almanac-go/almanac/cmd/command"
)

func main() {
	signalled, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, stop := context.WithCancel(context.Background())
	// A second signal ends the process at once.
	context.AfterFunc(signalled, func() { release(); stop() })
	os.Exit(command.Run(ctx, os.Args[1:], command.Host{}))
}
