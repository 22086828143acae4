package almanac_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/almanac-go/almanac"
)

// nowhere is a repository that nobody may ask anything.
type nowhere struct{ almanac.Repository }

// optionCase is a setting that is good and one that is not.
type optionCase struct {
	good, bad almanac.Option // no bad setting exists where bad is nil
	complaint string
}

func optionCases() map[string]optionCase {
	pass := func(almanac.Event, time.Time) error { return nil }
	return map[string]optionCase{
		"WithWorkers":     {almanac.WithWorkers(1), almanac.WithWorkers(0), "0 workers"},
		"WithLease":       {almanac.WithLease(3 * time.Second), almanac.WithLease(3*time.Second - 1), "lease of 2.999999999s is under three seconds"},
		"WithDrain":       {almanac.WithDrain(0), almanac.WithDrain(-1), "drain of -1ns is negative"},
		"WithPoll":        {almanac.WithPoll(1), almanac.WithPoll(0), "poll of 0s is not positive"},
		"WithLookAhead":   {almanac.WithLookAhead(20 * time.Second), almanac.WithLookAhead(-1), "look-ahead of -1ns is not between 0 and a third of the lease"},
		"WithSweep":       {almanac.WithSweep(1), almanac.WithSweep(0), "sweep of 0s is not positive"},
		"WithMissedGrace": {almanac.WithMissedGrace(0), almanac.WithMissedGrace(-1), "missed grace of -1ns is negative"},
		"WithCrashLimit":  {almanac.WithCrashLimit(1), almanac.WithCrashLimit(0), "crash limit of 0"},
		"WithZoneCheck":   {almanac.WithZoneCheck(1), almanac.WithZoneCheck(0), "zone check of 0s is not positive"},
		"WithRetention":   {almanac.WithRetention(0), almanac.WithRetention(-1), "retention of -1ns is negative"},
		"WithChecks":      {almanac.WithChecks(pass), almanac.WithChecks(pass, nil), "check 1 is nil"},
		"WithLimit":       {nil, almanac.WithLimit("NONE", almanac.Limit{}), `limit for event type "NONE", which has no handler`},
		"WithMiddleware":  {almanac.WithMiddleware(), almanac.WithMiddleware(nil), "middleware 0 is nil"},
		"WithDeliverer":   {almanac.WithDeliverer("sms", almanac.DelivererFunc(nil)), almanac.WithDeliverer("sms", nil), `deliverer of channel "sms" is nil`},
		"WithObserver":    {almanac.WithObserver(almanac.Hooks{}), almanac.WithObserver(nil), "observer 0 is nil"},
		"WithLogger":      {nil, almanac.WithLogger(nil), "logger is nil"},
	}
}

func TestNewSchedulerJudgesEachSetting(t *testing.T) {
	t.Parallel()

	registry, err := almanac.NewRegistry()
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range optionCases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			if tt.good != nil {
				if s, err := almanac.NewScheduler(nowhere{}, registry, tt.good); err != nil || s == nil {
					t.Errorf("the good setting: %v, %v", s, err)
				}
			}
			if s, err := almanac.NewScheduler(nowhere{}, registry, tt.bad); err == nil || s != nil || err.Error() != "almanac: "+tt.complaint {
				t.Errorf("the bad setting: %v, %v; want %q", s, err, tt.complaint)
			}
		})
	}
}

func TestNewSchedulerReportsEveryComplaintAtOnce(t *testing.T) {
	t.Parallel()

	want := []string{"repository is nil", "registry is nil"}
	var options []almanac.Option
	for _, tt := range optionCases() {
		want, options = append(want, tt.complaint), append(options, tt.bad)
	}

	s, err := almanac.NewScheduler(nil, nil, options...)

	if err == nil || s != nil {
		t.Fatalf("NewScheduler = %v, %v; want it refused", s, err)
	}
	said := strings.Split(err.Error(), "\n")
	for i := range said {
		said[i] = strings.TrimPrefix(said[i], "almanac: ")
	}
	slices.Sort(said)
	slices.Sort(want)
	if !slices.Equal(said, want) {
		t.Errorf("complaints %q\nwant %q", said, want)
	}
}

// A new option cannot be forgotten here: the file that declares them is read.
func TestEveryOptionHasACase(t *testing.T) {
	t.Parallel()

	file, err := parser.ParseFile(token.NewFileSet(), "option.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var declared []string
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "With") {
			declared = append(declared, f.Name.Name)
		}
	}
	slices.Sort(declared)
	if tested := slices.Sorted(maps.Keys(optionCases())); !slices.Equal(tested, declared) {
		t.Errorf("cases for %q, but the options are %q", tested, declared)
	}
}
