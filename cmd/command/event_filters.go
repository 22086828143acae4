package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/postgres"
)

// filters pick events.
type filters struct {
	Type     string `help:"Only events of this type, such as BIRTHDAY." placeholder:"TYPE"`
	User     string `help:"Only events of this user: an id, an external id or an e-mail address." placeholder:"USER"`
	DueFrom  string `help:"Only events due at this instant or later: RFC 3339, or a date, which means its midnight in UTC." placeholder:"INSTANT"`
	DueUntil string `help:"Only events due before this instant." placeholder:"INSTANT"`
}

// parse returns the specification without the user, who is looked up by ofUser.
func (f *filters) parse() (spec almanac.And, err error) {
	var errUser, errFrom, errUntil error
	if f.Type != "" {
		spec = append(spec, almanac.OfType(f.Type))
	}
	if f.User != "" {
		errUser = (&oneUser{f.User}).validateAs("--user")
	}
	if f.DueFrom != "" || f.DueUntil != "" {
		var due almanac.DueBetween
		due.From, errFrom = instant("--due-from", f.DueFrom)
		due.Until, errUntil = instant("--due-until", f.DueUntil)
		spec = append(spec, due)
	}
	return spec, errors.Join(errUser, errFrom, errUntil)
}

// ofUser returns the specification of the user, if one is given. An id need not be that of a
// user who exists.
func (f *filters) ofUser(ctx context.Context, store *postgres.Store) (almanac.And, error) {
	if f.User == "" {
		return nil, nil
	}
	u, err := (&oneUser{f.User}).find(ctx, store)
	if id, isID := parseID(f.User); isID && errors.Is(err, almanac.ErrNotFound) {
		return almanac.And{almanac.ForUser(id)}, nil
	}
	if err != nil {
		return nil, err
	}
	return almanac.And{almanac.ForUser(u.ID)}, nil
}

// waiting picks among events that are pending.
type waiting struct {
	Overdue string `help:"Only pending events whose instant passed longer ago than this; 0s for all overdue events." placeholder:"DURATION"`
}

func (w *waiting) parse() (almanac.And, error) {
	if w.Overdue == "" {
		return nil, nil
	}
	by, err := time.ParseDuration(w.Overdue)
	if err != nil || by < 0 {
		return nil, fmt.Errorf("--overdue: %q is not a duration such as 90s or 5m", w.Overdue)
	}
	return almanac.And{almanac.Overdue{By: by}}, nil
}

// idOf reads the id of a user or an event.
func idOf(argument, text string) (uuid.UUID, error) {
	id, ok := parseID(text)
	if !ok {
		return id, fmt.Errorf("%s: %q is not a UUID", argument, text)
	}
	return id, nil
}

// instant reads one, or a date for its midnight in UTC; the zero Time where there is
// none.
func instant(argument, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at.UTC(), nil
	}
	date, err := calendar.ParseDate(text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: %q is neither an instant such as 2026-03-15T14:00:00Z nor a date such as 2026-03-15", argument, text)
	}
	return calendar.WallTime{Date: date}.Labelled(), nil
}
