package almanactest

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// describe returns in words which events a specification matches, for failure messages.
func describe(spec almanac.Spec) string {
	if spec == nil {
		return "events"
	}
	return "events (" + part(spec) + ")"
}

func part(spec almanac.Spec) string {
	switch spec := spec.(type) {
	case nil:
		return "any"
	case almanac.And:
		return join(spec, " and ", "any")
	case almanac.Or:
		return join(spec, " or ", "none")
	case almanac.Not:
		return "not " + part(spec.Spec)
	case almanac.ForUser:
		return "of user " + uuid.UUID(spec).String()
	case almanac.OfType:
		return "of type " + string(spec)
	case almanac.InStatus:
		return string(spec)
	case almanac.InZone:
		return "in zone " + strings.Join(spec, " or ")
	case almanac.DueBetween:
		return "due" + bound(" from ", spec.From) + bound(" until ", spec.Until)
	case almanac.Ready:
		return "ready"
	case almanac.Overdue:
		return fmt.Sprintf("overdue by more than %v", spec.By)
	}
	return fmt.Sprintf("%T", spec)
}

func bound(which string, at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return which + at.UTC().Format(time.RFC3339)
}

func join(parts []almanac.Spec, operator, none string) string {
	switch len(parts) {
	case 0:
		return none
	case 1:
		return part(parts[0])
	}
	described := make([]string, len(parts))
	for i, p := range parts {
		described[i] = part(p)
		if nested, ok := p.(almanac.Or); ok && len(nested) > 1 {
			described[i] = "(" + described[i] + ")"
		}
	}
	return strings.Join(described, operator)
}
