package main

import (
	"encoding/json"

	"github.com/almanac-go/almanac"
)

// deliverAt is the attribute that holds when a user is greeted.
const deliverAt = "deliverAt"

// timeOfDay returns when a user is greeted: at the time that their attributes hold, as
// {"deliverAt": "18:30"}, or else at the given one.
func timeOfDay(preset almanac.Clock) func(almanac.User) almanac.Clock {
	return func(u almanac.User) almanac.Clock {
		var attributes map[string]json.RawMessage
		if err := json.Unmarshal(u.Attributes, &attributes); err != nil {
			return preset
		}
		at, err := clockOf(attributes[deliverAt])
		if err != nil {
			return preset // an import may hold anything
		}
		return at
	}
}

func clockOf(value json.RawMessage) (almanac.Clock, error) {
	var text string
	if err := json.Unmarshal(value, &text); err != nil {
		return almanac.Clock{}, err
	}
	return almanac.ParseClock(text)
}

// deliverAtProblem says what is wrong with a value of deliverAt, or "".
func deliverAtProblem(value json.RawMessage) string {
	if _, err := clockOf(value); err != nil {
		return "is not a time of day of the form \"HH:MM\" or \"HH:MM:SS\""
	}
	return ""
}
