package shards

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/almanac-go/almanac"
)

// Pause pauses a lane in all schemas. The error is a [*PartialError] if some are perhaps not paused. The call can be repeated.
func (s *Store) Pause(ctx context.Context, p almanac.Pause) error {
	return s.everywhere(ctx, func(ctx context.Context, _ int, r almanac.Repository) error { return r.Pause(ctx, p) })
}

// Resume ends the pause of a lane and removes its breaker, in all schemas. The error is a [*PartialError] if some are perhaps still
// paused. The call can be repeated.
func (s *Store) Resume(ctx context.Context, lane string) error {
	return s.everywhere(ctx, func(ctx context.Context, _ int, r almanac.Repository) error { return r.Resume(ctx, lane) })
}

// Paused returns the lanes that are paused in a schema that answers. If the pauses of a lane differ, that of the first schema counts.
func (s *Store) Paused(ctx context.Context) ([]almanac.Pause, error) {
	answers, err := copies(ctx, s, func(ctx context.Context, r almanac.Repository) ([]almanac.Pause, error) { return r.Paused(ctx) })
	return firsts(answers, func(p almanac.Pause) string { return p.Lane }), err
}

// PutLane divides the limits of a lane among the schemas, by the number of their slots, and stores the parts. Burst, Places and Daily
// must be at least the number of schemas that have slots. Otherwise the error is an [*almanac.ValidationError] that names these
// fields. It is a [*PartialError] if some schemas perhaps have their old part. The call can be repeated.
func (s *Store) PutLane(ctx context.Context, l almanac.Lane) error {
	parts, err := s.shares(l)
	if err != nil {
		return err
	}
	return s.everywhere(ctx, func(ctx context.Context, schema int, r almanac.Repository) error {
		return r.PutLane(ctx, parts[schema])
	})
}

// shares divides the limits of a lane among the schemas. The parts add up to the limits. A schema without slots has no users, and
// gets none.
func (s *Store) shares(l almanac.Lane) ([]almanac.Lane, error) {
	parts, slots := make([]almanac.Lane, len(s.names)), make([]int, len(s.names))
	for _, schema := range s.directory.Slots {
		slots[schema]++
	}
	owners := len(s.names) - len(slices.DeleteFunc(slices.Clone(slots), func(n int) bool { return n > 0 }))
	var bad []almanac.FieldError
	divide := func(name string, of func(*almanac.Lane) *int) {
		total := *of(&l)
		if 0 < total && total < owners {
			bad = append(bad, almanac.FieldError{Field: name, Problem: fmt.Sprintf("is %d, and less than the %d schemas that share it", total, owners)})
		}
		if total == 0 {
			return
		}
		rest, before := int64(total-owners), int64(0) // each schema has one, and a part of the rest
		for i, n := range slots {
			if n > 0 {
				*of(&parts[i]) = 1 + int(rest*(before+int64(n))/Slots-rest*before/Slots)
			}
			before += int64(n)
		}
	}
	divide("burst", func(l *almanac.Lane) *int { return &l.Burst })
	divide("places", func(l *almanac.Lane) *int { return &l.Places })
	divide("daily", func(l *almanac.Lane) *int { return &l.Daily })
	for i, n := range slots {
		parts[i].Name, parts[i].Weight, parts[i].Rate = l.Name, l.Weight, l.Rate*float64(n)/Slots
		if _, err := parts[i].Checked(); n > 0 && l.Rate > 0 && parts[i].Rate < l.Rate && err != nil && bad == nil {
			bad = append(bad, almanac.FieldError{Field: "rate", Problem: fmt.Sprintf("is too low for the %d schemas that share it", owners)})
		}
	}
	if bad != nil {
		return nil, &almanac.ValidationError{Fields: bad}
	}
	return parts, nil
}

// Lanes adds the limits of the schemas. If a schema does not answer, it returns those of the others, and a [*PartialError].
func (s *Store) Lanes(ctx context.Context) ([]almanac.Lane, error) {
	answers, err := all(ctx, s, func(ctx context.Context, r almanac.Repository) ([]almanac.Lane, error) { return r.Lanes(ctx) })
	lanes := make(table[string, almanac.Lane])
	for _, one := range joined(answers) {
		lanes.add(one.Name, one, added)
	}
	return lanes.sorted(func(a, b almanac.Lane) int { return cmp.Compare(a.Name, b.Name) }), err
}

// added adds the limits of two parts of a lane. Parts of a rate such as 0.3 add up to a number that is not quite the rate.
func added(a, b almanac.Lane) almanac.Lane {
	rate, _ := strconv.ParseFloat(strconv.FormatFloat(a.Rate+b.Rate, 'g', 12, 64), 64)
	return almanac.Lane{
		Name: a.Name, Rate: rate, Burst: a.Burst + b.Burst, Places: a.Places + b.Places, Daily: a.Daily + b.Daily,
		Weight: max(a.Weight, b.Weight),
	}
}

// Report changes the breaker of a lane in the first schema that answers, and stores the result in the others. A schema that
// does not answer keeps its breaker until the next report. The call fails if no schema answers.
func (s *Store) Report(ctx context.Context, lane string, change func(almanac.Breaker, time.Time) almanac.Breaker) (is almanac.Breaker, err error) {
	if s.bound >= 0 && len(s.names) > 1 {
		return is, &BoundError{s.names[(s.bound+1)%len(s.names)], s.names[s.bound]}
	}
	failed, first := s.failures(), -1
	for i, one := range s.schemas {
		is, err = quicklyIn(ctx, s, i, claiming, func(ctx context.Context) (almanac.Breaker, error) { return one.Repository.Report(ctx, lane, change) })
		if first = i; err == nil {
			break
		}
		if isRefusal(err) || ctx.Err() != nil {
			return is, err
		}
		failed.add(i, err)
	}
	if err != nil {
		return is, failed.partial()
	}
	_, _ = allIndexed(ctx, s, func(ctx context.Context, schema int) (none struct{}, err error) { // OnError is called with errors
		if schema <= first {
			return none, nil
		}
		_, err = s.schemas[schema].Repository.Report(ctx, lane, func(almanac.Breaker, time.Time) almanac.Breaker { return is })
		return none, err
	})
	return is, nil
}
