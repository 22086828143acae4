package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/postgres"
)

// deleteUser deletes a user.
type deleteUser struct {
	oneUser
	EraseNow bool   `help:"Delete also the events in flight and all that ended, at once, as for erasure by law."`
	Only     string `help:"Delete the user only if the stored version is this one." name:"if-version" placeholder:"N" default:"0"`
	DryRun   bool   `help:"Delete nothing, and show what would be deleted."`
	Yes      bool   `help:"Delete the user."`
	JSON     bool   `help:"Write JSON." name:"json"`

	Tables tables `embed:""`
}

// deleteReport is what there is to say about a deletion.
type deleteReport struct {
	ID       uuid.UUID   `json:"id"`
	DryRun   bool        `json:"dryRun"`
	EraseNow bool        `json:"eraseNow"`
	Removed  int         `json:"removed"`  // pending events
	InFlight []uuid.UUID `json:"inFlight"` // which are erased, too, or end first
	Hidden   bool        `json:"hidden"`   // rows are left, which sweeps delete
}

// Run deletes.
func (c *deleteUser) Run(ctx context.Context, env *environment) error {
	var errYes error
	switch {
	case c.DryRun && c.Yes:
		errYes = errors.New("--dry-run: does not go with --yes")
	case !c.DryRun && !c.Yes:
		errYes = errors.New("--dry-run or --yes is required")
	}
	version, errVersion := number("--if-version", c.Only, 0, maxVersion)
	return c.Tables.use(ctx, env, errors.Join(c.oneUser.validate(), errVersion, errYes), func(store *postgres.Store) error {
		id, err := c.target(ctx, store, version)
		if err != nil {
			return err
		}
		options := almanac.DeleteOptions{AtOnce: c.EraseNow, Version: version}
		act := dryDelete
		if c.Yes {
			act = env.deleteUser
		}
		done, err := act(ctx, store, id, options)
		if err != nil {
			return err
		}
		report := deleteReport{id, c.DryRun, c.EraseNow, done.Removed, append([]uuid.UUID{}, done.InFlight...), done.Hidden}
		return env.report(c.JSON, report, func() error { return report.write(env) })
	})
}

// target returns the id of the user, who must be at the version if it is not zero. A hidden user is found by the id alone, and only an
// erasure deletes it.
func (c *deleteUser) target(ctx context.Context, store *postgres.Store, version int) (uuid.UUID, error) {
	u, err := c.find(ctx, store)
	if id, isID := parseID(c.User); isID && errors.Is(err, almanac.ErrNotFound) {
		return id, nil
	}
	return u.ID, cmp.Or(err, atVersion(u, version))
}

// deleteUser deletes a user, and notifies the host's observers.
func (e *environment) deleteUser(ctx context.Context, store *postgres.Store, id uuid.UUID, options almanac.DeleteOptions) (almanac.DeleteResult, error) {
	scheduler, err := e.operatorOn(store)
	if err != nil {
		return almanac.DeleteResult{}, err
	}
	return scheduler.DeleteUser(ctx, id, options)
}

// dryDelete returns what a deletion would do, and changes nothing.
func dryDelete(ctx context.Context, store *postgres.Store, id uuid.UUID, options almanac.DeleteOptions) (done almanac.DeleteResult, err error) {
	u, err := store.User(ctx, id)
	if err != nil {
		return done, err
	}
	if options.Version != 0 && options.Version != u.Version {
		return done, &almanac.OptimisticLockError{UserID: id, Expected: options.Version}
	}
	done.Removed, err = store.Count(ctx, almanac.And{almanac.ForUser(id), almanac.InStatus(almanac.Pending)})
	if err != nil {
		return done, err
	}
	found, err := store.Find(ctx, almanac.And{almanac.ForUser(id), almanac.InStatus(almanac.Processing)}, almanac.Page{Limit: listPage})
	for _, e := range found.Items {
		done.InFlight = append(done.InFlight, e.ID)
	}
	return done, err
}

func (r deleteReport) write(env *environment) error {
	verb := "deleted"
	if r.DryRun {
		verb = "would delete"
	}
	text := fmt.Sprintf("%s user %s with %s", verb, r.ID, counted(r.Removed, "pending event"))
	switch {
	case len(r.InFlight) > 0 && r.EraseNow:
		text += fmt.Sprintf(" and %d in flight", len(r.InFlight))
	case len(r.InFlight) > 0:
		text += fmt.Sprintf("; hidden until the end of %s in flight", counted(len(r.InFlight), "event"))
	}
	if r.Hidden && (r.EraseNow || len(r.InFlight) == 0) {
		text += "; hidden until sweeps have deleted all ended events"
	}
	return writeText(env, text+"\n")
}

func writeText(env *environment, text string) error {
	_, err := io.WriteString(env.out, text)
	return err
}
