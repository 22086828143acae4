package dashboard

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// optOutsData are the opt-outs of a user, with the form for another one.
type optOutsData struct {
	Rows []optOutRow
	May  bool // whether the viewer may change them
	Form optOutForm
}

// optOutRow is an opt-out of a user.
type optOutRow struct {
	almanac.OptOut
	Since instant
	Ended bool // whether its end has passed, so that it refuses nothing any more
}

// What names what an opt-out refuses.
func (o optOutRow) What() string { return refusedText(o.OptOut) }

// Query selects the opt-out on the page that asks whether to remove it.
func (o optOutRow) Query() string {
	f := optOutForm{Do: "in", Type: o.Type, Channel: string(o.Channel)}
	if o.Type == "" {
		f.All = "true"
	}
	return f.Query()
}

// refusedText says in words what an opt-out refuses.
func refusedText(o almanac.OptOut) string {
	what, by := "all types", "by all channels"
	if o.Type != "" {
		what = o.Type
	}
	if o.Channel != "" {
		by = "by " + string(o.Channel)
	}
	return what + " " + by
}

// optOutForm has the fields of the form for an opt-out, as they were sent.
type optOutForm struct {
	complaints
	Do                     string // "out" or "in"
	Type, All              string
	Channel, Until, Reason string
}

// Query is the form as the query of an address, without the reason.
func (f optOutForm) Query() string {
	return query("do", f.Do, "type", f.Type, "all", f.All, "channel", f.Channel, "until", f.Until)
}

// maxOptOutText is how many bytes the reason of an opt-out may have.
const maxOptOutText = 200

// optOutOf reads a form. No type means all types for an [almanac.OptOut]. So the form must say that in another
// field: a form that lost its type must not refuse everything.
func optOutOf(values url.Values, today calendar.Date) (o almanac.OptOut, f optOutForm) {
	take := func(name string) string { return strings.TrimSpace(values.Get(name)) }
	f = optOutForm{Do: take("do"), Type: take("type"), All: values.Get("all"), Channel: take("channel"), Until: take("until"), Reason: take("reason")}
	if f.Do != "out" && f.Do != "in" {
		f.refuse("do", "The form must say whether the user opts out or in.")
	}
	var bad []string
	all := ticked(values, "all", &bad)
	for _, sentence := range bad {
		f.refuse("all", sentence)
	}
	switch {
	case all && f.Type != "":
		f.refuse("type", "Choose one type, or all types, and not both.")
	case !all && f.Type == "":
		f.refuse("type", "Choose a type, or all types.")
	}
	for _, one := range []struct{ name, text string }{{"type", f.Type}, {"channel", f.Channel}} {
		if len(one.text) > 50 || !utf8.ValidString(one.text) || strings.ContainsRune(one.text, 0) {
			f.refuse(one.name, "The "+one.name+" is not a text of at most 50 bytes.")
		}
	}
	if len(f.Reason) > maxOptOutText || reasonProblem(f.Reason) != "" {
		f.refuse("reason", "The reason is not a text of at most 200 bytes.")
	}
	o = almanac.OptOut{Type: f.Type, Channel: almanac.Channel(f.Channel), Reason: f.Reason}
	if f.Until != "" {
		var err error
		if o.Until, err = calendar.ParseDate(f.Until); err != nil {
			f.refuse("until", "Enter the day as YYYY-MM-DD, such as 2027-03-01.")
		} else if !today.Before(o.Until) {
			f.refuse("until", "The day must be after today, which is "+today.String()+" in the user's zone.")
		}
	}
	return o, f
}

// optOuts returns the opt-outs of a user as the page shows them.
func (r *request) optOuts(u almanac.User, now time.Time, form optOutForm) (data optOutsData, err error) {
	data.Form = form
	today := u.Timezone.WallTime(now).Date
	for _, o := range u.OptOuts {
		ended := o.Until != (calendar.Date{}) && !today.Before(o.Until)
		data.Rows = append(data.Rows, optOutRow{o, instantOf(o.Since, u.Timezone.String()), ended})
	}
	data.May, err = r.mayDo(EditOptOuts, u.ID)
	return data, err
}

// optOutData is what the page shows that asks for a confirmation.
type optOutData struct {
	ID     uuid.UUID
	Name   string // "" if the viewer may not see it
	What   string
	Form   optOutForm
	Out    bool
	Verb   string
	Stored bool // whether the user has the opt-out
}

// mayEditOptOuts returns the user of a page whose opt-outs the viewer may change, and the reader's time.
func (d *dashboard) mayEditOptOuts(r *request) (u almanac.User, now time.Time, err error) {
	if u, err = d.userOf(r); err != nil {
		return u, now, err
	}
	if err = r.need(EditOptOuts, u.ID); err != nil {
		return u, now, err
	}
	now, err = r.clock()
	return u, now, err
}

// confirmOptOutPage shows what a change of an opt-out means, before it is made.
func (d *dashboard) confirmOptOutPage(r *request) (answer, error) {
	u, now, err := d.mayEditOptOuts(r)
	if err != nil {
		return answer{}, err
	}
	if r.URL.RawQuery == "" { // as of a link to the form's address: nothing is asked
		return d.userAnswer(r, u, optOutForm{})
	}
	o, form := optOutOf(r.URL.Query(), u.Timezone.WallTime(now).Date)
	if form.status() != 0 {
		return d.userAnswer(r, u, form)
	}
	name, err := r.nameOf(u)
	if err != nil {
		return answer{}, err
	}
	data := optOutData{ID: u.ID, Name: name, What: refusedText(o), Form: form, Out: form.Do == "out", Verb: "Opt in"}
	if data.Out {
		data.Verb = "Opt out"
	}
	for _, stored := range u.OptOuts {
		data.Stored = data.Stored || stored.Type == o.Type && stored.Channel == o.Channel
	}
	return answer{title: data.Verb + "?", template: "opt_out", data: data}, nil
}

// changeOptOutPage stores or removes an opt-out.
func (d *dashboard) changeOptOutPage(r *request) (answer, error) {
	u, now, err := d.mayEditOptOuts(r)
	if err != nil {
		return answer{}, err
	}
	o, form := optOutOf(r.PostForm, u.Timezone.WallTime(now).Date)
	if form.status() != 0 {
		return d.userAnswer(r, u, form)
	}
	change, done := d.scheduler.OptOut, "opted-out"
	if form.Do == "in" {
		change, done = d.scheduler.OptIn, "opted-in"
	}
	_, err = change(r.Context(), u.ID, o)
	if why := optOutRefused(err); why != "" {
		d.logUnplanned(r, err)
		return answer{title: "Nothing was changed", template: "result", status: http.StatusConflict, data: resultData{
			Stopped: why, Back: r.root + "users/" + u.ID.String(), BackText: "Back to the user",
		}}, nil
	}
	if err != nil {
		return answer{}, err
	}
	r.logChange(EditOptOuts, slog.String("do", form.Do), slog.String("user", u.ID.String()), slog.String("type", cmp.Or(o.Type, "all")))
	return answer{redirect: r.root + "users/" + u.ID.String() + query("done", done)}, nil
}

// optOutRefused says why an opt-out was not changed, if it was refused, and otherwise "".
func optOutRefused(err error) string {
	switch {
	case errors.Is(err, calendar.ErrRejectedWallTime):
		return "The policy reject refuses the next occurrence of a series that would be planned."
	case errors.As(err, new(*almanac.SuccessorError)):
		return "The next event of a series cannot be planned."
	case errors.Is(err, almanac.ErrLocked):
		return "Another transaction changes this user. Try again in a moment."
	}
	return ""
}

// optOutNotice says what was just done, by the address of the user's page.
func optOutNotice(u almanac.User, done string) string {
	switch {
	case done == "opted-out" && len(u.OptOuts) > 0:
		return "The opt-out is stored. The pending events that it refuses are gone."
	case done == "opted-in":
		return "The opt-out is removed. What comes next is planned again."
	}
	return ""
}
