// Package almanac delivers events at a local time of day, for millions of users, from
// PostgreSQL. The typical event is a birthday greeting at 09:00 in the user's own time
// zone. Processes may crash at any moment: no event is lost, and each event ends once.
//
// # How it works
//
// The host application gives the library users ([Profile]) and one handler for each type of event
// ([EventHandler]), such as the ready-made [Birthday]. A handler returns wall times. The library
// resolves each wall time to an instant ([calendar.Timezone.Resolve]). It stores one pending event
// for each user and type (or several, see [MultiSeries]), and delivers each event at its instant:
//
//	plan ──▶ store ──▶ claim ──▶ check ──▶ deliver ──▶ settle ──▶ notify
//	  ▲                                                  │
//	  └───────────── the next occurrence ◀───────────────┘
//
// These are the steps:
//
//   - plan: the handler returns the next occurrence, and [NewEvent] makes an event of it;
//   - store: the user and the event are stored in one transaction, which can be a
//     transaction of the host (see [Scheduler].With);
//   - claim: one statement takes due events for a limited time, the lease; two processes
//     never take the same event;
//   - check: the validation chain ([Checks]) can refuse the event;
//   - deliver: the [Deliverer] of the event's channel delivers it, for example package
//     webhook;
//   - settle: the outcome and the next occurrence are stored in one transaction, so the
//     user always has a next birthday in the database;
//   - notify: observers are notified of the committed changes.
//
// # Getting started
//
//	registry, err := almanac.NewRegistry(almanac.Birthday{})
//	store, err := postgres.New(pool)
//	deliverer, err := webhook.New("https://example.com/hook", webhook.WithSecrets(secret))
//	scheduler, err := almanac.NewScheduler(store, registry,
//		almanac.WithDeliverer(almanac.ChannelWebhook, deliverer))
//
//	created, err := scheduler.CreateUser(ctx, almanac.Profile{
//		FirstName: "Ada", LastName: "Lovelace",
//		DateOfBirth: "1990-12-10", Timezone: "Europe/London",
//	})
//
//	err = scheduler.Run(ctx) // until ctx is done; then deliveries may finish
//
// [Scheduler].CreateUsers stores many users with few transactions. [Scheduler].Backfill
// stores the events of a new type for the users who exist already.
//
// # Guarantees
//
//   - The database accepts exactly one terminal transition of each event.
//   - Delivery is at least once. Each repeat carries the same idempotency key and the same
//     payload, so a receiver that remembers keys acts once.
//   - No event starts before its instant, by the database clock.
//   - When a process dies, other processes run its events within one lease and one sweep
//     (see [WithLease] and [WithSweep]).
//   - An occurrence keeps its identity when the user moves, so no user is greeted twice
//     for one year.
//
// # Time
//
// An instant is a [time.Time] in UTC. A wall time, a [calendar.WallTime], is a date and a clock reading
// without a time zone. The database clock decides which events are due. The rules of time zones come from
// the zone data of the program. To embed zone data, import time/tzdata in the program, not in a library.
//
// # What a host gives
//
//   - Users: a [Profile], changed by a [ProfileChange]; an [OptOut]; a window ([WithWindow]).
//   - Handlers: [EventHandler], in a [Registry]; ready-made: [Birthday], [Anniversary], [Recurring],
//     [OneOff], and [Reminder] with [Appointment]. Each returns an [Occurrence], and embeds an
//     [Execution] with [RetryPolicy] and [CatchUp].
//   - Deliverers: [Deliverer] or [DelivererFunc] of a [Channel], which get a [Delivery].
//   - Settings: each [Option]. The calls of a scheduler have options of their own:
//     [CreateUsersOptions], [BackfillOptions], [DeleteOptions], [ScheduleAtOptions],
//     [ReconcileOptions], [RunOnceOptions], [CancelOptions], [ForceOptions].
//
// # What a host gets
//
//   - A [Scheduler]: [Planner] creates, edits and deletes users with their events, [Operator]
//     cancels, runs, requeues and pauses, and [Runner] delivers.
//   - Users: [User] with [DateOfBirth] and [ZoneSource]; [UserWithEvents], [UpdateUserResult],
//     [DeleteResult], [CreateUsersResult] and [BackfillResult] with [Refusal].
//   - Events: [Event] with [Status], [Series], [Origin], [OriginKind] and [IdempotencyKey];
//     [PreviewResult], [ScheduleAtResult], [CancelResult], [Pause]. They are found by a [Spec]
//     ([And], [Or], [Not], [ForUser], [OfType], [InStatus], [InZone], [DueBetween], [Ready],
//     [Overdue], [ForReason]).
//   - Of a run: [Health] with [Failure]; [Missed], the events that a downtime delayed;
//     [RunOnceResult]; [ReconcileResult] with [ZoneReport] and [CalendarReport], for new zone
//     rules and calendars.
//   - Errors: [*ValidationError] with [FieldError], [*InvalidDateOfBirthError], [*NotFoundError],
//     [*ExternalIDTakenError], [*OptimisticLockError], [*InvalidStateTransitionError],
//     [*SuccessorError], [*MaxRetriesExceededError],
//     [*UnsupportedEventTypeError].
//
// # What a host may add
//
//   - To a handler: the methods of [Configurer], [MultiSeries], [Follower] with [FollowUp],
//     [LaneNamer], or [Executor].
//   - To a delivery: a [Check] of the [Checks] before it; functions around it ([WithMiddleware]); a
//     [BatchDeliverer], which delivers several events together; a [Lane], whose limits all processes
//     share, with a [Breaker] that has the [Answer]s of its receiver.
//   - An [Observer], [ObserverFunc] or [Hooks], which get a [Notice] with a [NoticeKind], a
//     [ReleaseCause] or a [FailureCause]; a [Measurer], which gets a [Measurement].
//
// For operators, package ops has statistics, and operations on many events. See also
// [WithPrincipal], for the audit trail.
//
// For implementers of a store, see [Repository]. Its parts are [UserRepository], [EventRepository],
// [ClaimRepository], [MaintenanceRepository] and [Timekeeper]. Their arguments and results are [Roster],
// [Edit], [UserSeries], [UsedKeys] of [UsedKey], [CreateUserResult], [AddEventsResult], [ClaimRequest],
// [ClaimResult], [ConfirmResult], [Settlement] with [Outcome], [SettleResult], [StalledSeries], [Page]
// with [Order] and [Cursor], [UserFilter], [List], [ZoneBook] of [ZoneRecord] and [Quarantine], and [Setting].
package almanac
