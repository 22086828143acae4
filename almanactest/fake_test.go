package almanactest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// fakeTB is a testing.TB that may fail, and stores its failure message.
type fakeTB struct {
	testing.TB
	ctx context.Context
	log strings.Builder
}

// fatal is the panic with which a fakeTB ends at once.
type fatal struct{}

func (f *fakeTB) Helper()                  {}
func (f *fakeTB) Context() context.Context { return f.ctx }

func (f *fakeTB) Fatal(args ...any) {
	fmt.Fprintln(&f.log, args...)
	panic(fatal{})
}

func (f *fakeTB) Fatalf(format string, args ...any) {
	fmt.Fprintf(&f.log, format+"\n", args...)
	panic(fatal{})
}

// failure runs a part of a test that must fail at once, and returns its message.
func failure(t *testing.T, part func(testing.TB)) (said string) {
	t.Helper()
	f := &fakeTB{ctx: t.Context()}
	defer func() {
		if cause := recover(); cause != (fatal{}) {
			t.Errorf("ended with %v, want a failure at once", cause)
		}
		said = f.log.String()
	}()
	part(f)
	return ""
}

// fails fails the test unless a part of it fails with the words.
func fails(t *testing.T, words string, part func(testing.TB)) {
	t.Helper()
	if said := failure(t, part); !strings.Contains(said, words) {
		t.Errorf("failed with %q, want %q in it", said, words)
	}
}
