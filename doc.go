// Package almanac delivers events at a local time of day, for millions of users, from
// PostgreSQL. The typical event is a birthday greeting at 09:00 in the user's own time
// zone. Processes may crash at any moment: no event is lost, and each event ends once.
//
// # How it works
//
// The host application gives the library users ([Profile]) and one handler for each type
// of event ([EventHandler]), such as the ready-made [Birthday]. A handler returns wall
// times. The library resolves each wall time to an instant ([calendar.Timezone.Resolve]).
// It stores one pending event for each user and type (or several, see [MultiSeries]), and
// delivers each event at its instant:
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
// An instant is a [time.Time] in UTC. A wall time, a [calendar.WallTime], is a date and a
// clock reading without a time zone. The database clock decides which events are due. The
// rules of time zones come from the zone data of the program. To embed zone data, import
// time/tzdata in the program, not in a library.
//
// # Names by subject
//
//   - Users: [User], [Profile], [ProfileChange], [DateOfBirth], [NewUser]; created, edited
//     and deleted by a [Planner] ([UserWithEvents], [UpdateUserResult], [DeleteOptions],
//     [DeleteResult]); many at once ([CreateUsersOptions],
//     [CreateUsersResult], [Refusal], [BackfillOptions], [BackfillResult]); their opt-outs
//     ([OptOut]); [calendar.QuietHours].
//   - Events: [Event] with [Status], [Series], [Origin], [OriginKind], [IdempotencyKey];
//     planned from an [Occurrence], ahead in a [PreviewResult]; selected by a [Spec] ([And], [Or], [Not], [ForUser],
//     [OfType], [InStatus], [InZone], [DueBetween], [Ready], [Overdue], [ForReason]).
//   - Handlers: [EventHandler], in a [Registry]; ready-made: [Birthday], [Anniversary],
//     [Recurring], [OneOff], [Reminder] with [Appointment]; with further methods:
//     [MultiSeries], [Follower] with [FollowUp], [Executor], [Timeouter], [Retrier] with
//     [RetryPolicy], [CatchUpper] with [CatchUp], [Mandatory]; [Execution] has the methods
//     of the last four.
//   - Running: [Scheduler], made with [Option] values; [Runner] ([RunOnceOptions],
//     [RunOnceResult]); [Health] with [Failure]; [Missed], the events that a downtime
//     delayed; [Limit], for one type of event.
//   - Delivery: [Deliverer] and [DelivererFunc] of a [Channel]; [Delivery]; [Middleware];
//     [Checks] of [Check] values, before the delivery.
//   - Operations: single events ([ScheduleAtOptions], [ScheduleAtResult]); [Operator],
//     which cancels, runs and requeues ([CancelOptions], [CancelResult], [RunNowOptions],
//     [RequeueOptions]) and pauses ([Pause]); Scheduler.Reconcile, for new zone rules ([ReconcileOptions],
//     [ReconcileResult], [ZoneReport]); [WithPrincipal], for the audit trail. Package ops has what
//     operators need beside a scheduler: statistics, and operations on many events.
//   - Observing: [Observer], [Hooks], [ObserverFunc]; [Notice] with [NoticeKind] and
//     [ReleaseCause] or [FailureCause]; [ClaimMeasurer] with [ClaimMeasurement]; [UpdateMeasurer] with
//     [UpdateMeasurement] and [UpdateKind].
//   - Errors: [*ValidationError] with [FieldError], [*InvalidDateOfBirthError],
//     [*NotFoundError], [*ExternalIDTakenError], [*OptimisticLockError],
//     [*InvalidStateTransitionError], [*SuccessorError], [*MaxRetriesExceededError],
//     [*NoDelivererError], [*UnsupportedEventTypeError].
//   - Storage: [Repository], composed of [UserRepository], [EventRepository],
//     [ClaimRepository], [MaintenanceRepository] and [Timekeeper].
//   - Arguments and results of a Repository: [Roster], [Edit], [UserSeries], [UsedKeys] of [UsedKey],
//     [CreateUserResult], [AddEventsResult], [ClaimRequest], [ClaimResult],
//     [ConfirmResult], [Settlement] with [Outcome], [SettleResult], [StalledSeries], [Page] with [Order],
//     [Cursor], [FindResult], [UserFilter], [FindUsersResult], [PruneResult], [ZoneBook],
//     [ZoneRecord]; [Setting].
package almanac
