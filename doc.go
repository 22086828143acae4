// Package almanac delivers events at a local time of day, for millions of users, from
// PostgreSQL. The typical event is a birthday greeting at 09:00 in the user's own time
// zone. Processes may crash at any moment: no event is lost, and each event ends once.
//
// # How it works
//
// The host application gives the library users ([Profile]) and one handler for each type
// of event ([EventHandler]), such as the ready-made [Birthday]. A handler returns wall
// times. The library resolves each wall time to an instant ([calendar.Timezone.Resolve]).
// It stores one pending event for each user and type, and delivers the event at its
// instant:
//
//		plan ──▶ store ──▶ claim ──▶ check ──▶ deliver ──▶ settle ──▶ notify
//		  ▲                                                  │
//		  └───────────── the next occurrence ◀───────────────┘
//
//	  - plan: the handler returns the next occurrence, and [NewEvent] makes an event of it;
//	  - store: the user and the event are stored in one transaction, which can be a
//	    transaction of the host (see [Scheduler].With);
//	  - claim: one statement takes due events for a limited time, the lease; two processes
//	    never take the same event;
//	  - check: the validation chain ([Checks]) can refuse the event;
//	  - deliver: the [Deliverer] of the event's channel delivers it, for example package
//	    webhook;
//	  - settle: the outcome and the next occurrence are stored in one transaction, so the
//	    user always has a next birthday in the database;
//	  - notify: observers are notified of the committed changes.
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
// Users: [Profile], [ProfileChange], [DateOfBirth] and [NewUser] make and change a [User].
// [Planner] creates, edits and deletes users, with [UserWithEvents], [UpdateUserResult],
// [DeleteOptions] and [DeleteResult]. [BulkPlanner] does it for many, with [CreateUsersOptions],
// [CreateUsersResult], [BackfillOptions], [BackfillResult] and [Refusal]. [OptOuter] stores
// what a user refuses ([OptOut]). Late events wait in the [calendar.QuietHours] of a user.
//
// Events: an [Event] has a [Status], a [Series], an [Origin] with an [OriginKind], and an
// [IdempotencyKey]. An [Occurrence] is what it is planned from. A [Spec] selects events:
// [And], [Or], [Not], [ForUser], [OfType], [InStatus], [InZone], [DueBetween], [Ready], [Overdue],
// [ForReason].
//
// Handlers: an [EventHandler] is in a [Registry]. Ready-made are [Birthday], [Anniversary],
// [Recurring], [OneOff], and [Reminder] with [Appointment]. A handler can also be a [MultiSeries],
// a [Follower] with [FollowUp], an [Executor], a [Timeouter], a [Retrier] with [RetryPolicy], a
// [CatchUpper] with [CatchUp], and [Mandatory]. [Execution] has the last four.
//
// Running: a [Scheduler] is made with [Option] values, and [Runner] runs it: Run, and RunOnce with
// [RunOnceOptions] and [RunOnceResult]. [Health] reports each [Failure]. [Missed] counts the events
// that a downtime delayed. A [Limit] bounds one type of event.
//
// Delivery: a [Deliverer] or [DelivererFunc] of a [Channel] takes a [Delivery], behind
// [Middleware]. [Checks], each a [Check], can refuse the event before.
//
// Operations: [OneOffPlanner] plans one event at a wall time ([ScheduleAtOptions],
// [ScheduleAtResult]). [Operator] cancels, runs and requeues ([CancelOptions], [CancelResult],
// [RunNowOptions], [RequeueOptions], [Operation], [OperateOptions], [OperateResult]). [Pauser]
// pauses a type ([Pause]). [WithPrincipal] names who asks, for each [AuditStep] of the audit trail.
// Scheduler.Reconcile follows new zone rules ([ReconcileOptions], [ReconcileResult], [ZoneReport]).
//
// Observing: an [Observer], such as [Hooks] or [ObserverFunc], is notified by a [Notice] of a
// [NoticeKind], with a [ReleaseCause]. [ClaimMeasurer] and [UpdateMeasurer] take a
// [ClaimMeasurement] and an [UpdateMeasurement] of an [UpdateKind].
//
// Errors: [*ValidationError] with each [FieldError], [*InvalidDateOfBirthError], [*NotFoundError],
// [*ExternalIDTakenError], [*OptimisticLockError], [*InvalidStateTransitionError],
// [*SuccessorError], [*MaxRetriesExceededError], [*NoDelivererError] and
// [*UnsupportedEventTypeError].
//
// Storage: a [Repository] is composed of [UserRepository], [UserFinder], [EventRepository],
// [BackfillRepository], [ClaimRepository], [Confirmer], [Leaser], [SuccessionRepository],
// [RecoveryRepository], [RetentionRepository], [ZoneRepository], [PauseRepository], [Timekeeper],
// [StatsRepository], [Listener], [Verifier] and [Transactional]. What passes between it and the scheduler: [Roster],
// [Edit], [UserSeries], [CreateUserResult], [AddEventsResult], [ClaimRequest], [ClaimResult],
// [ConfirmResult], [Settlement] with [Outcome], [SettleResult], [Page] with its [Order], [Cursor],
// [FindResult], [UserFilter], [FindUsersResult], [PruneResult], [ZoneBook] and [ZoneRecord].
// For operators there are [Stats], with [Count] of a [CountKind], [TypeCount], [ZoneCount] and
// [WaveCount], and each [Lease].
package almanac
