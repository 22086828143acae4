package ops

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"runtime"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

const (
	defaultRehearsal = 30 * day
	maxRehearsal     = 366 * day
)

// RehearseOptions are options of [Rehearse]. The zero RehearseOptions rehearses 30 days, with the pending events as
// they are stored.
type RehearseOptions struct {
	// For is how long a time to rehearse, from the time of the copy: at most 366 days. Zero means 30 days.
	For time.Duration
	// RollOut first plans the pending events of all types again, as [RollOut] does, and those that users lack. The default
	// is false: pending events stay as they are stored, and a changed rule shows in the events after them.
	RollOut bool
	// Passed says what becomes of an event whose new time has passed at the time of the copy, as RollOutOptions.Passed does. It needs
	// RollOut. The default is the rule of an edit.
	Passed time.Duration
	// Capacity is how many events all programs together can start in one second. Zero means that it is not known.
	Capacity float64
	// Workers is how many users to rehearse at a time. Zero means the number of processors.
	Workers int
	// Progress, if not nil, is called about every thousand users with the number of users so far, by one goroutine at a time.
	Progress func(users int)
}

// RehearseResult is the result of a rehearsal. As JSON, it can be stored and compared with that of another program.
// If the copy is a sample of one in n users, each event counts n times.
type RehearseResult struct {
	From    time.Time `json:"from"`    // the time of the copy, UTC
	Until   time.Time `json:"until"`   // UTC
	RollOut bool      `json:"rollOut"` // see RehearseOptions
	Users   int       `json:"users"`   // users of the copy
	Every   int       `json:"every"`   // the copy has one of this many users
	Cut     bool      `json:"cut"`     // the copy ends at a limit, and users follow
	RehearseTotals
	Counts []RehearseCount `json:"counts"` // in the order of their fields
	// Merged says which fields of Counts are empty, because there were more than a million different counts: "lane",
	// then also "zone". It also has "peaks" if there were more than 40 lanes without limits: then Peaks has only lanes with limits, and
	// "limits" if there were more than 40 lanes with limits: then those after the 40th, in the order of their names, count as lanes without.
	Merged       []string          `json:"merged"`
	Peaks        []RehearsePeak    `json:"peaks"`   // all events together first, then by lane
	Refused      []RehearseRefusal `json:"refused"` // the first 100 users of whom an event could not be planned
	RefusedUsers int               `json:"refusedUsers"`
}

// RehearseTotals are how many events of a rehearsal ended, by their status.
type RehearseTotals struct {
	Delivered int `json:"delivered"`
	Failed    int `json:"failed"`    // such as those that were missed by the time of the copy
	Cancelled int `json:"cancelled"` // their users have opted out
}

// RehearseCount is how many events are delivered on a local day.
type RehearseCount struct {
	Date    calendar.Date   `json:"date"` // by the zone of the events
	Type    string          `json:"type"`
	Zone    string          `json:"zone"`
	Channel almanac.Channel `json:"channel"` // "" for an [almanac.Executor]
	Lane    string          `json:"lane"`    // the lane of the type has the name of the type
	Events  int             `json:"events"`
	// Digest is the sum of a hash of each event: its user, series, key and time. If it differs from that of another
	// rehearsal, so do the events, even if there are as many.
	Digest uint64 `json:"digest,string"`
}

// RehearseRefusal is a user of whom an event could not be planned. The events before it count.
type RehearseRefusal struct {
	UserID uuid.UUID `json:"userId"`
	Error  string    `json:"error"`
}

const maxRehearseRefusals = 100

// Rehearse counts the events that users will have, by the handlers and settings of a scheduler, from a copy that [CopyUsers] has
// written. It makes no call to the repository of the scheduler, which may be another program than the one that copied.
//
// It assumes that programs run all the time, that each first attempt succeeds, and that users stay as they are.
// See [almanac.Scheduler].Foresee for what it obeys. It calls the handlers of the types, which must not have
// effects, and no deliverer. Lanes delay no event: [RehearsePeak] says how long events would wait.
//
// The memory does not depend on the number of users. A user of whom an event cannot be planned is in Refused, and the others
// are rehearsed. When ctx ends, Rehearse returns the cause. The error is an [*almanac.ValidationError] if an option
// is invalid, and says so if the copy is incomplete.
func Rehearse(ctx context.Context, s almanac.Scheduler, users io.Reader, o RehearseOptions) (RehearseResult, error) {
	o, err := o.checked()
	if err != nil {
		return RehearseResult{}, err
	}
	unzipped, err := gzip.NewReader(users)
	if err != nil {
		return RehearseResult{}, fmt.Errorf("ops: not a copy of users: %w", err)
	}
	in := bufio.NewReaderSize(unzipped, 1<<20)
	var head copyHead
	line, err := in.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &head)
	}
	if err != nil {
		return RehearseResult{}, fmt.Errorf("ops: not a copy of users: %w", err)
	}
	if head.Format != copyFormat {
		return RehearseResult{}, fmt.Errorf("ops: the copy of users has the form %d, and this program reads %d", head.Format, copyFormat)
	}
	r := newRehearsal(s, head, o)
	if err := r.all(ctx, in); err != nil {
		return RehearseResult{}, err
	}
	return r.result(), nil
}

func (o RehearseOptions) checked() (RehearseOptions, error) {
	if o.For == 0 {
		o.For = defaultRehearsal
	}
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	switch {
	case o.For < 0 || o.For > maxRehearsal:
		return o, invalid("for", "is not between 0 and 366 days")
	case !(o.Capacity >= 0): // every comparison with NaN is false
		return o, invalid("capacity", "is negative")
	case o.Passed != 0 && !o.RollOut:
		return o, invalid("passed", "is for a roll-out")
	case o.Workers < 0:
		return o, invalid("workers", "is negative")
	}
	return o, nil
}

// rehearsal is a rehearsal in progress.
type rehearsal struct {
	scheduler almanac.Scheduler
	options   RehearseOptions

	mu    sync.Mutex // guards the rest
	done  RehearseResult
	cells cells
	loads loads
}

func newRehearsal(s almanac.Scheduler, head copyHead, o RehearseOptions) *rehearsal {
	until := head.At.Add(o.For)
	return &rehearsal{
		scheduler: s, options: o, cells: make(cells),
		done:  RehearseResult{From: head.At, Until: until, RollOut: o.RollOut, Every: head.Every},
		loads: newLoads(head, until),
	}
}

// usersAtATime is how many users a worker counts before it adds its counts to those of the others.
const usersAtATime = 200

// all rehearses the users of a copy. The last line is the end.
func (r *rehearsal) all(ctx context.Context, in *bufio.Reader) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	batches := make(chan [][]byte)
	var group sync.WaitGroup
	for range r.options.Workers {
		group.Go(func() {
			for lines := range batches {
				if err := r.some(ctx, lines); err != nil {
					stop(err)
				}
			}
		})
	}
	last, err := deal(ctx, in, batches)
	close(batches)
	group.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	var end copiedUser
	if err == nil {
		err = json.Unmarshal(last, &end)
	}
	if err != nil || end.User != nil || end.Users != r.done.Users {
		return errors.Join(errors.New("ops: the copy of users is incomplete"), err)
	}
	r.done.Cut = end.Incomplete
	return nil
}

// deal sends lines in batches, and returns the last line.
func deal(ctx context.Context, in *bufio.Reader, to chan<- [][]byte) (last []byte, err error) {
	var lines [][]byte
	for ctx.Err() == nil {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			if last != nil {
				lines = append(lines, last)
			}
			last = line
		}
		if err == nil && len(lines) < usersAtATime {
			continue
		}
		if len(lines) > 0 {
			select {
			case to <- lines:
			case <-ctx.Done():
			}
			lines = nil
		}
		if errors.Is(err, io.EOF) {
			return last, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// some rehearses some users.
func (r *rehearsal) some(ctx context.Context, lines [][]byte) error {
	t := tally{cells: make(cells), seconds: make(map[laneSecond]int)}
	for _, line := range lines {
		if ctx.Err() != nil {
			return nil
		}
		var one copiedUser
		if err := json.Unmarshal(line, &one); err != nil {
			return fmt.Errorf("ops: a user of the copy: %w", err)
		}
		if one.User == nil {
			return errors.New("ops: the copy of users ends in the middle")
		}
		roster, err := one.roster()
		if err != nil {
			return err
		}
		r.rehearse(ctx, roster, &t)
	}
	if ctx.Err() == nil {
		r.add(t)
	}
	return nil
}

// rehearse adds the events of a user to a tally.
func (r *rehearsal) rehearse(ctx context.Context, one almanac.Roster, t *tally) {
	t.users++
	events, err := r.scheduler.Foresee(ctx, one, r.done.Until, r.options.RollOut, r.options.Passed)
	for _, e := range events {
		switch e.Status {
		case almanac.Failed:
			t.Failed += r.done.Every
			continue
		case almanac.Cancelled:
			t.Cancelled += r.done.Every
			continue
		}
		channel, failed := r.scheduler.ChannelOf(ctx, e)
		if err = errors.Join(err, failed); failed == nil {
			t.count(e, channel, r.done.Every)
		}
	}
	if err != nil {
		t.refused = append(t.refused, RehearseRefusal{one.User.ID, err.Error()})
	}
}

// add adds a tally.
func (r *rehearsal) add(t tally) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done.Users += t.users
	r.done.Delivered += t.Delivered
	r.done.Failed += t.Failed
	r.done.Cancelled += t.Cancelled
	r.cells.add(t.cells)
	r.done.Merged = r.cells.merge(r.done.Merged)
	r.loads.add(t.seconds)
	r.done.RefusedUsers += len(t.refused)
	r.done.Refused = firstRefused(append(r.done.Refused, t.refused...))
	if r.options.Progress != nil {
		r.options.Progress(r.done.Users)
	}
}

// result returns the result at the end.
func (r *rehearsal) result() RehearseResult {
	r.done.Counts = r.cells.counts()
	r.done.Peaks = r.loads.peaks(r.options.Capacity)
	if r.loads.given {
		r.done.Merged = append(r.done.Merged, "peaks")
	}
	if r.loads.lost {
		r.done.Merged = append(r.done.Merged, "limits")
	}
	return r.done
}

// hashOf returns a hash that is the same in each program.
func hashOf(parts ...[]byte) uint64 {
	h := fnv.New64a()
	for _, part := range parts {
		_, _ = h.Write(part)
		_, _ = h.Write([]byte{0})
	}
	return h.Sum64()
}

// hashOfEvent returns the hash of an event for [RehearseCount].Digest.
func hashOfEvent(e almanac.Event) uint64 {
	at := binary.BigEndian.AppendUint64(nil, uint64(e.UpdatedAt.UnixMicro()))
	return hashOf(e.UserID[:], []byte(e.Type), []byte(e.Series), []byte(e.OccurrenceKey), at)
}

// firstRefused returns the refusals that are kept: those of the lowest ids, so that two rehearsals keep the same.
func firstRefused(all []RehearseRefusal) []RehearseRefusal {
	sortBy(all, func(a, b RehearseRefusal) int { return bytes.Compare(a.UserID[:], b.UserID[:]) })
	return all[:min(len(all), maxRehearseRefusals)]
}
