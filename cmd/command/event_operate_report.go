package command

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
)

// changeReport is what there is to say about events that were to be changed.
type changeReport struct {
	Operation ops.Operation `json:"operation"`
	DryRun    bool          `json:"dryRun"`
	Events    []eventReport `json:"events"` // as stored; in a dry run, as they are
	Refused   []unchanged   `json:"refused"`
	More      bool          `json:"more"`            // the limit was reached
	Unplanned int           `json:"unplanned"`       // cancelled events whose series wait for a program with the handler
	Error     string        `json:"error,omitempty"` // why it was not done to the end

	RequeuedBefore int `json:"requeuedBefore"` // failed events that were left out

	quiet []string // what quiet hours do to events that were to run now
}

// unchanged is an event that could not be changed.
type unchanged struct {
	ID     uuid.UUID `json:"id"`
	Reason string    `json:"reason"`
}

func changeReportOf(what ops.Operation, dryRun bool, done ops.OperateResult, err error) changeReport {
	r := changeReport{Operation: what, DryRun: dryRun, Events: mapped(done.Events, eventReportOf), More: done.More, Unplanned: done.Unplanned, RequeuedBefore: done.RequeuedBefore}
	r.Refused = mapped(done.Refused, func(one almanac.Refusal) unchanged { return unchanged{one.EventID, bare(one.Err.Error())} })
	if err != nil {
		r.Error = bare(err.Error())
	}
	return r
}

// write writes what was done as a table, and what was not to standard error.
func (r changeReport) write(env *environment, events []almanac.Event, limit int) error {
	if len(events) > 0 {
		if err := eventList(env, form{}, eventView{}).write(env, listedEvents(events), true); err != nil {
			return err
		}
	}
	for _, one := range r.Refused {
		fmt.Fprintf(env.errs, "refused %s: %s\n", one.ID, printable(one.Reason))
	}
	if r.RequeuedBefore > 0 {
		fmt.Fprintf(env.errs, "left out %s: requeued before\n", counted(r.RequeuedBefore, "failed event"))
	}
	if r.Unplanned > 0 {
		fmt.Fprintf(env.errs, "nothing is planned yet after %s: a running program with the handlers does it within seconds\n", counted(r.Unplanned, "event"))
	}
	for _, text := range r.quiet {
		fmt.Fprintln(env.errs, text)
	}
	if r.More {
		fmt.Fprintf(env.errs, "there may be more: the limit of %d is reached\n", limit)
	}
	verb := map[ops.Operation]string{ops.Cancel: "cancelled", ops.RunNow: "made due", ops.Requeue: "requeued"}[r.Operation]
	if r.DryRun {
		verb = "would try to " + map[ops.Operation]string{ops.Cancel: "cancel", ops.RunNow: "make due", ops.Requeue: "requeue"}[r.Operation]
	}
	_, err := fmt.Fprintf(env.out, "%s %s\n", verb, counted(len(events), "event"))
	return err
}

// verdict is an error where an event was refused.
func (r changeReport) verdict() error {
	if len(r.Refused) == 0 {
		return nil
	}
	return fmt.Errorf("%s of %d refused", counted(len(r.Refused), "event"), len(r.Refused)+len(r.Events))
}
