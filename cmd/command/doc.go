// Package command is the almanac command, for hosts that build a command of their own.
//
// [Run] takes a command line and a [Host], and returns the exit code of the program. The zero Host is the
// command as Almanac ships it, cmd/almanac. That command knows no handlers of a host: a cancelled event
// has no successor until a running program plans it, and an import plans birthdays and anniversaries
// only. With a Host these operations use the host's handlers. A program of a few lines is enough:
//
//	func main() {
//		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
//		registry, err := almanac.NewRegistry(almanac.Birthday{}, renewal{})
//		if err != nil {
//			log.Fatal(err)
//		}
//		code := command.Run(ctx, os.Args[1:], command.Host{Name: "acme", Registry: registry})
//		stop()
//		os.Exit(code)
//	}
//
// Give it the handlers of the program that delivers, and build both from one source: then
// both plan the same events. Import time/tzdata in package main, so that a machine without
// zone files plans like the others.
//
// With handlers,
//
//   - events cancel stores the successor of each event in the transaction that cancels it;
//   - pause accepts every type with a handler, also before its first event is stored;
//   - users import and users add plan the first events of all handlers, users edit and users
//     reschedule replan pending events, and backfill stores the events of a type that users
//     lack;
//   - users preview shows the next occurrences of a handler's type;
//   - users opt-out removes the pending events that the user refuses, and users opt-in plans
//     what the user is owed again;
//   - the flags of the ready-made handlers (--birthday, --anniversary, --at, --gap, --fold,
//     --leap-day) do not exist.
//
// An event whose type has no handler here is treated as by the stock command. The help of
// each subcommand says more.
//
// # Design
//
// Handlers are Go values, so a host compiles the command instead of adding executables to it. Open of a
// [Host] returns a pool instead of a Repository, because doctor, migrate and others send statements of
// their own. Nothing of the parser, kong, is exported. The package is a module apart, so that kong is no
// dependency of the library, and imports nothing internal, because a host may combine two releases.
package command
