// Package almanactest helps to test programs that use Almanac.
//
// [Rehearse] runs a program's schedule in the virtual time of a testing/synctest bubble, so that a
// year of birthdays takes milliseconds. A [Recorder] records what was delivered when, what failed
// and what was tried again. [PendingAt], [PendingEvent] and [FindEvents] check stored events, and
// list the events that there are when the check fails. They work with every repository.
//
// [NewRepository] returns an in-memory repository whose clock is a function. [User] and [Event] make
// valid values, with options for the properties that a test is about. [Store] stores events in any state.
//
// Package almanactest/conformance has the suite that every [almanac.Repository] must pass.
package almanactest
