package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
)

// importing is an import that runs. It reads a file in stretches, and keeps only the lines
// of one stretch in memory.
type importing struct {
	name  string // of the file
	rows  rows
	most  int  // bad rows after which it gives up
	quiet bool // refusals are kept, and not reported at once
	judging
	progress *progress
	// stretch is how many rows are enrolled together. Between two stretches nothing is
	// on its way, for a moment, so it should be many batches.
	stretch int

	scheduler almanac.Scheduler
	now       time.Time // the repository's, at the beginning
	done      tally
	refusals  []refusal
}

// judging says how the rows of a file are judged.
type judging struct {
	rules   []almanac.Option // by which profiles are judged
	unknown string           // the date of birth that means none; empty for none
	dry     bool             // nothing is stored
	update  bool             // users who exist are changed; a row states what it has
}

// tally counts rows by what became of them.
type tally struct {
	Created   int `json:"created"`
	Changed   int `json:"changed"`
	Unchanged int `json:"unchanged"` // compared with the row
	Existing  int `json:"existing"`  // not compared
	Refused   int `json:"refused"`
	Optional  int `json:"withOptionalProfile"` // the refused rows that --optional-profile accepts
	Events    int `json:"events"`              // those that were added
	Moved     int `json:"moved"`
	Removed   int `json:"removed"` // also those that were cancelled
}

func (t tally) rows() int { return t.Created + t.Changed + t.Unchanged + t.Existing + t.Refused }

// plus adds what an enrolment has come to.
func (t tally) plus(e almanac.CreateUsersResult) tally {
	t.Created, t.Events, t.Existing, t.Refused = t.Created+e.Created, t.Events+e.Events, t.Existing+e.Existing, t.Refused+len(e.Refused)
	return t
}

// plusPut adds what a page of changes has come to.
func (t tally) plusPut(p ops.PutUsersResult) tally {
	t.Created, t.Changed, t.Unchanged, t.Refused = t.Created+p.Created, t.Changed+p.Changed, t.Unchanged+p.Unchanged, t.Refused+len(p.Refused)
	t.Events, t.Moved, t.Removed = t.Events+p.Added, t.Moved+p.Moved, t.Removed+p.Removed
	return t
}

// refusal is a row that could not be stored.
type refusal struct {
	Line     int       `json:"line"`
	Problems []problem `json:"problems"`
	optional bool      // --optional-profile accepts the row
}

func (r refusal) String() string {
	return fmt.Sprintf("%d: %s", r.Line, strings.Join(mapped(r.Problems, func(p problem) string { return p.String() }), "; "))
}

// run enrols the users of the file.
func (i *importing) run(ctx context.Context, repository almanac.Repository, registry almanac.Registry, options ...almanac.Option) (err error) {
	if i.scheduler, err = almanac.NewScheduler(repository, registry, quietly(options)...); err != nil {
		return err
	}
	if i.now, err = repository.Now(ctx); err != nil {
		return err
	}
	for more := true; more && err == nil; {
		more, err = i.enrolStretch(ctx)
	}
	return err
}

// enrolStretch enrols the next users, and reports whether there may be more.
func (i *importing) enrolStretch(ctx context.Context) (more bool, err error) {
	s := &stretchOfRows{importing: i}
	before := i.done
	done, refused, err := s.enrol(ctx, before)
	for _, r := range refused {
		s.refused = append(s.refused, refusal{s.lines[r.Position], problemsOf(r.Err), false})
	}
	slices.SortFunc(s.refused, func(a, b refusal) int { return a.Line - b.Line })
	if !s.update {
		// What a handler refuses is known when further rows are on their way already, and how many is chance.
		s.refused = s.refused[:min(len(s.refused), i.most-before.Refused)]
	}
	i.done = done
	i.done.Refused = before.Refused + len(s.refused)
	for _, r := range s.refused {
		if r.optional {
			i.done.Optional++
		}
		if i.quiet {
			i.refusals = append(i.refusals, r)
			continue
		}
		i.progress.say(i.name + ":" + r.String())
	}
	i.progress.update(i.done)
	switch {
	case err != nil:
		return false, err
	case i.done.Refused >= i.most:
		return false, fmt.Errorf("given up after %s; see --max-errors", counted(i.done.Refused, "bad row"))
	case s.full:
		return true, nil
	case !errors.Is(s.broken, io.EOF):
		return false, fmt.Errorf("%s: after line %d: %w", i.name, s.last, s.broken)
	}
	return false, nil
}

// enrol reads a stretch, and creates or changes its users. It adds what has come of it to a tally.
func (s *stretchOfRows) enrol(ctx context.Context, before tally) (tally, []almanac.Refusal, error) {
	if s.update {
		put, err := ops.PutUsers(ctx, s.scheduler, s.profiles, ops.PutUsersOptions{DryRun: s.dry}) // one page
		return before.plusPut(put), put.Refused, err
	}
	enrolled, err := s.scheduler.CreateUsers(ctx, s.profiles, almanac.CreateUsersOptions{Progress: func(e almanac.CreateUsersResult) {
		s.late.Store(int64(len(e.Refused)))
		t := before.plus(e)
		t.Refused += int(s.early.Load())
		s.progress.update(t)
	}})
	return before.plus(enrolled), enrolled.Refused, err
}

// stretchOfRows is a stretch as it is read.
type stretchOfRows struct {
	*importing
	lines       []int // of those who are enrolled, by their positions
	last        int   // the line that was read last
	refused     []refusal
	early, late atomic.Int64 // rows that were refused before they were enrolled, and then
	full        bool
	broken      error // that no more can be read; io.EOF at the end
}

// users yields those who can be enrolled.
func (s *stretchOfRows) profiles(yield func(almanac.Profile, error) bool) {
	for s.done.Refused+len(s.refused)+int(s.late.Load()) < s.most {
		if s.full = len(s.lines)+len(s.refused) == s.stretch; s.full {
			return
		}
		read, err := s.rows.next()
		if err != nil {
			s.broken = err
			return
		}
		s.last = read.line
		if s.unknown != "" && read.profile.DateOfBirth == s.unknown {
			read.profile.DateOfBirth, read.profile.Calendar = "", ""
		}
		// Profiles are judged here, although an enrolment judges them too, so that nothing is
		// read past the last bad row that is allowed.
		problems, zone := s.problemsOf(read)
		if len(problems) > 0 {
			s.refused = append(s.refused, refusal{read.line, problems, s.acceptsOptional(read)})
			s.early.Add(1)
			continue
		}
		if s.dry && !s.update {
			read.profile.Timezone = zone // which the host may have guessed
		}
		s.lines = append(s.lines, read.line)
		if !yield(read.profile, nil) {
			return
		}
	}
}

// problemsOf returns all that is wrong with a row: what could not be read, and what a profile may not be.
// It also returns the user's zone.
func (i *importing) problemsOf(read row) (list []problem, zone string) {
	if slices.ContainsFunc(read.problems, func(p problem) bool { return p.Field == "" }) { // nothing could be read
		return read.problems, ""
	}
	list = read.problems
	u, err := almanac.NewUser(read.profile, i.now, i.rules...)
	if err != nil {
		for _, p := range problemsOf(err) {
			said := func(other problem) bool { return other.Field == p.Field }
			if i.update && !read.states(p.Field) { // what the row lacks is stored, or found missing then
				continue
			}
			if !slices.ContainsFunc(read.problems, said) {
				list = append(list, p)
			}
		}
	}
	return list, u.Timezone.String()
}

// acceptsOptional reports whether a row is right for a user who needs neither names nor a date of birth.
func (i *importing) acceptsOptional(read row) bool {
	if i.update {
		return false
	}
	_, err := almanac.NewUser(read.profile, i.now, append(slices.Clone(i.rules), almanac.WithOptionalProfile())...)
	return err == nil && len(read.problems) == 0
}

// nowhere is a repository that stores nothing. It knows what an enrolment asks of one, and nothing else.
type nowhere struct {
	almanac.Repository
	now time.Time
}

// Now returns the program's time.
func (n nowhere) Now(context.Context) (time.Time, error) { return n.now.UTC(), nil }

// ZoneRules returns an empty book: no database says otherwise.
func (n nowhere) ZoneRules(context.Context) (almanac.ZoneBook, error) { return almanac.ZoneBook{}, nil }

// CreateUsers answers as if it had stored them.
func (n nowhere) CreateUsers(_ context.Context, users []almanac.UserWithEvents) ([]almanac.CreateUserResult, error) {
	answers := make([]almanac.CreateUserResult, len(users))
	for i, p := range users {
		answers[i].UserWithEvents = p
	}
	return answers, nil
}

// InTransaction returns false.
func (n nowhere) InTransaction() bool { return false }

// AddEvents is not asked by an enrolment.
func (n nowhere) AddEvents(context.Context, string, almanac.Page, func([]almanac.UserSeries, time.Time) ([]almanac.Event, error)) (almanac.AddEventsResult, error) {
	return almanac.AddEventsResult{}, errors.ErrUnsupported
}
