package command

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/almanac-go/almanac/calendar"
)

// bare returns the text of an error without the package that it begins with.
func bare(text string) string {
	return strings.TrimPrefix(strings.TrimPrefix(text, "almanac: "), "calendar: ")
}

// usageError says which arguments make no sense, all of them at once.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// misused joins what is wrong with the arguments, or returns nil.
func misused(errs ...error) error {
	if err := errors.Join(errs...); err != nil {
		return &usageError{err}
	}
	return nil
}

// fail writes an error as one message, and returns the exit code.
func (e *environment) fail(chosen *kong.Context, err error) int {
	if err == nil {
		return exitOK
	}
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	for i, line := range lines {
		lines[i] = bare(strings.TrimSpace(line))
	}
	prefix := e.prefix()
	fmt.Fprintln(e.errs, prefix+strings.Join(lines, "\n"+strings.Repeat(" ", len(prefix))))
	if !errors.As(err, new(*usageError)) {
		return exitFailed
	}
	command := chosen.Model.Name
	if selected := chosen.Selected(); selected != nil {
		command = selected.FullPath()
	}
	fmt.Fprintf(e.errs, "Try \"%s --help\".\n", command)
	return exitUsage
}

// about says which argument an error is about.
func about(argument string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %s", argument, bare(err.Error()))
}

// number reads a number within bounds.
func number(argument, text string, low, high int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("%s: %q is not a number from %d to %d", argument, text, low, high)
	}
	return n, nil
}

// oneOf refuses a value that is none of those that choices lists.
func oneOf(argument, value string) error {
	return oneOfBy(func(known string) bool { return known == value }, argument, value)
}

func oneOfBy(same func(known string) bool, argument, value string) error {
	known := choices[strings.ReplaceAll(strings.Trim(argument, "-<>"), "-", "_")]
	if !slices.ContainsFunc(strings.Split(known, ", "), same) {
		return fmt.Errorf("%s: %q is not one of %s", argument, value, known)
	}
	return nil
}

// findZone returns the zone of a name. That a name is none is the caller's mistake;
// that there is no data for it is not.
func findZone(argument string, data *calendar.ZoneData, name string) (found calendar.Timezone, mistake, failure error) {
	found, err := data.Timezone(name)
	invalid := (*calendar.InvalidTimezoneError)(nil)
	switch {
	case name == "":
		return found, fmt.Errorf("%s is required", argument), nil
	case errors.As(err, &invalid) && invalid.NoData:
		return found, nil, err
	}
	return found, about(argument, err), nil
}

// openData returns the zone data at path, or the program's own. Where there is none
// it returns the program's own with the error, to judge names by.
func openData(path string) (*calendar.ZoneData, error) {
	if path == "" {
		return calendar.OwnZoneData(), nil
	}
	data, err := calendar.OpenZoneData(path)
	if err != nil {
		return calendar.OwnZoneData(), about("--zoneinfo", err)
	}
	return data, nil
}
