// Package ops has what operators need and no scheduler does: numbers about what is stored
// ([Statistics]), operations on many events ([Operate], [RollOut]), imports ([PutUsers]), what the
// next months will bring ([Rehearse]), and why a user got an event or none ([Why]).
//
//	done, err := ops.Operate(ctx, scheduler, ops.Cancel, almanac.OfType("BIRTHDAY"),
//		ops.OperateOptions{DryRun: true})
//
// A postgres.Store and the Repository of package almanactest are Statistics. The suite
// conformance.TestStatistics defines what every implementation must do.
//
// # Names by subject
//
//   - Numbers: [Statistics] returns [Stats], with [TypeCount], [ZoneCount] and
//     [QuarterCount]; [Retries] of [RetryGroup]; a [DueCountsResult] for a
//     [DueCountsRequest]; and each [Lease]. A [Count] has a [CountKind].
//   - Operations: [Operate] applies an [Operation] to events ([OperateOptions],
//     [OperateResult]). [RollOut] applies a changed rule to all users ([RollOutOptions],
//     [RollOutResult], with [RollOutCounts] and each [RollOutExample]).
//   - Rehearsals: [CopyUsers] ([CopyUsersOptions], [CopyUsersResult]) copies users, and [Rehearse]
//     ([RehearseOptions], [RehearseResult]) counts the events that they will have: by a
//     [RehearseCount] and a [RehearseDay], with [RehearseTotals], each [RehearsePeak] with its
//     [RehearseMost], and each [RehearseRefusal]. [CompareRehearsals] returns a [RehearseDifference]
//     of [RehearseTypeDifference] and [RehearseDayDifference].
//   - Imports: [PutUsers] creates and changes users ([PutUsersOptions], [PutUsersResult]).
//   - Filters as operators type them: [FilterText], [ParseInstant], [TypeProblem].
//   - Explanations: [Why] answers a [WhyRequest] by a [WhyResult] ([WhyOptions], [WhyAnswer], [WhyCode],
//     [WhyEvent], [WhyPause], [WhyNext]).
//   - The audit trail: [AuditStep].
package ops
