package almanac

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/program"
)

const (
	// zoneLook is how often a planning program reads which rules the repository follows,
	// and how often a running program reads the marks.
	zoneLook = time.Minute
	// zoneStale is the age from which on a zoneView is not used any more. Then all planned events
	// are marked. Together with the time from planning to commit it must stay below recheckGrace.
	zoneStale = 5 * time.Minute
)

// zoneView has the zone rules that a repository stored at some moment, for comparison
// with the program's rules.
type zoneView struct {
	read  time.Time                    // by this machine's clock, before the query
	rules []ZoneRecord                 // in alphabetical order
	own   sync.Map                     // the results of comparisons, by zone: *otherRules
	days  dayWork                      // the result of comparing calendars
	mine  map[string]calendar.DayRules // the calendars of this program, by name
	held  map[string]bool              // those of which this program's release is held back
}

// otherRules are this program's rules in a zone for which the repository follows other rules, or may.
type otherRules struct {
	calendar.ZoneRules
	from time.Time // instants before it cannot differ
}

// zoneView returns the repository's zone rules, at most one minute old.
func (s *scheduler) zoneView(ctx context.Context) (*zoneView, error) {
	if v := s.zones.Load(); v.isYoungerThan(zoneLook) {
		return v, nil
	}
	v, _, err := s.readZones(ctx)
	return v, err
}

// readZones reads the repository's zone rules. A view from a transaction of the host is
// not shared, because it may be as old as the transaction.
func (s *scheduler) readZones(ctx context.Context) (*zoneView, ZoneBook, error) {
	asked := time.Now()
	book, err := s.repository.ZoneRules(ctx)
	if err != nil {
		return nil, book, err
	}
	v := &zoneView{read: asked, rules: book.Rules, days: s.compareDays(book, s.uncounted(book)), mine: s.calendars(book.Now.UTC().Year() - 1), held: make(map[string]bool)}
	for _, rules := range v.days.held {
		v.held[rules.Name] = true
	}
	if !s.inTransaction() {
		s.zones.Store(v)
	}
	return v, book, nil
}

func (s *scheduler) inTransaction() bool { return s.repository.InTransaction() }

// stampHere marks an event that is planned in the transaction that settles another event,
// where no query is possible.
func (s *scheduler) stampHere(e *Event, now time.Time) {
	if v := s.zones.Load(); v.isYoungerThan(zoneStale) {
		v.stampOne(e)
	} else if mine, err := calendar.StoredTimezone(e.Zone).Rules(now.UTC().Year()); err == nil {
		e.PlannedBy = &mine
	}
}

// isYoungerThan measures by both clocks of the machine, because the monotonic clock may
// stop while the machine sleeps, and the other clock can be set.
func (v *zoneView) isYoungerThan(age time.Duration) bool {
	if v == nil {
		return false
	}
	now := time.Now()
	return now.Sub(v.read) < age && now.Round(0).Sub(v.read.Round(0)) < age
}

// stamp sets PlannedBy of an event that was just planned, if the rules may differ from
// those of the repository.
func (v *zoneView) stamp(e Event) Event {
	v.stampOne(&e)
	return e
}

func (v *zoneView) stampOne(e *Event) {
	if other := v.other(e.Zone); other != nil && !e.Due.Before(other.from) {
		e.PlannedBy = &other.ZoneRules
	}
}

func (v *zoneView) stampAll(events []Event) []Event {
	for i := range events {
		events[i] = v.stamp(events[i])
	}
	return events
}

// differs reports whether the repository follows other rules in a zone than this program.
func (v *zoneView) differs(zone string) bool {
	other := v.other(zone)
	return other != nil && other.from.IsZero()
}

// other returns this program's rules in a zone if they may differ from the repository's, or nil.
func (v *zoneView) other(zone string) *otherRules {
	found, compared := v.own.Load(zone)
	if !compared {
		found, _ = v.own.LoadOrStore(zone, v.compare(zone))
	}
	other, _ := found.(*otherRules)
	return other
}

// compare compares this program's rules in a zone with the repository's. It returns nil if
// the repository has no rules, because the first program that stores rules checks all pending
// events. Rules that agree but have another release may differ after the compared years.
func (v *zoneView) compare(zone string) *otherRules {
	i, known := slices.BinarySearchFunc(v.rules, zone, func(r ZoneRecord, name string) int { return strings.Compare(r.Zone, name) })
	if !known {
		return nil
	}
	stored := v.rules[i]
	mine, err := calendar.StoredTimezone(zone).Rules(stored.Since)
	switch {
	case err != nil:
		return nil // no event can be planned in this zone
	case mine.Fingerprint != stored.Fingerprint:
		return &otherRules{ZoneRules: mine}
	case mine.Version != stored.Version:
		return &otherRules{mine, stored.Until()}
	}
	return nil
}

// accepting returns v without the calendars that are followed among those that are held back.
func (v *zoneView) accepting(follow []calendar.DayRules) *zoneView {
	if len(v.held) == 0 {
		return v
	}
	held := maps.Clone(v.held)
	for _, rules := range follow {
		delete(held, rules.Name)
	}
	return &zoneView{read: v.read, rules: v.rules, days: v.days, mine: v.mine, held: held}
}

// moveLimits are the limits of [WithQuarantine].
type moveLimits struct {
	events int
	shift  time.Duration
}

// limitsSetting is the name of the stored setting that has the limits, for programs without the option.
const limitsSetting = "quarantine"

func (l moveLimits) String() string { return strconv.Itoa(l.events) + " events, " + l.shift.String() }

// limits returns the limits of this program. Without the option they are those that another program has stored.
func (s *scheduler) limits(book ZoneBook) *moveLimits {
	if s.quarantine != nil {
		return s.quarantine
	}
	i := slices.IndexFunc(book.Settings, func(one Setting) bool { return one.Name == limitsSetting })
	if i < 0 {
		return nil
	}
	events, shift, _ := strings.Cut(book.Settings[i].Value, " events, ")
	n, errEvents := strconv.Atoi(events)
	by, errShift := time.ParseDuration(shift)
	if errEvents != nil || errShift != nil {
		return &moveLimits{} // of a later version, so any change waits
	}
	return &moveLimits{n, by}
}

// putLimits stores the limits of this program, if it has the option.
func (s *scheduler) putLimits(ctx context.Context, book ZoneBook) error {
	if s.quarantine == nil {
		return nil
	}
	mine := Setting{Name: limitsSetting, Value: s.quarantine.String(), Program: program.Own()}
	if i := slices.IndexFunc(book.Settings, func(one Setting) bool { return one.Name == mine.Name }); i >= 0 {
		stored := book.Settings[i]
		if stored.Value == mine.Value {
			return nil
		}
		s.log.WarnContext(ctx, "programs have different limits of the quarantine", slog.String("limits", mine.Value), slog.String("stored", stored.Value),
			slog.String("stored_by", stored.Program), slog.Time("since", stored.Since))
	}
	if err := s.repository.PutSetting(ctx, mine); !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}

// screening holds new releases back. Nil holds none: an operator has answered.
type screening struct {
	limits  *moveLimits
	allowed map[releaseKey]string // the releases that were counted and are within the limits
	over    map[releaseKey]Quarantine
}

// uncounted returns a screening that holds all new releases back if there are limits.
func (s *scheduler) uncounted(book ZoneBook) *screening {
	return &screening{s.limits(book), make(map[releaseKey]string), make(map[releaseKey]Quarantine)}
}

// obey sets the limits, which another program may have stored since the count.
func (q *screening) obey(limits *moveLimits) {
	if q != nil {
		q.limits = limits
	}
}

// holds reports whether a release that is newer than the stored one is held back.
func (q *screening) holds(book ZoneBook, k releaseKey, release string) bool {
	if q == nil {
		return false
	}
	allowed, counted := q.allowed[k]
	return book.holds(k, release) || q.limits != nil && (!counted || allowed != release)
}

// holdsZone reports whether the rules of this program in a zone are held back.
func (s *scheduler) holdsZone(book ZoneBook, zone string) bool {
	z := calendar.StoredTimezone(zone)
	i := slices.IndexFunc(book.Rules, func(r ZoneRecord) bool { return r.Zone == zone })
	if i < 0 || !rulesDiffer(z, &book.Rules[i]) {
		return false
	}
	mine, err := z.Rules(book.Now.UTC().Year())
	return err == nil && mine.NewerThan(book.Rules[i].ZoneRules) && s.uncounted(book).holds(book, releaseKey{name: zone}, mine.Version)
}

// rulesDiffer reports whether a zone's rules differ from the stored ones.
func rulesDiffer(z calendar.Timezone, stored *ZoneRecord) bool {
	if stored == nil {
		return false
	}
	same, err := z.Rules(stored.Since)
	return err == nil && same.Fingerprint != stored.Fingerprint
}

// screen counts what the new releases of this program would change. It stores nothing.
func (s *scheduler) screen(ctx context.Context) (*screening, error) {
	book, err := s.repository.ZoneRules(ctx)
	if err == nil {
		err = s.putLimits(ctx, book)
	}
	if err != nil {
		return nil, err
	}
	q := s.uncounted(book)
	if q.limits == nil {
		return q, nil
	}
	dry := ReconcileOptions{Data: calendar.OwnZoneData(), DryRun: true}
	work, days := s.compareZones(dry, book, q), s.compareDays(book, q)
	releases := make(map[releaseKey]string)
	for name, z := range work.held {
		if rules, _ := z.Rules(book.Now.UTC().Year()); !book.waits(releaseKey{name: name}, rules.Version) {
			releases[releaseKey{name: name}] = rules.Version
		}
	}
	maps.DeleteFunc(work.held, func(name string, _ calendar.Timezone) bool { return releases[releaseKey{name: name}] == "" })
	work.look = work.held
	bounded, cancel := forCount(ctx)
	defer cancel()
	zones, _, err := s.moveZones(bounded, dry, work)
	if err != nil && !isCut(ctx, bounded) {
		return nil, err
	}
	counted := dayWork{follow: slices.DeleteFunc(days.held, func(r calendar.DayRules) bool { return book.waits(releaseKey{r.Name, true}, r.Release) })}
	for _, rules := range counted.follow {
		releases[releaseKey{rules.Name, true}] = rules.Release
	}
	var calendars []CalendarReport
	if err == nil {
		calendars, _, err = s.replanSomeDays(bounded, dry, counted, max(q.limits.events, maxMoves))
	}
	cut := err != nil && isCut(ctx, bounded)
	if q.judge(releases, zones, calendars, cut); cut {
		return q, nil
	}
	return q, err
}

// forCount leaves a part of the time of a pass to store that a release waits which cannot be counted in the rest.
func forCount(ctx context.Context) (context.Context, context.CancelFunc) {
	end, limited := ctx.Deadline()
	if !limited {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, time.Until(end)*3/4)
}

func isCut(ctx, bounded context.Context) bool { return ctx.Err() == nil && bounded.Err() != nil }

// judge compares counts with the limits. If the count was cut, all releases wait: a host whose passes are too short
// would count again in each of them, and never follow any.
func (q *screening) judge(releases map[releaseKey]string, zones []ZoneReport, calendars []CalendarReport, cut bool) {
	all, largest := 0, time.Duration(0)
	found := make(map[releaseKey]Quarantine)
	for _, z := range zones {
		all, largest = all+z.Moved+z.Left, max(largest, z.Largest.Abs())
		found[releaseKey{name: z.Zone}] = Quarantine{Name: z.Zone, Release: z.Version, Events: z.Moved + z.Left, Largest: z.Largest, First: z.First, FirstAt: z.FirstAt}
	}
	over := all > q.limits.events || largest > q.limits.shift
	for _, c := range calendars {
		found[releaseKey{c.Name, true}] = Quarantine{Name: c.Name, Calendar: true, Release: c.Release, Events: c.changes(), Largest: c.Largest, First: c.First, FirstAt: c.FirstAt}
	}
	for k, release := range releases {
		one := found[k]
		if one.Name == "" {
			one = Quarantine{Name: k.name, Calendar: k.calendar, Release: release}
		}
		if cut || one.Events > 0 && (!k.calendar && over || k.calendar && (one.Events > q.limits.events || one.Largest.Abs() > q.limits.shift)) {
			q.over[k] = one
			continue
		}
		q.allowed[k] = release
	}
}

// asks returns the quarantines to store of releases that are over the limits, unless they wait already.
func (q *screening) asks(book ZoneBook, zones reconcileWork, days dayWork) (list []Quarantine) {
	if q == nil {
		return nil
	}
	held := make(map[releaseKey]bool)
	for name := range zones.held {
		held[releaseKey{name: name}] = true
	}
	for _, rules := range days.held {
		held[releaseKey{rules.Name, true}] = true
	}
	for k, one := range q.over {
		if held[k] && !book.waits(k, one.Release) { // else another program was faster
			one.Since = book.Now
			list = append(list, one)
		}
	}
	return list
}

// answers returns the quarantines that wait no longer when edited is stored: the database follows the release or a
// later one, or an operator trusts rules that agree with the stored ones.
func (q *screening) answers(options ReconcileOptions, book, edited ZoneBook, agreed []releaseKey) (list []Quarantine) {
	release := make(map[releaseKey]string)
	for _, of := range []ZoneBook{book, edited} {
		for _, rules := range of.Rules {
			release[releaseKey{name: rules.Zone}] = rules.Version
		}
		for _, rules := range of.Calendars {
			release[releaseKey{rules.Name, true}] = rules.Release
		}
	}
	for k, one := range book.waiting() {
		follows := !k.isNewer(one.Release, release[k])
		if !follows && !(options.Trust && slices.Contains(agreed, k)) {
			continue
		}
		one.AnsweredAt, one.Accepted, one.Reason = book.Now, follows && q == nil, storable(options.Reason)
		if q != nil {
			one.Reason = "the database follows release " + release[k]
		}
		list = append(list, one)
	}
	return list
}
