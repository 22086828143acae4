package almanac

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
)

// Reconcile says how pending events are brought into step with zone rules. The
// zero Reconcile uses the program's own rules, and stores what it finds.
type Reconcile struct {
	// Data are the rules. Nil means OwnZoneData.
	Data *ZoneData
	// DryRun stores nothing: the report says what the rules would move, whether they
	// are newer than the stored ones or not.
	DryRun bool
	// Trust lets the rules replace stored ones also where they are not known to be
	// newer. It is for an operator who knows better than the names of releases.
	Trust bool
}

// Reconciliation says what other zone rules did, or would do, to pending events.
type Reconciliation struct {
	// Zones are those whose pending events were looked at, in alphabetical order, if
	// the rules had changed or were in doubt and there were any events.
	Zones []ZoneReport
	// Outdated are the zones, in alphabetical order, for which the database follows
	// other rules than these, and these are not newer. Their events stay as they are.
	Outdated []string
}

// Moved returns how many events were moved in all.
func (r Reconciliation) Moved() int {
	moved := 0
	for _, z := range r.Zones {
		moved += z.Moved
	}
	return moved
}

// ZoneReport says what the rules of one zone did to its pending events.
type ZoneReport struct {
	Zone    string
	Version string // of the zone data, "" where it does not say
	Checked int    // pending events that were never claimed
	Moved   int    // those that have another instant now
	// Left are those whose wall time the new rules skip, or show twice, under a policy
	// that refuses it, and for which no handler here could name another. They keep
	// their instant.
	Left int
	// Smallest and Largest are the moves, by their size: positive when events are
	// later now.
	Smallest, Largest time.Duration
}

func (z *ZoneReport) add(move time.Duration) {
	if z.Moved == 0 || move.Abs() < z.Smallest.Abs() {
		z.Smallest = move
	}
	if z.Moved == 0 || move.Abs() > z.Largest.Abs() {
		z.Largest = move
	}
	z.Moved++
}

const (
	// recheckGrace covers events that another goroutine or process plans by the old rules
	// before it notices the new ones. It uses what it read for up to zoneStale, and its
	// transaction, perhaps the host's, may end later still.
	recheckGrace = time.Hour
	maxMoves     = 1000 // events in a transaction
)

func (s *scheduler) Reconcile(ctx context.Context, how Reconcile) (Reconciliation, error) {
	if how.Data == nil {
		how.Data = OwnZoneData()
	}
	var plan reconcilePlan
	err := s.repository.EditZoneRules(ctx, func(book ZoneBook) ([]ZoneRules, error) {
		plan = s.judgeZones(how, book)
		if how.DryRun {
			return nil, nil
		}
		return plan.changed, nil
	})
	if err != nil {
		return Reconciliation{}, err
	}
	result := Reconciliation{Outdated: plan.outdated}
	if result.Zones, err = s.moveZones(ctx, how, plan); err != nil || how.DryRun {
		return result, err
	}
	err = s.repository.EditZoneRules(ctx, func(book ZoneBook) ([]ZoneRules, error) { return plan.settled(book), nil })
	if err != nil {
		return result, err
	}
	_, _, err = s.readZones(ctx)
	return result, err
}

// reconcilePlan is what a comparison of rules asks for.
type reconcilePlan struct {
	begun    time.Time
	changed  []ZoneRules
	look     map[string]Timezone // the zones whose events need a look
	missed   map[string]bool     // those of them with events that could not be moved
	outdated []string
}

// judgeZones compares what is stored with every zone that there is data for.
func (s *scheduler) judgeZones(how Reconcile, book ZoneBook) reconcilePlan {
	now := book.Now
	known := make(map[string]*ZoneRules, len(book.Rules))
	for i := range book.Rules {
		known[book.Rules[i].Zone] = &book.Rules[i]
	}
	marks := make(map[string][]ZoneRules)
	for _, m := range book.Marks {
		marks[m.Zone] = append(marks[m.Zone], m)
	}
	plan := reconcilePlan{begun: now, look: make(map[string]Timezone), missed: make(map[string]bool)}
	for _, name := range TimezoneNames() {
		z, err := how.Data.Timezone(name)
		if err != nil {
			continue // no data: nothing here can say anything about it
		}
		rules, verdict := z.judge(known[name].with(marks[name], now), now.UTC().Year(), how.Trust)
		switch verdict {
		case replaced:
			rules.Recheck = later(rules.Recheck, now.Add(recheckGrace))
		case outdated:
			// Whoever plans by these rules while it runs is noticed by those who know better.
			rules.Recheck = later(rules.Recheck, now.Add(2*s.zoneCheck+recheckGrace))
			plan.outdated = append(plan.outdated, name)
		default:
		}
		if verdict == replaced || verdict == doubted || verdict == outdated && how.DryRun {
			plan.look[name] = z
		}
		if was := known[name]; was == nil || *was != rules || len(marks[name]) > 0 {
			plan.changed = append(plan.changed, rules)
		}
	}
	return plan
}

// settled returns the rules that no event is in doubt of any more. A zone that was
// marked since the look began waits for the next one, as does one with events that
// were locked.
func (p reconcilePlan) settled(book ZoneBook) []ZoneRules {
	var changed []ZoneRules
	for _, rules := range book.Rules {
		marked := slices.ContainsFunc(book.Marks, func(m ZoneRules) bool { return m.Zone == rules.Zone })
		if _, looked := p.look[rules.Zone]; looked && !marked && !p.missed[rules.Zone] && !rules.Recheck.IsZero() && rules.Recheck.Before(p.begun) {
			rules.Recheck = time.Time{}
			changed = append(changed, rules)
		}
	}
	return changed
}

// moveZones resolves the pending events of zones anew, a page at a time. An event
// that somebody changes in the meantime is left to them.
func (s *scheduler) moveZones(ctx context.Context, how Reconcile, plan reconcilePlan) ([]ZoneReport, error) {
	if len(plan.look) == 0 {
		return nil, nil
	}
	reports := make(map[string]*ZoneReport)
	spec := And{InStatus(Pending), InZone(slices.Sorted(maps.Keys(plan.look)))}
	for page := (Page{Limit: maxMoves}); ; {
		found, err := s.repository.Find(ctx, spec, page)
		if err != nil {
			return nil, err
		}
		if err := s.movePage(ctx, how, reconcilePage{plan, found.Events, reports}); err != nil {
			return nil, err
		}
		if _, err := s.zoneView(ctx); err != nil { // what is settled meanwhile is planned by it
			return nil, err
		}
		if page.After = found.Next; page.After == "" {
			break
		}
	}
	list := make([]ZoneReport, 0, len(reports))
	for _, name := range slices.Sorted(maps.Keys(reports)) {
		list = append(list, *reports[name])
	}
	return list, nil
}

// reconcilePage is a page of events in zones that need a look.
type reconcilePage struct {
	plan    reconcilePlan
	events  []Event
	reports map[string]*ZoneReport
}

func (s *scheduler) movePage(ctx context.Context, how Reconcile, p reconcilePage) error {
	zones, reports := p.plan.look, p.reports
	was := make(map[uuid.UUID]time.Time)
	var moved []Event
	for _, e := range p.events {
		if e.ClaimCount > 0 {
			continue // once claimed, an event keeps its target
		}
		report := reports[e.Zone]
		if report == nil {
			report = &ZoneReport{Zone: e.Zone, Version: zones[e.Zone].rules().version}
			reports[e.Zone] = report
		}
		report.Checked++
		r, err := zones[e.Zone].Resolve(e.Wall, e.Policies)
		switch {
		case err != nil:
			if !s.replanned(ctx, how, e) {
				report.Left++
			}
		case !r.Instant.Equal(e.Due):
			was[e.ID] = e.Due
			moved = append(moved, e.movedTo(r.Instant))
		}
	}
	if len(moved) > 0 && !how.DryRun {
		stored, err := s.repository.MoveEvents(ctx, moved)
		if err != nil {
			return err
		}
		s.tellEvents(ctx, EventRescheduled, stored)
		s.running.wakeFor(stored...)
		p.plan.miss(moved, stored)
		moved = stored
	}
	for _, e := range moved {
		reports[e.Zone].add(e.Due.Sub(was[e.ID]))
	}
	return nil
}

// miss notes the zones of events that were to be moved and were not: somebody has them
// locked, or has changed them just now.
func (p reconcilePlan) miss(wanted, stored []Event) {
	done := make(map[uuid.UUID]bool, len(stored))
	for _, e := range stored {
		done[e.ID] = true
	}
	for _, e := range wanted {
		if !done[e.ID] {
			p.missed[e.Zone] = true
		}
	}
}

// movedTo returns a pending event at another instant of the same wall time.
func (e Event) movedTo(due time.Time) Event {
	e.Due, e.AvailableAt = due, due
	e.Version++
	return e
}

// replanned lets the handler of an event name another wall time where the rules
// refuse the present one.
func (s *scheduler) replanned(ctx context.Context, how Reconcile, e Event) bool {
	if _, err := s.registry.Handler(e.Type); err != nil || how.DryRun || how.Data != OwnZoneData() {
		return false
	}
	_, err := s.Reschedule(ctx, e.UserID)
	return err == nil
}
