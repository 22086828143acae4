// Package broadcast sends one event to each of many users, at a wall time of their day or at one instant.
//
//	sender, err := broadcast.New(scheduler, store)
//	started, err := sender.Start(ctx, broadcast.Broadcast{
//		Name: "autumn-sale", Type: "NEWS", At: at, Passed: broadcast.NextDay,
//	})
//	err = sender.Run(ctx, broadcast.RunOptions{}) // beside Scheduler.Run, in any number of programs
//
// A broadcast is rows in the database. Start stores what it is, and each Run stores its events page by page,
// those that are due first. When a program stops or dies, another one continues where it was.
//
// The name of a broadcast is the occurrence key of its events. So each user gets one event of it at most, with one
// idempotency key, however often a page is repeated. A name is used for ever, also after Delete.
//
// The events are in a lane of their own, which is in the lane of their type: TYPE/NAME (see [Broadcast.Lane]). Set its
// rate and its weight by [almanac.Operator].SetLane, and pause it by Pause. Stop pauses it too, and cancels what
// is pending. See docs/broadcasts.md and docs/adr/0078-broadcasts.md.
//
// # Names by subject
//
//   - What is sent: a [Broadcast], to an [Audience]; [Passed] says what holds where the time has passed.
//   - The calls: [New] returns a [Sender] ([RunOptions], [StartResult], [AddUsersResult], [PreviewResult]).
//   - What is stored: a [Status] with its [State] and each [Step] ([Action]); each [Zone] with its [Counts];
//     [Progress] of each [ZoneProgress].
//   - Errors: [ConflictError].
//   - Storage: a [Store] gives each [Task] to one program at a time. [ZonesOf] plans the zones.
package broadcast
