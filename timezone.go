package almanac

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac/calendar"
)

// ReconcileOptions are options of [Scheduler].Reconcile. The zero ReconcileOptions uses
// the program's own rules, and stores the changes.
type ReconcileOptions struct {
	// Data has the zone rules. Nil means [calendar.OwnZoneData].
	Data *calendar.ZoneData
	// DryRun stores nothing. The result says which events the rules would move, even if
	// the rules are not newer than the stored rules.
	DryRun bool
	// Trust lets the rules replace stored rules even if they are not known to be newer. It is for an
	// operator who knows that the rules are newer, although the names of releases do not show it.
	Trust bool
	// Reason is stored with the releases that the call accepts or refuses (see [Quarantine]).
	Reason string
}

// ReconcileResult says how new zone rules moved, or would move, pending events.
type ReconcileResult struct {
	// Zones are the zones whose rules changed or needed a recheck and that have pending
	// events, in alphabetical order.
	Zones []ZoneReport
	// Outdated are the zones for which the database follows other rules, and the given
	// rules are not newer, in alphabetical order. Their events stay as they are.
	Outdated []string
	// Calendars are the calendars with pending events that a newer release may have moved, by name.
	Calendars []CalendarReport
	// OutdatedCalendars are the names of the calendars of which the database follows a newer release.
	OutdatedCalendars []string
}

// Moved returns how many events of all zones and calendars were moved.
func (r ReconcileResult) Moved() int {
	moved := 0
	for _, z := range r.Zones {
		moved += z.Moved
	}
	for _, c := range r.Calendars {
		moved += c.Moved
	}
	return moved
}

// ZoneReport says how the rules of one zone moved its pending events.
type ZoneReport struct {
	Zone    string
	Version string // the release of the zone data; "" if it is unknown
	Checked int    // pending events that were never claimed
	Moved   int    // events with a new instant
	// Left is how many events have a wall time that the new rules skip or show twice, under a policy that
	// rejects it. No handler of this program has another wall time for them. They keep their instant.
	Left int
	// Smallest and Largest are the moves with the smallest and the largest absolute
	// value. A move is positive if the event is later now.
	Smallest, Largest time.Duration
	// FirstAt is the earliest of the old and new instants of these events, UTC, and First is its wall time. If
	// the rules are right and are not followed, the first event starts at a wrong time then.
	First   calendar.WallTime
	FirstAt time.Time
}

// addMove adds a move to the number of moves, the smallest and the largest.
func addMove(move time.Duration, moved *int, smallest, largest *time.Duration) {
	if *moved == 0 || move.Abs() < smallest.Abs() {
		*smallest = move
	}
	if *moved == 0 || move.Abs() > largest.Abs() {
		*largest = move
	}
	*moved++
}

// addFirst notes the wall time of a changed event if its instant is before the one noted.
func addFirst(wall calendar.WallTime, at time.Time, first *calendar.WallTime, firstAt *time.Time) {
	if firstAt.IsZero() || at.Before(*firstAt) {
		*first, *firstAt = wall, at
	}
}

const (
	// recheckGrace covers events that another goroutine or process plans by the old rules before
	// it notices the new ones. It may use rules for up to zoneStale after reading them, and its
	// transaction, perhaps one of the host, may end later still. See docs/adr/0016-zone-rules.md.
	recheckGrace = time.Hour
	maxMoves     = 1000 // the most events in one transaction
)

func (s *scheduler) Reconcile(ctx context.Context, options ReconcileOptions) (ReconcileResult, error) {
	result, _, err := s.reconcile(ctx, options, nil)
	return result, err
}

// reconcile is Reconcile, but for the releases that q holds back. It also returns the events that a new release of a
// calendar should have changed.
func (s *scheduler) reconcile(ctx context.Context, options ReconcileOptions, q *screening) (result ReconcileResult, left leftDays, err error) {
	options.Data = cmp.Or(options.Data, calendar.OwnZoneData())
	var work reconcileWork
	var days dayWork
	err = s.repository.EditZoneRules(ctx, func(book ZoneBook) (ZoneBook, error) {
		q.obey(s.limits(book))
		work, days = s.compareZones(options, book, q), s.compareDays(book, q)
		if options.DryRun {
			return ZoneBook{}, nil
		}
		edited := ZoneBook{Rules: work.changed, Calendars: days.changed}
		edited.Quarantines = slices.Concat(q.asks(book, work, days), q.answers(options, book, edited, slices.Concat(work.agreed, days.agreed())))
		return edited, nil
	})
	if err != nil {
		return ReconcileResult{}, nil, err
	}
	result = ReconcileResult{Outdated: work.outdated, OutdatedCalendars: days.outdated}
	var refused error
	if result.Zones, refused, err = s.moveZones(ctx, options, work); err != nil {
		return result, nil, err
	}
	if result.Calendars, left, err = s.replanDays(ctx, options, days); err != nil {
		return result, left, err
	}
	if options.DryRun {
		return result, left, days.err()
	}
	err = s.repository.EditZoneRules(ctx, func(book ZoneBook) (ZoneBook, error) { return ZoneBook{Rules: work.rechecked(book)}, nil })
	if err != nil {
		return result, left, err
	}
	if _, _, err = s.readZones(ctx); err != nil {
		return result, left, err
	}
	return result, left, errors.Join(refused, days.err())
}

// reconcileWork is the work that a comparison of rules requires.
type reconcileWork struct {
	begun    time.Time
	changed  []ZoneRecord
	look     map[string]calendar.Timezone // the zones whose events must be checked
	missed   map[string]bool              // the zones with events that could not be moved
	outdated []string
	held     map[string]calendar.Timezone // the zones with new rules that are held back
	agreed   []releaseKey                 // the zones whose stored rules do the same
}

// compareZones compares the stored rules with the given rules, for every zone with data.
func (s *scheduler) compareZones(options ReconcileOptions, book ZoneBook, q *screening) reconcileWork {
	now := book.Now
	known := make(map[string]*ZoneRecord, len(book.Rules))
	for i := range book.Rules {
		known[book.Rules[i].Zone] = &book.Rules[i]
	}
	marks := make(map[string][]calendar.ZoneRules)
	for _, m := range book.Marks {
		marks[m.Zone] = append(marks[m.Zone], m)
	}
	work := reconcileWork{begun: now, look: make(map[string]calendar.Timezone), missed: make(map[string]bool), held: make(map[string]calendar.Timezone)}
	replaces := func(mark calendar.ZoneRules) bool {
		return s.limits(book) == nil && !book.holds(releaseKey{name: mark.Zone}, mark.Version)
	}
	for _, name := range calendar.TimezoneNames() {
		z, err := options.Data.Timezone(name)
		if err != nil {
			continue // no data for this zone
		}
		rules, verdict := compareRules(z, withMarks(known[name], marks[name], now, replaces), now.UTC().Year(), options.Trust)
		if verdict == replaced && rulesDiffer(z, known[name]) && q.holds(book, releaseKey{name: name}, rules.Version) {
			work.held[name] = z
			continue
		}
		switch verdict {
		case replaced:
			rules.Recheck = later(rules.Recheck, now.Add(recheckGrace))
		case outdated:
			// Recheck while programs with these rules may run and plan events.
			rules.Recheck = later(rules.Recheck, now.Add(2*s.zoneCheck+recheckGrace))
			work.outdated = append(work.outdated, name)
		default:
			work.agreed = append(work.agreed, releaseKey{name: name})
		}
		if verdict == replaced || verdict == doubted || verdict == outdated && options.DryRun {
			work.look[name] = z
		}
		if was := known[name]; was == nil || *was != rules || len(marks[name]) > 0 {
			work.changed = append(work.changed, rules)
		}
	}
	return work
}

// rechecked returns the rules whose recheck is complete. A zone waits for the next check if
// it was marked meanwhile, or if it has events that were locked.
func (w reconcileWork) rechecked(book ZoneBook) []ZoneRecord {
	var changed []ZoneRecord
	for _, rules := range book.Rules {
		marked := slices.ContainsFunc(book.Marks, func(m calendar.ZoneRules) bool { return m.Zone == rules.Zone })
		if _, looked := w.look[rules.Zone]; looked && !marked && !w.missed[rules.Zone] && !rules.Recheck.IsZero() && rules.Recheck.Before(w.begun) {
			rules.Recheck = time.Time{}
			changed = append(changed, rules)
		}
	}
	return changed
}

// moveZones resolves the pending events of zones again, one page at a time. It leaves out
// events that another transaction changes meanwhile, and goes on past events that cannot be
// stored. It returns in refused the error of a page that was moved in part; the zones are checked again.
func (s *scheduler) moveZones(ctx context.Context, options ReconcileOptions, work reconcileWork) (list []ZoneReport, refused, err error) {
	if len(work.look) == 0 {
		return nil, nil, nil
	}
	reports := make(map[string]*ZoneReport)
	spec := And{InStatus(Pending), InZone(slices.Sorted(maps.Keys(work.look)))}
	for page, more := (Page{Limit: maxMoves}), true; more && err == nil; more = page.After != "" {
		var found List[Event]
		if found, err = s.repository.Find(ctx, spec, page); err != nil {
			break
		}
		if err := s.movePage(ctx, options, reconcilePage{work, found.Items, reports}); err != nil && (refused == nil || isRefused(refused)) {
			refused = err
		}
		_, err = s.zoneView(ctx) // the events that settle meanwhile use it
		page.After = found.Next
	}
	list = make([]ZoneReport, 0, len(reports))
	for _, name := range slices.Sorted(maps.Keys(reports)) {
		list = append(list, *reports[name])
	}
	return list, refused, err
}

// reconcilePage is a page of events in zones that must be checked.
type reconcilePage struct {
	work    reconcileWork
	events  []Event
	reports map[string]*ZoneReport
}

func (s *scheduler) movePage(ctx context.Context, options ReconcileOptions, p reconcilePage) (err error) {
	zones, reports := p.work.look, p.reports
	was := make(map[uuid.UUID]time.Time)
	var moved []Event
	for _, e := range p.events {
		if e.ClaimCount > 0 {
			continue // an event that was ever claimed keeps its instant
		}
		report := reports[e.Zone]
		if report == nil {
			rules, _ := zones[e.Zone].Rules(p.work.begun.UTC().Year()) // compareZones found rules for this zone
			report = &ZoneReport{Zone: e.Zone, Version: rules.Version}
			reports[e.Zone] = report
		}
		report.Checked++
		r, err := zones[e.Zone].Resolve(e.Wall, e.Policies)
		switch {
		case err != nil:
			if !s.replanned(ctx, options, e) {
				report.Left++
				addFirst(e.Wall, e.Due, &report.First, &report.FirstAt)
			}
		case !r.Instant.Equal(e.Due):
			was[e.ID] = e.Due
			moved = append(moved, e.movedTo(r.Instant, p.work.begun))
		}
	}
	if len(moved) > 0 && !options.DryRun {
		var stored []Event
		stored, err = s.repository.MoveEvents(ctx, moved)
		s.notifyEvents(ctx, EventRescheduled, stored)
		s.running.wakeFor(stored...)
		p.work.miss(moved, stored)
		moved = stored
	}
	for _, e := range moved {
		report := reports[e.Zone]
		addFirst(e.Wall, e.Due, &report.First, &report.FirstAt)
		addFirst(e.Wall, was[e.ID], &report.First, &report.FirstAt)
		addMove(e.Due.Sub(was[e.ID]), &report.Moved, &report.Smallest, &report.Largest)
	}
	return err
}

// miss notes the zones of events that could not be moved, because another transaction has
// locked or changed them, or because they cannot be stored.
func (w reconcileWork) miss(wanted, stored []Event) {
	done := make(map[uuid.UUID]bool, len(stored))
	for _, e := range stored {
		done[e.ID] = true
	}
	for _, e := range wanted {
		if !done[e.ID] {
			w.missed[e.Zone] = true
		}
	}
}

// movedTo returns a pending event at another instant of the same wall time. If it is not ready at
// now, because its type is spread, it keeps its distance from the instant.
func (e Event) movedTo(due, now time.Time) Event {
	if e.ReadyAt.After(now) {
		e.ReadyAt = due.Add(e.ReadyAt.Sub(e.Due))
	}
	e.Due = due
	e.AvailableAt = e.FirstAvailable()
	e.Version++
	return e
}

// replanned replans the events of a user whose event has no instant by the rules. It
// reports whether that succeeded.
func (s *scheduler) replanned(ctx context.Context, options ReconcileOptions, e Event) bool {
	if _, err := s.registry.Handler(e.Type); err != nil || options.DryRun || options.Data != calendar.OwnZoneData() {
		return false
	}
	_, err := s.Reschedule(ctx, e.UserID)
	return err == nil
}

// ZoneRecord has the rules that a repository's instants follow in one zone. A program
// compares its own rules with them.
type ZoneRecord struct {
	calendar.ZoneRules
	// Recheck is an instant, UTC. Until then, programs may plan events by other rules. A
	// reconciliation that begins after Recheck, and can lock every event that it has to
	// move, sets it to zero. Zero means that no recheck is needed.
	Recheck time.Time
}

// verdict is the result of comparing a zone's stored rules with those of the program.
type verdict int

const (
	agreed   verdict = iota // nothing to do
	doubted                 // the rules are the same, but pending events must be checked
	replaced                // the program's rules are newer
	outdated                // the program's rules are not newer
)

// compareRules compares the stored rules of a zone with the program's rules, and returns the
// rules to store. The release decides which rules are newer. Rules with a release are
// newer than rules without one. Trusted rules are always newer.
//
// The comparison covers ten years, and rules that agree for ten years may differ later. So a
// program of an older release neither moves that window to later years, nor ends a recheck.
func compareRules(z calendar.Timezone, stored *ZoneRecord, year int, trusted bool) (ZoneRecord, verdict) {
	rules, _ := z.Rules(year) // the caller has checked that there are rules
	mine := ZoneRecord{ZoneRules: rules}
	if stored == nil {
		return mine, replaced
	}
	same, _ := z.Rules(stored.Since)
	newer := trusted || mine.NewerThan(stored.ZoneRules)
	older := !newer && stored.NewerThan(mine.ZoneRules)
	switch {
	case same.Fingerprint != stored.Fingerprint && newer:
		return mine, replaced
	case same.Fingerprint != stored.Fingerprint:
		return *stored, outdated
	case older:
		return *stored, agreed
	}
	mine.Recheck = stored.Recheck
	if mine.Since > stored.Since {
		return mine, replaced // the window of compared years moves on
	}
	mine.Since, mine.Fingerprint = stored.Since, stored.Fingerprint
	if !newer {
		mine.Version = stored.Version
	}
	if !stored.Recheck.IsZero() {
		return mine, doubted
	}
	return mine, agreed
}

// withMarks returns a zone's stored rules, combined with its marks, or nil if there are
// neither. A mark of a newer release becomes the rules to follow, even before a program
// of that release compares rules, if it replaces rules. With any other mark, events must be checked now.
func withMarks(r *ZoneRecord, marks []calendar.ZoneRules, now time.Time, replaces func(calendar.ZoneRules) bool) *ZoneRecord {
	for _, mark := range marks {
		switch {
		case r == nil || mark.NewerThan(r.ZoneRules) && replaces(mark):
			r = &ZoneRecord{mark, now.Add(recheckGrace)}
		case mark != r.ZoneRules:
			r = &ZoneRecord{r.ZoneRules, later(r.Recheck, now.Add(-time.Microsecond))} // a time that has passed, so that events are checked now
		}
	}
	return r
}
