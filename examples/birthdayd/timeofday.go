package main

import (
	"encoding/json"

	"github.com/almanac-go/almanac"
)

// timeOfDay returns when a person is greeted: at the time that their attributes
// hold, as {"deliverAt": "18:30"}, or else at the given one.
func timeOfDay(preset almanac.Clock) func(almanac.User) almanac.Clock {
	return func(u almanac.User) almanac.Clock {
		var wish struct {
			DeliverAt string `json:"deliverAt"`
		}
		if err := json.Unmarshal(u.Attributes, &wish); err != nil {
			return preset
		}
		at, err := almanac.ParseClock(wish.DeliverAt)
		if err != nil {
			return preset
		}
		return at
	}
}
