// Package shards stores users in several complete Almanac schemas, on one or more servers, as one
// [almanac.Repository].
//
// A [Directory] assigns each of 1,024 slots to a schema, and a user belongs to the slot [SlotOf] the user's id.
// [New] returns a [Store] over the schemas. A scheduler on it plans, finds, counts and delivers as on one schema:
//
//	store, err := shards.New(shards.Options{Directory: directory, Schemas: schemas})
//	scheduler, err := almanac.NewScheduler(store, registry)
//
// Calls about one user or one event use one schema. Other reads ask all schemas at once and merge their
// results. If a schema does not answer, they return what the others have, together with a [*PartialError].
//
// External ids are unique over all schemas by [Reservations].
//
// The limits of a lane are divided among the schemas. So they hold over all of them, and a lane whose events are all in one schema
// has only a part. See docs/shards.md, docs/adr/0084-shards.md and docs/adr/0086-lanes-and-runs-over-schemas.md.
//
// [Move] moves a schema to another server while programs use it. See docs/moving.md.
package shards
