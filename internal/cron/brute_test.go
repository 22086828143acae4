package cron_test

import (
	"testing"
	"time"
)

// Compares with rules written as code, for the minutes of five years around a leap day.
func TestSchedule_Next_everyMinute(t *testing.T) {
	t.Parallel()

	tests := map[string]func(time.Time) bool{
		"* * * * *":      func(time.Time) bool { return true },
		"*/5 9-17 * * *": func(at time.Time) bool { return at.Minute()%5 == 0 && at.Hour() >= 9 && at.Hour() <= 17 },
		"7/15 22,3 1-7 * MON-FRI": func(at time.Time) bool {
			workday := at.Weekday() != time.Saturday && at.Weekday() != time.Sunday
			return at.Minute()%15 == 7 && (at.Hour() == 22 || at.Hour() == 3) && (at.Day() <= 7 || workday)
		},
		"30 12 29 2 *": func(at time.Time) bool {
			return at.Month() == time.February && at.Day() == 29 && at.Hour() == 12 && at.Minute() == 30
		},
		"59 23 L * ?": func(at time.Time) bool {
			return at.Hour() == 23 && at.Minute() == 59 && at.Add(time.Minute).Day() == 1
		},
	}
	for expr, wanted := range tests {
		t.Run(expr, func(t *testing.T) {
			t.Parallel()

			s := mustParse(t, expr)
			at := time.Date(2023, time.December, 31, 23, 59, 0, 0, time.UTC)
			next, ok := s.Next(at)
			for end := at.AddDate(5, 0, 0); at.Before(end); {
				at = at.Add(time.Minute)
				if hit := ok && at.Equal(next); hit != wanted(at) {
					t.Fatalf("%v: Next has it: %v, the rule: %v", at, hit, wanted(at))
				}
				if wanted(at) {
					next, ok = s.Next(at)
				}
			}
		})
	}
}

// Compares with rules about days written as code, for a whole cycle of the calendar and one
// day more, up to the end of the last year.
func TestSchedule_Next_everyDay(t *testing.T) {
	t.Parallel()

	last := func(at time.Time) bool { return at.AddDate(0, 0, 1).Day() == 1 }
	tests := map[string]func(time.Time) bool{
		"@daily":       func(time.Time) bool { return true },
		"@weekly":      func(at time.Time) bool { return at.Weekday() == time.Sunday },
		"@monthly":     func(at time.Time) bool { return at.Day() == 1 },
		"@yearly":      func(at time.Time) bool { return at.YearDay() == 1 },
		"0 0 31 * *":   func(at time.Time) bool { return at.Day() == 31 },
		"0 0 L * *":    last,
		"0 0 L 2,12 *": func(at time.Time) bool { return last(at) && at.Month()%10 == 2 },
		"0 0 L-3 * *":  func(at time.Time) bool { return last(at.AddDate(0, 0, 3)) },
		"0 0 LW * *": func(at time.Time) bool {
			return isWeekday(at) && (last(at) || at.Weekday() == time.Friday && at.AddDate(0, 0, 3).Month() != at.Month())
		},
		"0 0 15W * *": func(at time.Time) bool {
			return at.Day() == 15 && isWeekday(at) || at.Day() == 14 && at.Weekday() == time.Friday || at.Day() == 16 && at.Weekday() == time.Monday
		},
		"0 0 1W * *": func(at time.Time) bool {
			return at.Day() == 1 && isWeekday(at) || at.Weekday() == time.Monday && (at.Day() == 2 || at.Day() == 3)
		},
		"0 0 31W * *": func(at time.Time) bool {
			length := time.Date(at.Year(), at.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
			return length == 31 && (at.Day() == 31 && isWeekday(at) || at.Weekday() == time.Friday && (at.Day() == 30 || at.Day() == 29))
		},
		"0 0 29 2 *":     func(at time.Time) bool { return at.Month() == 2 && at.Day() == 29 },
		"0 0 29 2 */7":   func(at time.Time) bool { return at.Month() == 2 && at.Day() == 29 && at.Weekday() == 0 },
		"0 0 30 2 *":     func(time.Time) bool { return false },
		"0 0 13 * 5":     func(at time.Time) bool { return at.Day() == 13 || at.Weekday() == time.Friday },
		"0 0 */2 * 5":    func(at time.Time) bool { return at.Day()%2 == 1 && at.Weekday() == time.Friday },
		"0 0 * * 5-7":    func(at time.Time) bool { return (at.Weekday()+6)%7 >= 4 },
		"0 0 ? * SUN#1":  func(at time.Time) bool { return at.Weekday() == 0 && at.Day() <= 7 },
		"0 0 ? * SAT#5":  func(at time.Time) bool { return at.Weekday() == 6 && at.Day() >= 29 },
		"0 0 ? * 3#3":    func(at time.Time) bool { return at.Weekday() == 3 && at.Day() >= 15 && at.Day() <= 21 },
		"0 0 ? * THUL":   func(at time.Time) bool { return at.Weekday() == 4 && at.AddDate(0, 0, 7).Day() <= 7 },
		"0 0 L * MONL":   func(at time.Time) bool { return last(at) || at.Weekday() == 1 && at.AddDate(0, 0, 7).Day() <= 7 },
		"0 0 1/10 5-6 *": func(at time.Time) bool { return at.Day()%10 == 1 && (at.Month() == 5 || at.Month() == 6) },
	}
	for expr, wanted := range tests {
		t.Run(expr, func(t *testing.T) {
			t.Parallel()

			s := mustParse(t, expr)
			at := time.Date(9599, time.December, 31, 0, 0, 0, 0, time.UTC)
			next, ok := s.Next(at)
			for at = at.AddDate(0, 0, 1); at.Year() <= 9999; at = at.AddDate(0, 0, 1) {
				if hit := ok && at.Equal(next); hit != wanted(at) {
					t.Fatalf("%v: Next has it: %v, the rule: %v", at, hit, wanted(at))
				}
				if wanted(at) {
					next, ok = s.Next(at)
				}
			}
			if ok {
				t.Errorf("Next finds %v, beyond the last year", next)
			}
		})
	}
}

func isWeekday(at time.Time) bool {
	return at.Weekday() != time.Saturday && at.Weekday() != time.Sunday
}
