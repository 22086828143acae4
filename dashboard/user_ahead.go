package dashboard

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// userPreview is what comes next for a user, and what would come if something were different.
type userPreview struct {
	complaints
	Types []listOption
	Type  string // "" if no type is known
	Rows  []userOccurrence
	Note  string // why the preview ends
	Form  userChange
	policyOptions
	Moves   []userMove
	Moved   int              // how many of the next occurrences move or are left out
	Left    []userOccurrence // those that are not delivered because they count as used, after the change if there is one
	Reason  string           // why the changed preview ends
	Refused string           // why there is no occurrence, if an opt-out is why
}

// policyOptions are the policies that the form offers.
type policyOptions struct{ Gaps, Folds []listOption }

// userChange has the fields of the form for a change, as they were sent.
type userChange struct{ Zone, Born, Gap, Fold string }

// Asked reports whether something is to be different.
func (c userChange) Asked() bool { return c != userChange{} }

// userOccurrence is an occurrence of a preview.
type userOccurrence struct {
	Key, Series string
	At          instant
	Day         string // by the calendar that the key counts by; empty for the Gregorian one
	Reason      string
}

// userMove compares an occurrence with the same one after the change.
type userMove struct {
	Key, Series string
	Is, Would   instant // an instant of zero means none
	Text        string
}

// ahead previews a user's type, as the user is and with the change that the form asks for.
func (d *dashboard) ahead(r *request, u almanac.User, types []string, words bool) (p userPreview, err error) {
	q := r.URL.Query()
	if p.Type = q.Get("type"); p.Type == "" && len(types) > 0 {
		p.Type = types[0]
	}
	p.Form, p.complaints = changeOf(q)
	for _, o := range listOptions(p.Type, "none", types...) {
		if o.Value != "" {
			p.Types = append(p.Types, o)
		}
	}
	p.Gaps = listOptions(p.Form.Gap, "unchanged", calendar.GapForward, calendar.GapBackward, calendar.GapBoundary, calendar.GapSkip, calendar.GapReject)
	p.Folds = listOptions(p.Form.Fold, "unchanged", calendar.FoldFirst, calendar.FoldSecond, calendar.FoldReject)
	if p.Type == "" {
		return p, nil
	}
	if _, owed := u.OwedFrom(p.Type); !owed {
		p.Refused = "No occurrence comes next, because the user has opted out of events of this type."
	}
	is, err := d.scheduler.Preview(r.Context(), u.ID, p.Type, previewed)
	if err != nil {
		p.Note = previewProblem(err, words)
	}
	p.Rows, p.Left = occurrencesOf(is.Ahead), occurrencesOf(is.LeftOut)
	if !p.Form.Asked() || p.status() != 0 {
		return p, nil
	}
	now, err := r.clock()
	if err != nil {
		return p, err
	}
	would, ended := d.changed(r.Context(), change{u, p.Form, now, p.Type}, is, &p.complaints)
	if ended != nil {
		p.Reason = previewProblem(ended, words)
	}
	if p.status() == 0 {
		p.compare(is.Ahead, would.Ahead)
		p.Left = occurrencesOf(would.LeftOut)
	}
	return p, nil
}

func occurrencesOf(list []almanac.Occurrence) (rows []userOccurrence) {
	for _, o := range list {
		rows = append(rows, userOccurrence{o.Key, o.Series, instantOf(o.Resolution.Instant, o.Zone.String()), o.SystemDayText(), reasonOf(o)})
	}
	return rows
}

// reasonOf says how the instant of an occurrence was found, and when its event starts if that is later.
func reasonOf(o almanac.Occurrence) string {
	if by := o.Available.Sub(o.Resolution.Instant); by > 0 {
		return o.Reason() + "; starts " + duration(by) + " later, because the type is spread over a window"
	}
	return o.Reason()
}

// changeOf reads the form for a change.
func changeOf(q url.Values) (c userChange, bad complaints) {
	c = userChange{Zone: q.Get("zone"), Born: q.Get("born"), Gap: q.Get("gap"), Fold: q.Get("fold")}
	var invalid *calendar.InputError
	if err := c.policies(calendar.Policies{}).Check(); errors.As(err, &invalid) {
		for _, problem := range invalid.Problems {
			bad.refuse(problem.Field, "The "+problem.Field+" policy is not one of those in the list.")
		}
	}
	return c, bad
}

// policies returns the policies with those that the form changes.
func (c userChange) policies(p calendar.Policies) calendar.Policies {
	if c.Gap != "" {
		p.Gap = calendar.GapPolicy(c.Gap)
	}
	if c.Fold != "" {
		p.Fold = calendar.FoldPolicy(c.Fold)
	}
	return p
}

// change is a user with the change that a form asks for.
type change struct {
	user almanac.User
	form userChange
	now  time.Time
	of   string // the event type
}

// changed returns the occurrences after a change. Only another zone or date of birth needs
// another preview. The error says why a preview ended early.
func (d *dashboard) changed(ctx context.Context, c change, is almanac.PreviewResult, bad *complaints) (would almanac.PreviewResult, ended error) {
	would = is
	if c.form.Zone == "" && c.form.Born == "" {
		return would, nil
	}
	var wanted almanac.ProfileChange
	if zone := strings.TrimSpace(c.form.Zone); zone != "" {
		wanted.Timezone = &zone
	}
	if born := strings.TrimSpace(c.form.Born); born != "" {
		by := c.user.DateOfBirth.Calendar()
		wanted.DateOfBirth, wanted.Calendar = &born, &by
	}
	edited, err := c.user.Edit(wanted, c.now, almanac.WithOptionalProfile())
	if invalid, ok := errors.AsType[*almanac.ValidationError](err); ok {
		for _, f := range invalid.Fields {
			switch f.Field {
			case "timezone":
				bad.refuse("zone", "The zone "+f.Problem+".")
			case "calendar": // the stored one, which another program knows
				bad.refuse("born", "The calendar of the user's date of birth "+f.Problem+".")
			default:
				bad.refuse("born", "The date of birth "+f.Problem+".")
			}
		}
		return almanac.PreviewResult{}, nil
	}
	if err != nil {
		return almanac.PreviewResult{}, err
	}
	return d.scheduler.PreviewUser(ctx, edited, c.of, previewed)
}

// compare sets what moves. An occurrence keeps its key when a change moves it. Keys of two units name two occurrences.
func (p *userPreview) compare(is, would []almanac.Occurrence) {
	type key struct {
		series, key string
		unit        calendar.Unit
	}
	later := make(map[key]almanac.Occurrence)
	for _, o := range would {
		later[key{o.Series, o.Key, o.Unit}] = o
	}
	for _, o := range is {
		move := userMove{Key: o.Key, Series: o.Series, Is: instantOf(o.Resolution.Instant, o.Zone.String())}
		other, found := later[key{o.Series, o.Key, o.Unit}]
		delete(later, key{o.Series, o.Key, o.Unit})
		if move.Text = "is not among the next " + number(previewed); found {
			move.by(p.Form, other)
		}
		if move.Text != "stays" {
			p.Moved++
		}
		p.Moves = append(p.Moves, move)
	}
	for _, o := range would {
		if _, left := later[key{o.Series, o.Key, o.Unit}]; left {
			move := userMove{Key: o.Key, Series: o.Series}
			move.by(p.Form, o)
			p.Moves = append(p.Moves, move)
		}
	}
}

// by sets where the occurrence is after the change: its wall time is resolved again by the
// policies of the form.
func (m *userMove) by(form userChange, o almanac.Occurrence) {
	o.Policies = form.policies(o.Policies)
	resolution, err := o.Resolve()
	if err != nil {
		m.Text = resolveProblem(err)
		return
	}
	m.Would = instantOf(resolution.Instant, o.Zone.String())
	if m.Is.At.IsZero() {
		m.Text = "is new"
		return
	}
	switch by := m.Would.At.Sub(m.Is.At); {
	case by == 0:
		m.Text = "stays"
	case by < 0:
		m.Text = "moves " + duration(-by) + " earlier"
	default:
		m.Text = "moves " + duration(by) + " later"
	}
}
