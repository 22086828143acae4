package ops

import "time"

// AuditStep is a row of the audit trail: one step of an event or of a user.
type AuditStep struct {
	At        time.Time // UTC, by the database clock
	Kind      string    // created, rescheduled, removed, claimed, returned (before it began), released, completed, failed or cancelled; of a user: opt_outs_changed
	Version   int       // of the event or the user after the step
	Detail    string    // why the event failed, was released or was cancelled; what the user refuses now, as JSON; "" otherwise
	Actor     string    // the role and the application_name of the session
	Principal string    // who asked for the step, such as the operator's name; "" if unknown; see almanac.WithPrincipal
}
