package rrule

import "sort"

// clock is a set of times of day: each of the hours with each of the minutes and each of
// the seconds. It may contain all 86,400 times and is never expanded; times are found by
// index.
type clock struct {
	hours, minutes, seconds []int
}

func (c clock) len() int { return len(c.hours) * len(c.minutes) * len(c.seconds) }

// at returns the time at index i, in seconds of the day.
func (c clock) at(i int) int64 {
	i, second := i/len(c.seconds), c.seconds[i%len(c.seconds)]
	i, minute := i/len(c.minutes), c.minutes[i%len(c.minutes)]
	return int64(c.hours[i]*3600 + minute*60 + second)
}

// search returns the index of the first time not before second, or the length.
func (c clock) search(second int64) int {
	if second <= 0 {
		return 0
	}
	hour, minute := int(second/3600), int(second/60%60)
	h := sort.SearchInts(c.hours, hour)
	perHour := len(c.minutes) * len(c.seconds)
	if h == len(c.hours) || c.hours[h] > hour {
		return h * perHour
	}
	m := sort.SearchInts(c.minutes, minute)
	if m == len(c.minutes) || c.minutes[m] > minute {
		return h*perHour + m*len(c.seconds)
	}
	return h*perHour + m*len(c.seconds) + sort.SearchInts(c.seconds, int(second%60))
}
