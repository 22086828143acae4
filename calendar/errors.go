package calendar

import (
	"errors"
	"fmt"
	"strings"
)

// Errors of this package, for [errors.Is]. The comment after an error names the type that
// has the details, if there is one.
var (
	ErrInvalidTimezone   = errors.New("calendar: unknown time zone")                          // *InvalidTimezoneError
	ErrSkippedWallTime   = errors.New("calendar: clocks skip this wall time")                 // *WallTimeError
	ErrRejectedWallTime  = errors.New("calendar: clocks do not show this wall time once")     // *WallTimeError
	ErrInvalidRecurrence = errors.New("calendar: invalid recurrence")                         // *InvalidRecurrenceError
	ErrNoOccurrence      = errors.New("calendar: no further occurrence")                      // a recurrence has ended, or has no occurrence
	ErrInvalidInput      = errors.New("calendar: invalid wall time, policy, rule or country") // *InputError
	ErrNoSuchDay         = errors.New("calendar: no such day in the calendar")                // *SystemError
	ErrOutOfRange        = errors.New("calendar: beyond the years of the calendar")           // *SystemError
	ErrUnknownSystem     = errors.New("calendar: calendar is not known to this program")      // *UnknownSystemError
)

// FormatError says why a text is not a date, a time of day or a wall time.
type FormatError struct {
	Text    string // shortened if it is long
	Problem string // as a clause: "is not a date of the form YYYY-MM-DD"
}

func (e *FormatError) Error() string { return fmt.Sprintf("calendar: %q %s", e.Text, e.Problem) }

// InputError names every invalid part of a wall time and its policies, of a [RuleText], of a
// [Window], of a [WorkCalendar] or a file of days, or of the arguments of [ZonesOf] and
// [InAllZones].
type InputError struct{ Problems []InputProblem }

// InputProblem is one invalid part of an input.
type InputProblem struct {
	Field   string // such as "gap", "leap day", "wall time" or "country"; of options, the name of the field; of a file, the line: "line 12"
	Problem string // as a clause: "is \"sideways\", which is no policy"
}

func (e *InputError) Error() string {
	problems := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		problems[i] = p.Field + " " + p.Problem
	}
	return "calendar: " + strings.Join(problems, "; ")
}

// Is makes errors.Is(err, ErrInvalidInput) hold.
func (e *InputError) Is(target error) bool { return target == ErrInvalidInput }

// inputProblems collects what is wrong with an input.
type inputProblems struct {
	named   []InputProblem
	unnamed int
}

// maxInputProblems keeps the error about a file that is something else from being as long as the file.
const maxInputProblems = 100

func (p *inputProblems) refuse(field, format string, args ...any) {
	if len(p.named) == maxInputProblems {
		p.unnamed++
		return
	}
	p.named = append(p.named, InputProblem{field, fmt.Sprintf(format, args...)})
}

// err returns the error that names the problems, or nil.
func (p *inputProblems) err() error {
	switch {
	case p.unnamed > 0:
		return &InputError{append(p.named, InputProblem{"the rest", fmt.Sprintf("has %d more problems", p.unnamed)})}
	case len(p.named) > 0:
		return &InputError{p.named}
	}
	return nil
}

// InvalidTimezoneError reports a name that is not a zone, or a zone without data.
type InvalidTimezoneError struct {
	Name       string
	Suggestion string // the nearest accepted name, or ""
	NoData     bool   // the name is good, but this process has no data for it
	Err        error  // why there is no data, if that is known
}

func (e *InvalidTimezoneError) Error() string {
	if e.Name == "" {
		return "calendar: the name of the time zone " + e.Problem()
	}
	return fmt.Sprintf("calendar: %q %s", e.Name, e.Problem())
}

// Problem says what is wrong with the name, as a clause: "is not a known time zone".
func (e *InvalidTimezoneError) Problem() string {
	switch {
	case e.NoData:
		if e.Err != nil {
			return "is a time zone for which this machine has no data: " + e.Err.Error()
		}
		return "is a time zone for which this machine has no data"
	case e.Suggestion != "":
		return fmt.Sprintf("is not a known time zone; did you mean %q?", e.Suggestion)
	case strings.TrimSpace(e.Name) == "":
		return "is empty"
	case isMachines(e.Name):
		return "is the time zone of a machine, not of a person"
	}
	return "is not a known time zone"
}

// Unwrap returns e.Err.
func (e *InvalidTimezoneError) Unwrap() error { return e.Err }

// Is makes errors.Is(err, ErrInvalidTimezone) hold.
func (e *InvalidTimezoneError) Is(target error) bool { return target == ErrInvalidTimezone }

// WallTimeError says which wall time a policy refused, and why.
type WallTimeError struct {
	Wall     WallTime
	Zone     Timezone
	Reading  Reading // ShownNever or ShownTwice
	Change   Change  // the change of clocks that makes it so
	Rejected bool    // true under the policy reject, false under skip
}

func (e *WallTimeError) Error() string {
	return fmt.Sprintf("calendar: clocks in %s show %s %s: %s", e.Zone, e.Wall, e.Reading, e.Change)
}

// Is makes errors.Is hold for ErrRejectedWallTime or ErrSkippedWallTime.
func (e *WallTimeError) Is(target error) bool {
	if e.Rejected {
		return target == ErrRejectedWallTime
	}
	return target == ErrSkippedWallTime
}

// InvalidRecurrenceError names everything that is wrong with a recurrence.
type InvalidRecurrenceError struct {
	Rule     string   // the text of the rule, shortened if it is long, or its kind
	Problems []string // as clauses
}

func (e *InvalidRecurrenceError) Error() string {
	return fmt.Sprintf("calendar: invalid recurrence %q: %s", e.Rule, strings.Join(e.Problems, "; "))
}

// Is makes errors.Is(err, ErrInvalidRecurrence) hold.
func (e *InvalidRecurrenceError) Is(target error) bool { return target == ErrInvalidRecurrence }
