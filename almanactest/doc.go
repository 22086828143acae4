// Package almanactest helps to test programs that use Almanac.
//
// [Rehearse] runs a program's schedule in the virtual time of a testing/synctest
// bubble: a year of birthdays takes milliseconds, and a [Recorder] tells what was
// delivered when, what failed and what was tried again. [PendingAt], [PendingEvent]
// and [FindEvents] say what is owed, and list what there is when that is wrong; they
// work on every repository.
//
// [NewRepository] returns a repository in memory, whose clock is a function. [User]
// and [Event] make valid values, changed by options that say what a test is about,
// and [Store] stores them as they are. [TestRepository] is the suite that says what
// every [almanac.Repository] must do.
package almanactest
