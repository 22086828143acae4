package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
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
func (f *filters) parse() (almanac.And, error) {
	spec, err := ops.FilterText{Type: f.Type, From: f.DueFrom, Until: f.DueUntil, Days: "UTC"}.Parse()
	var errs []error
	if f.User != "" {
		errs = append(errs, (&oneUser{f.User}).validateAs("--user"))
	}
	if invalid, ok := errors.AsType[*almanac.ValidationError](err); ok {
		given := map[string][2]string{"type": {"--type", f.Type}, "from": {"--due-from", f.DueFrom}, "until": {"--due-until", f.DueUntil}}
		for _, wrong := range invalid.Fields {
			is := given[wrong.Field]
			errs = append(errs, fmt.Errorf("%s: %q %s", is[0], is[1], strings.Replace(wrong.Problem, "after from", "after --due-from", 1)))
		}
	}
	return spec, errors.Join(errs...)
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
