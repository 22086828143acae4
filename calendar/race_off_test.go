//go:build !race

package calendar_test

// raceDetector says whether the race detector watches.
const raceDetector = false
