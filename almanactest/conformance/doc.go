// Package conformance checks that a store does what [almanac.Repository] promises.
//
// [TestRepository] runs the suite. A test of a store calls it with a function that opens an empty store:
//
//	func TestStore(t *testing.T) {
//		conformance.TestRepository(t, func(t *testing.T) almanac.Repository { return open(t) })
//	}
//
// [TestStatistics] does the same for ops.Statistics.
//
// Each file has the cases of one subject. The name of a case begins with the method that it
// calls, or with the subject, such as "Claim/takes due events, oldest first".
package conformance
