package dashboard

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/ops"
)

// zonesShown is how many zones a page has.
const zonesShown = 50

// zonesData is what the page of zones shows.
type zonesData struct {
	complaints
	zoneSearch
	reading
	Release    string // of this program's zone data
	Rows       []zoneRow
	First, All int // the rows of this page begin after First of All
	InDoubt    int // zones of which the rules are in doubt
	May        bool
	Waiting    []almanac.Quarantine
}

// zoneSearch is what a viewer looks for.
type zoneSearch struct {
	Search     string
	Suggestion string // the nearest zone, if the search finds none
	Doubtful   bool   // whether only zones in doubt are shown
}

// zoneRow is a zone.
type zoneRow struct {
	Name           string
	Clock          instant
	Offset         string
	Next           clockChange
	Users, Pending ops.Count
	zoneStanding
}

// Soon reports whether clocks change within three days.
func (z zoneRow) Soon() bool {
	return !z.Next.IsZero() && z.Next.At.Sub(z.Clock.At) < 72*time.Hour
}

// Path is the zone in the path of its page.
func (z zoneRow) Path() string { return (&url.URL{Path: z.Name}).EscapedPath() }

// zoneStanding compares the rules of this program in a zone with those of the database.
type zoneStanding struct {
	Data          bool   // whether this program has rules
	Rules         bool   // whether the database has rules
	Here, Stored  string // the releases; "" if unknown
	Agree, Newer  bool   // the rules are the same; those of this program are newer
	Until         time.Time
	Recheck       time.Time
	MarkedBy      []string // the releases of marks with other rules than this program's
	Early         bool     // whether there is a mark with this program's rules
	Fingerprinted [2]int64 // here, and stored
}

// Releases are that of this program, and that of the database if it is another one.
func (s zoneStanding) Releases() string {
	here, stored := cmp.Or(s.Here, "unknown"), cmp.Or(s.Stored, "unknown")
	switch {
	case !s.Data && !s.Rules:
		return "none"
	case !s.Data:
		return "none here, database " + stored
	case !s.Rules:
		return here + ", database none"
	case here == stored:
		return here
	}
	return here + ", database " + stored
}

// Doubts says why instants in the zone may not follow this program's rules.
func (s zoneStanding) Doubts() []string {
	var doubts []string
	switch {
	case !s.Data:
		doubts = append(doubts, "This program has no data for the zone.")
	case s.Rules && !s.Agree && s.Newer:
		doubts = append(doubts, "The rules differ, and this program's are newer.")
	case s.Rules && !s.Agree:
		doubts = append(doubts, "The rules differ, and this program's are not newer.")
	}
	if len(s.MarkedBy) > 0 {
		doubts = append(doubts, "Some events follow other rules ("+strings.Join(s.MarkedBy, ", ")+").")
	}
	return doubts
}

// Notes says what programs still do about the zone, though nothing is in doubt.
func (s zoneStanding) Notes() []string {
	var notes []string
	if s.Early {
		notes = append(notes, "Some events were planned before the database had these rules. Both are the same, so nothing needs to be done.")
	}
	if !s.Recheck.IsZero() {
		notes = append(notes, "Pending events are checked again after "+utc(s.Recheck)+" UTC.")
	}
	return notes
}

// zoneBook finds the stored rules of a zone.
type zoneBook struct {
	rules map[string]almanac.ZoneRecord
	marks map[string][]calendar.ZoneRules
}

func bookOf(book almanac.ZoneBook) zoneBook {
	b := zoneBook{make(map[string]almanac.ZoneRecord, len(book.Rules)), make(map[string][]calendar.ZoneRules)}
	for _, rules := range book.Rules {
		b.rules[rules.Zone] = rules
	}
	for _, mark := range book.Marks {
		b.marks[mark.Zone] = append(b.marks[mark.Zone], mark)
	}
	return b
}

// standing compares the rules of a zone at a time.
func (b zoneBook) standing(name string, now time.Time) zoneStanding {
	stored, known := b.rules[name]
	since := now.UTC().Year()
	if known {
		since = stored.Since
	}
	s := zoneStanding{Rules: known, Stored: stored.Version, Recheck: stored.Recheck}
	for _, mark := range b.marks[name] {
		if same, err := calendar.StoredTimezone(name).Rules(mark.Since); err == nil && same.Fingerprint == mark.Fingerprint {
			s.Early = true
			continue
		}
		s.MarkedBy = append(s.MarkedBy, cmp.Or(mark.Version, "an unknown release"))
	}
	mine, err := calendar.StoredTimezone(name).Rules(since)
	if s.Data = err == nil; !s.Data {
		return s
	}
	s.Here, s.Fingerprinted = mine.Version, [2]int64{mine.Fingerprint, stored.Fingerprint}
	if known {
		s.Agree = mine.Fingerprint == stored.Fingerprint
		s.Newer, s.Until = mine.NewerThan(stored.ZoneRules), stored.Until()
	}
	return s
}

func (d *dashboard) zonesPage(r *request) (answer, error) {
	now, err := r.clock()
	if err != nil {
		return answer{}, err
	}
	data := zonesData{zoneSearch: zoneSearch{Search: strings.TrimSpace(r.FormValue("q")), Doubtful: r.FormValue("doubt") != ""}, Release: releaseHere(now)}
	if data.May, err = r.mayDo(Reconcile, uuid.Nil); err != nil {
		return answer{}, err
	}
	if text := r.FormValue("from"); text != "" {
		if data.First, err = strconv.Atoi(text); err != nil || data.First < 0 {
			data.First = 0
			data.refuse("from", "The number of the first row is not a whole number.")
		}
	}
	var s snapshot
	s, data.reading = d.lastNumbers(r)
	data.find(s, now)
	return answer{title: "Zones", template: "zones", status: data.status(), data: data}, nil
}

// releaseHere returns the release of this program's zone data, or "". The zone UTC itself
// needs no data, so it has no release.
func releaseHere(now time.Time) string {
	rules, err := calendar.StoredTimezone("Etc/UTC").Rules(now.UTC().Year())
	if err != nil {
		return ""
	}
	return rules.Version
}

// find selects the rows of the page. Only these are looked at closely.
func (z *zonesData) find(s snapshot, now time.Time) {
	book := bookOf(s.Book)
	z.Waiting = heldOf(s.Book).Waiting
	counts := make(map[string]ops.ZoneCount, len(s.Stats.Zones))
	doubtful := make(map[string]bool)
	for _, zone := range s.Stats.Zones {
		counts[zone.Zone] = zone
		doubtful[zone.Zone] = len(book.standing(zone.Zone, now).Doubts()) > 0
	}
	for name := range book.rules {
		doubtful[name] = len(book.standing(name, now).Doubts()) > 0
	}
	for name, is := range doubtful {
		if !is {
			delete(doubtful, name)
		}
	}
	z.InDoubt = len(doubtful)
	names := z.names(counts, doubtful)
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b].Users.N, counts[a].Users.N), cmp.Compare(counts[b].Pending.N, counts[a].Pending.N), cmp.Compare(a, b))
	})
	if z.All = len(names); z.All == 0 && z.Search != "" {
		_, _, z.Suggestion = loadZone(z.Search)
	}
	z.First = min(z.First, z.All)
	for _, name := range names[z.First:min(z.All, z.First+zonesShown)] {
		row := zoneRow{Name: name, Users: counts[name].Users, Pending: counts[name].Pending, zoneStanding: book.standing(name, now)}
		row.Clock, row.Offset, row.Next = clocksOf(name, now)
		z.Rows = append(z.Rows, row)
	}
}

// names returns the zones that are searched for. Without a search these are the zones with
// users or pending events.
func (z *zonesData) names(counts map[string]ops.ZoneCount, doubtful map[string]bool) []string {
	all := make(map[string]bool)
	for name := range counts {
		all[name] = true
	}
	if z.Search != "" {
		for _, name := range calendar.TimezoneNames() {
			all[name] = true
		}
	}
	if z.Doubtful {
		all = doubtful
	}
	part := strings.ToLower(z.Search)
	var names []string
	for name := range all {
		if strings.Contains(strings.ToLower(name), part) {
			names = append(names, name)
		}
	}
	return names
}

// clocksOf returns what the clocks of a zone show, their offset from UTC, and their next
// change, which is zero if there is none.
func clocksOf(name string, now time.Time) (shown instant, offset string, next clockChange) {
	shown = instantOf(now, name)
	z, err := calendar.LoadTimezone(name)
	if err != nil {
		return shown, "", next
	}
	next.Change, _ = z.NextChange(now)
	return shown, clockOffset(shown.Wall.Labelled().Sub(now.Truncate(time.Second))), next
}

// Before and After are the numbers of the first rows of the pages beside this one. Last is
// that of the last row.
func (z zonesData) Before() int { return max(0, z.First-zonesShown) }
func (z zonesData) After() int  { return z.First + zonesShown }
func (z zonesData) Last() int   { return z.First + len(z.Rows) }

// More reports whether there are rows after this page.
func (z zonesData) More() bool { return z.After() < z.All }

// Range says which rows the page has.
func (z zonesData) Range() string {
	return fmt.Sprintf("%s to %s of %s", number(z.First+1), number(z.Last()), countText(z.All, "zone"))
}

// Doubt is the value of the field of the same name.
func (z zonesData) Doubt() string {
	if z.Doubtful {
		return "1"
	}
	return ""
}

// yearsAhead is for how many years the page of a zone shows changes of clocks.
const yearsAhead = 10

// zoneData is what the page of one zone shows.
type zoneData struct {
	zoneRow
	Canonical string // the present name of the same place, if it is another one
	reading
	Horizon time.Time // the end of the changes
	Changes []clockChange
	Drawing offsetDrawing
	May     bool // whether the viewer may reconcile
}

// Zone is the name, as other pages call it.
func (z zoneData) Zone() string { return z.Name }

// Prints are the fingerprints here and stored.
func (z zoneData) Prints() []string {
	return []string{fmt.Sprintf("%016x", uint64(z.Fingerprinted[0])), fmt.Sprintf("%016x", uint64(z.Fingerprinted[1]))}
}

func (d *dashboard) zonePage(r *request) (answer, error) {
	name := r.PathValue("name")
	z, err := calendar.LoadTimezone(name)
	if err == nil {
		name = z.String()
	}
	now, errClock := r.clock()
	if errClock != nil {
		return answer{}, errClock
	}
	s, of := d.lastNumbers(r)
	data := zoneData{reading: of, Horizon: now.AddDate(yearsAhead, 0, 0)}
	if data.zoneRow = rowOf(name, s, now); err != nil && !data.Rules && data.Users.N+data.Pending.N == 0 {
		if of.Loading { // users may have a zone that only newer data has
			return answer{}, refused(http.StatusServiceUnavailable, "The zones of users are being read. Reload the page in a moment.")
		}
		return answer{}, refused(http.StatusNotFound, sentenceOf(err))
	}
	if canonical := z.Canonical(); canonical != name {
		data.Canonical = canonical
	}
	if data.May, err = r.mayDo(Reconcile, uuid.Nil); err != nil {
		return answer{}, err
	}
	for _, c := range changesIn(z, now, data.Horizon) {
		if c.At.After(now) {
			data.Changes = append(data.Changes, c)
		}
	}
	data.Drawing = drawOffsets(z, data.Changes, now, data.Horizon)
	return answer{title: name, template: "zone", data: data}, nil
}

// rowOf returns what is known about one zone.
func rowOf(name string, s snapshot, now time.Time) zoneRow {
	row := zoneRow{Name: name, zoneStanding: bookOf(s.Book).standing(name, now)}
	i := slices.IndexFunc(s.Stats.Zones, func(c ops.ZoneCount) bool { return c.Zone == name })
	if i >= 0 {
		row.Users, row.Pending = s.Stats.Zones[i].Users, s.Stats.Zones[i].Pending
	}
	row.Clock, row.Offset, row.Next = clocksOf(name, now)
	return row
}
