package main

import (
	"encoding/json"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// deliverAt is the attribute with the time of day of a user's greeting.
const deliverAt = "deliverAt"

// timeOfDay returns a function for the time of day of a user's greeting. It is the
// attribute deliverAt, as in {"deliverAt": "18:30"}, or preset without a valid one.
func timeOfDay(preset calendar.Clock) func(almanac.User) calendar.Clock {
	return func(u almanac.User) calendar.Clock {
		var attributes map[string]json.RawMessage
		if err := json.Unmarshal(u.Attributes, &attributes); err != nil {
			return preset
		}
		at, err := clockOf(attributes[deliverAt])
		if err != nil {
			return preset // imported attributes may be invalid
		}
		return at
	}
}

func clockOf(value json.RawMessage) (calendar.Clock, error) {
	var text string
	if err := json.Unmarshal(value, &text); err != nil {
		return calendar.Clock{}, err
	}
	return calendar.ParseClock(text)
}

// deliverAtProblem returns what is wrong with a value of deliverAt, or "".
func deliverAtProblem(value json.RawMessage) string {
	if _, err := clockOf(value); err != nil {
		return "is not a time of day of the form \"HH:MM\" or \"HH:MM:SS\""
	}
	return ""
}
