package calendar

import (
	"errors"
	"fmt"
	"slices"
)

// Yahrzeit is the recurrence of the anniversaries of a death by the Hebrew calendar. Its keys are
// Hebrew years, "5787", with the unit "year:hebrew". The first slot is in the year after the death.
//
// It is the usual rule, as Reingold and Dershowitz give it in Calendrical Calculations:
//
//   - A death on 30 Heshvan or 30 Kislev has its anniversary on that day in the years that have it.
//     In other years it is on the 29th if the first year after the death lacked the 30th, and
//     otherwise on the first day of the next month.
//   - A death in Adar of a common year has its anniversary in Adar I of a leap year.
//   - A death in Adar I has its anniversary in Adar of a common year, and on 30 Shevat if it was
//     on the 30th. A death in Adar II has it in Adar.
//
// Some families have other customs, such as both Adars. Use [YearlyBy] for these. A slot has a
// DayReason if it is on another day than that of the death.
type Yahrzeit struct {
	System System     // the Hebrew calendar
	Of     SystemDate // the day of the death, with its year
	At     Clock
}

// Months of the Hebrew calendar.
const (
	hebrewName   = "hebrew"
	heshvan      = 2
	kislev       = 3
	shevat       = 5 // Adar I is the leap month with this number
	adar         = 6 // and Adar II
	yahrzeitRule = "yahrzeit"
)

// After returns the first slot strictly after w. The given policies do not apply. The Missing of the slot has the
// policies of the usual rule.
func (y Yahrzeit) After(w WallTime, _ Policies) (Slot, error) {
	months, err := y.check()
	if err != nil {
		return Slot{}, err
	}
	of := slices.IndexFunc(months, func(m SystemMonth) bool { return m.Number == y.Of.Month && m.Leap == y.Of.Leap })
	r := dayOfYear{system: y.System, info: y.System.Info(), day: y.Of, at: y.At, first: y.Of.Year + 1, step: 1, told: told(y.Of.Day, months[of])}
	leap := slices.ContainsFunc(months, func(m SystemMonth) bool { return m.Leap })
	switch {
	case y.Of.Day == 30 && y.Of.Leap:
		r.missing.Month = MissingBackward
	case y.Of.Leap:
		r.missing.Month = MissingForward
	case y.Of.Month == adar && !leap:
		r.day.Month, r.day.Leap, r.missing.Month = shevat, true, MissingForward
	case y.Of.Day == 30 && (y.Of.Month == heshvan || y.Of.Month == kislev):
		if r.missing.Day, err = y.thirtieth(); err != nil {
			return Slot{}, err
		}
	}
	r.missing = r.missing.or(Missing{MissingBackward, MissingBackward}) // no year lacks the others
	return r.after(w)
}

// thirtieth returns what happens in a year that lacks the 30th of the month. That depends on the
// first year after the death.
func (y Yahrzeit) thirtieth() (MissingPolicy, error) {
	first, err := y.System.Months(y.Of.Year + 1)
	if err != nil && !errors.Is(err, ErrOutOfRange) { // there, no slot needs the answer
		return "", err
	}
	if slices.ContainsFunc(first, func(m SystemMonth) bool { return m.Number == y.Of.Month && !m.Leap && m.Days == 30 }) {
		return MissingForward, nil
	}
	return MissingBackward, nil
}

// check returns the months of the year of the death.
func (y Yahrzeit) check() ([]SystemMonth, error) {
	var problems []string
	var months []SystemMonth
	if y.System == nil || y.System.Info().Name != hebrewName {
		problems = append(problems, "a yahrzeit is by the Hebrew calendar")
	} else if _, err := y.System.Date(y.Of); err != nil {
		problems = append(problems, fmt.Sprintf("there is no day %s: %v", y.Of, err))
	} else if months, err = y.System.Months(y.Of.Year); err != nil {
		return nil, err
	}
	if !y.At.Valid() {
		problems = append(problems, fmt.Sprintf("no clock shows %s", y.At))
	}
	return months, invalidRecurrence(yahrzeitRule, problems)
}
