package isolate_test

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/almanac-go/almanac/internal/isolate"
)

// Ten calls of one type that do not return have further calls of that type refused, of any user, until
// one returns. Calls of other types are made.
func TestRun_refusesATypeWithTenBlockedCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		group, end := isolate.NewGroup(time.Second), make(chan struct{})
		calls := func(eventType string, from, n int, block bool) (made int) {
			for _, ok := range isolate.Run(group, isolate.Calls[bool]{
				N:    n,
				Name: func(i int) isolate.Name { return isolate.Name{Type: eventType, User: [16]byte{byte(from + i + 1)}} },
				Call: func(int) bool {
					if block {
						<-end
					}
					return true
				},
				Lost: func(int, error) bool { return false },
			}) {
				if ok {
					made++
				}
			}
			return made
		}
		expect := func(what string, got, want int) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %d, want %d", what, got, want)
			}
		}
		expect("nine that block", calls("SLOW", 0, isolate.MaxBlocked-1, true), 0)
		expect("another user of the type", calls("SLOW", 50, 1, false), 1)
		expect("a user whose call is blocked", calls("SLOW", 0, 1, false), 0)
		expect("the tenth that blocks", calls("SLOW", 20, 1, true), 0)
		expect("another user of the type", calls("SLOW", 50, 1, false), 0)
		expect("another type", calls("FINE", 0, 1, false), 1)
		expect("blocked", group.Blocked(), isolate.MaxBlocked)
		end <- struct{}{}
		synctest.Wait()
		expect("another user of the type, when one has returned", calls("SLOW", 50, 1, false), 1)
		close(end)
		synctest.Wait()
		expect("blocked at the end", group.Blocked(), 0)
	})
}

// A thread makes calls in one goroutine. After a call that panicked, ended the goroutine or was given up, another one makes the
// next calls.
func TestThread_goesOnAfterALostCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		group, thread, end := isolate.NewGroup(time.Second), new(isolate.Thread), make(chan struct{})
		call := func(call func()) (ok bool) {
			return isolate.Run(group, isolate.Calls[bool]{
				N:      1,
				Thread: thread,
				Name:   func(int) isolate.Name { return isolate.Name{Type: "ONE"} },
				Call: func(int) bool {
					call()
					return true
				},
				Lost: func(int, error) bool { return false },
			})[0]
		}
		for name, lost := range map[string]func(){"panic": func() { panic("lost") }, "exit": runtime.Goexit, "block": func() { <-end }} {
			if !call(func() {}) || call(lost) || !call(func() {}) || !call(func() {}) {
				t.Errorf("%s: the calls before and after it have a result, and it has none", name)
			}
		}
		thread.Close()
		close(end)
		synctest.Wait()
		if group.Blocked() != 0 {
			t.Errorf("%d are blocked at the end", group.Blocked())
		}
	})
}
