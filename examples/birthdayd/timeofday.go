package main

import (
	"encoding/json"

	"github.com/almanac-go/almanac/calendar"
)

// deliverAt is the attribute with the time of day of a user's greeting, as in {"deliverAt":
// "18:30"}.
const deliverAt = "deliverAt"

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
