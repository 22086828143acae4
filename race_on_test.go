//go:build race

package almanac_test

// raceDetector says whether the race detector watches.
const raceDetector = true
