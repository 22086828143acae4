package shards

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/backoff"
)

func errUnsupported(what string) error {
	return fmt.Errorf("shards: %s: %w", what, errors.ErrUnsupported)
}

// Now returns the time of the first schema of the directory that answers.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	answers, err := copies(ctx, s, func(ctx context.Context, r almanac.Repository) (time.Time, error) { return r.Now(ctx) })
	if err != nil {
		return time.Time{}, err
	}
	return answers[0].is, nil
}

// Verify checks all schemas. A schema that does not answer is left out, unless none does. One that lacks a migration is the error.
func (s *Store) Verify(ctx context.Context) error {
	answers, err := copies(ctx, s, func(ctx context.Context, r almanac.Repository) (error, error) {
		err := r.Verify(ctx)
		if errors.Is(err, almanac.ErrOutdated) {
			return err, nil
		}
		return nil, err
	})
	for _, one := range answers {
		if one.is != nil {
			return fmt.Errorf("shards: schema %s: %w", s.names[one.schema], one.is)
		}
	}
	return err
}

// again has the waits after a schema's Listen has failed.
var again = backoff.Exponential{First: 100 * time.Millisecond, Max: time.Minute, Factor: 2, Jitter: 0.2}

// Listen receives the hints of all schemas. It listens to a schema again after an error, so it returns when ctx is done, or when
// no schema has hints.
func (s *Store) Listen(ctx context.Context, wake func()) error {
	var mu sync.Mutex
	one := func() {
		mu.Lock()
		defer mu.Unlock()
		wake()
	}
	var wg sync.WaitGroup
	for i := range s.names {
		wg.Go(func() { s.listen(ctx, i, one) })
	}
	wg.Wait()
	return nil
}

func (s *Store) listen(ctx context.Context, schema int, wake func()) {
	r, err := s.at(schema)
	if err != nil {
		return
	}
	for tries := 1; ; tries++ {
		err := r.Listen(ctx, func() {
			tries = 0
			wake()
		})
		if err == nil || ctx.Err() != nil {
			return
		}
		s.failures().add(schema, err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(again.Delay(max(tries, 1), 0.5)):
		}
	}
}

// PutSetting stores a setting in all schemas. The error is a [*PartialError] if some have perhaps not stored it. The call can be repeated.
func (s *Store) PutSetting(ctx context.Context, one almanac.Setting) error {
	return s.everywhere(ctx, func(ctx context.Context, _ int, r almanac.Repository) error { return r.PutSetting(ctx, one) })
}

// Settings returns the settings of the schemas that answer. If they differ, that of the first schema counts.
func (s *Store) Settings(ctx context.Context) ([]almanac.Setting, error) {
	answers, err := copies(ctx, s, func(ctx context.Context, r almanac.Repository) ([]almanac.Setting, error) { return r.Settings(ctx) })
	return firsts(answers, func(one almanac.Setting) string { return one.Name }), err
}

// firsts returns the first element with each key, in the order of the keys.
func firsts[T any](answers []answer[[]T], key func(T) string) []T {
	return chosen(answers, key, func(T, T) bool { return false })
}

// chosen returns an element with each key, in the order of the keys: the first one, or a later one that is better.
func chosen[T any](answers []answer[[]T], key func(T) string, better func(is, than T) bool) (list []T) {
	by := make(map[string]T)
	for _, one := range joined(answers) {
		if was, is := by[key(one)]; !is || better(one, was) {
			by[key(one)] = one
		}
	}
	for _, k := range slices.Sorted(maps.Keys(by)) {
		list = append(list, by[k])
	}
	return list
}

// Stalled merges the series of the schemas. If a schema does not answer, it also returns a [*PartialError]. A user asks one schema.
func (s *Store) Stalled(ctx context.Context, userID uuid.UUID, limit int) ([]almanac.StalledSeries, error) {
	if userID != uuid.Nil {
		return ask(s, s.of(userID), func(r almanac.Repository) ([]almanac.StalledSeries, error) { return r.Stalled(ctx, userID, limit) })
	}
	limit, err := almanac.MissedLimit(limit)
	if err != nil {
		return nil, err
	}
	answers, err := all(ctx, s, func(ctx context.Context, r almanac.Repository) ([]almanac.StalledSeries, error) {
		return r.Stalled(ctx, userID, limit)
	})
	list := joined(answers)
	slices.SortStableFunc(list, func(a, b almanac.StalledSeries) int {
		return cmp.Or(cmp.Compare(a.Series.Type, b.Series.Type), a.RetryAt.Compare(b.RetryAt), bytes.Compare(a.UserID[:], b.UserID[:]), cmp.Compare(a.Series.Name, b.Series.Name))
	})
	return list[:min(limit, len(list))], err
}

// Consulted returns the values of all schemas. If a schema does not answer, it also returns a [*PartialError].
func (s *Store) Consulted(ctx context.Context, eventType string, releases map[string]string) ([]calendar.Consulted, error) {
	answers, err := all(ctx, s, func(ctx context.Context, r almanac.Repository) ([]calendar.Consulted, error) {
		return r.Consulted(ctx, eventType, releases)
	})
	return firsts(answers, calendar.Consulted.String), err
}

// ZoneRules returns the rules of the schemas that answer. If an edit did not reach all schemas, it returns the older rules, so
// that the edit is repeated. It returns the marks of all of these schemas.
func (s *Store) ZoneRules(ctx context.Context) (almanac.ZoneBook, error) {
	books, err := copies(ctx, s, func(ctx context.Context, r almanac.Repository) (almanac.ZoneBook, error) { return r.ZoneRules(ctx) })
	if err != nil {
		return almanac.ZoneBook{}, err
	}
	return mergedBooks(books), nil
}

// EditZoneRules locks the zone rules of all schemas, in the order of the directory, and then stores what edit returns in all of them.
// It changes nothing if a schema does not answer. If a commit fails, the rules of some schemas are perhaps not stored; the
// call can be repeated.
func (s *Store) EditZoneRules(ctx context.Context, edit func(almanac.ZoneBook) (almanac.ZoneBook, error)) error {
	return s.editRules(ctx, nil, func(books []answer[almanac.ZoneBook]) (almanac.ZoneBook, error) { return edit(mergedBooks(books)) })
}

// editRules locks the rules of the schemas after those of books, and then calls edit.
func (s *Store) editRules(ctx context.Context, books []answer[almanac.ZoneBook], edit func([]answer[almanac.ZoneBook]) (almanac.ZoneBook, error)) error {
	schema := len(books)
	r, err := s.at(schema)
	if err != nil {
		return err
	}
	var inner error // of edit, or of a later schema
	err = r.EditZoneRules(ctx, func(book almanac.ZoneBook) (stored almanac.ZoneBook, _ error) {
		locked := append(slices.Clip(books), answer[almanac.ZoneBook]{schema, book})
		if schema == len(s.names)-1 {
			stored, inner = edit(locked)
			return stored, inner
		}
		inner = s.editRules(ctx, locked, func(books []answer[almanac.ZoneBook]) (_ almanac.ZoneBook, err error) {
			stored, err = edit(books)
			return stored, err
		})
		return stored, inner
	})
	if err != nil && inner == nil {
		return fmt.Errorf("shards: schema %s: %w", s.names[schema], err)
	}
	return err
}

// mergedBooks returns what several schemas store as one.
func mergedBooks(books []answer[almanac.ZoneBook]) almanac.ZoneBook {
	return almanac.ZoneBook{
		Rules: chosen(lists(books, func(b almanac.ZoneBook) []almanac.ZoneRecord { return b.Rules }),
			func(z almanac.ZoneRecord) string { return z.Zone },
			func(is, than almanac.ZoneRecord) bool { return than.NewerThan(is.ZoneRules) }),
		Marks: firsts(lists(books, func(b almanac.ZoneBook) []calendar.ZoneRules { return b.Marks }),
			func(z calendar.ZoneRules) string { return z.Zone + "\x00" + fmt.Sprint(z) }),
		Calendars: chosen(lists(books, func(b almanac.ZoneBook) []calendar.DayRules { return b.Calendars }),
			func(d calendar.DayRules) string { return d.Name },
			func(is, than calendar.DayRules) bool { return is.Release < than.Release }),
		Quarantines: firsts(lists(books, func(b almanac.ZoneBook) []almanac.Quarantine { return b.Quarantines }),
			func(q almanac.Quarantine) string { return fmt.Sprint(q.Calendar) + "\x00" + q.Name }), // "false" first, which are the zones
		Settings: firsts(lists(books, func(b almanac.ZoneBook) []almanac.Setting { return b.Settings }),
			func(one almanac.Setting) string { return one.Name }),
		Now: books[0].is.Now,
	}
}

// lists returns a list of each book.
func lists[T any](books []answer[almanac.ZoneBook], of func(almanac.ZoneBook) []T) []answer[[]T] {
	all := make([]answer[[]T], len(books))
	for i, b := range books {
		all[i] = answer[[]T]{b.schema, of(b.is)}
	}
	return all
}
