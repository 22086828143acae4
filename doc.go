// Package almanac makes things happen at a local time of day for millions of
// people, from PostgreSQL: the birthday greeting at 09:00 where the person lives,
// delivered once, whatever crashes.
//
// # The story
//
// A host gives the library people ([Profile]) and a handler per type of event
// ([EventHandler]), such as the ready-made [Birthday]. A handler speaks of wall
// times. The library resolves them to instants ([Timezone.Resolve]), stores one
// event ahead for each person and type, and delivers it when its instant comes:
//
//		plan ──▶ keep ──▶ claim ──▶ check ──▶ deliver ──▶ settle ──▶ tell
//		  ▲                                                 │
//		  └──────────── the next occurrence ◀───────────────┘
//
//	  - plan: the handler names the next occurrence; [NewEvent] makes it an event;
//	  - keep: the person and the event are stored in one transaction, the host's own
//	    if it likes (see [Scheduler].With);
//	  - claim: one statement takes due events for a bounded time, and no two
//	    processes ever the same one;
//	  - check: the validation chain ([Checks]) may still refuse;
//	  - deliver: by a channel's [Deliverer], such as package webhook;
//	  - settle: the outcome and the next occurrence are stored in one transaction, so
//	    there is no moment at which a birthday exists nowhere;
//	  - tell: observers hear of what is committed.
//
// # Putting it together
//
//	registry, err := almanac.NewRegistry(almanac.Birthday{})
//	store, err := postgres.New(pool)
//	deliverer, err := webhook.New("https://example.com/hook", webhook.WithSecrets(secret))
//	scheduler, err := almanac.NewScheduler(store, registry,
//		almanac.WithDeliverer(almanac.ChannelWebhook, deliverer))
//
//	enrolment, err := scheduler.CreateUser(ctx, almanac.Profile{
//		FirstName: "Ada", LastName: "Lovelace",
//		DateOfBirth: "1990-12-10", Timezone: "Europe/London",
//	})
//
//	err = scheduler.Run(ctx) // until ctx is done; then it drains
//
// Many people at a time come by [Scheduler].Enrol, and a type of event that is
// introduced later comes to all of them by [Scheduler].Backfill.
//
// # What is promised
//
// Exactly one terminal transition of each event is accepted. Delivery is at least
// once; each repeat carries the same idempotency key and the same payload, so that
// a receiver which remembers keys acts once. No event runs early by the database's
// clock. The events of a process that died run elsewhere within the lease and a
// sweep. An occurrence keeps its identity when the person moves, so nobody is
// greeted twice for one year.
//
// # Time
//
// An instant is a [time.Time] in UTC; a wall time is a [WallTime], and never the
// other way round. The database's clock decides what is due. Zone rules come from
// the program's own zone data; programs, not libraries, should import time/tzdata.
package almanac
