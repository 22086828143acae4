// Package almanactest helps to test programs that use Almanac.
//
// [NewRepository] returns a repository in memory. Its clock is a function, so that
// inside a testing/synctest bubble a year of birthdays runs in the time that the
// deliveries take. [User] and [Event] make valid values, changed by options that
// say what a test is about. [TestRepository] is the suite that says what every
// [almanac.Repository] must do.
package almanactest
