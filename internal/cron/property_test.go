package cron_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	robfig "github.com/robfig/cron/v3"
	"pgregory.net/rapid"
)

// Compares expressions that both libraries read alike: no L, no W and no #, no empty items, no
// step beyond the field, no Sunday at the end of a range.
func TestSchedule_Next_agreesWithAnotherParser(t *testing.T) {
	t.Parallel()

	other := robfig.NewParser(robfig.SecondOptional | robfig.Minute | robfig.Hour | robfig.Dom | robfig.Month | robfig.Dow | robfig.Descriptor)
	rapid.Check(t, func(t *rapid.T) {
		expr := common().Draw(t, "expr")
		after := readings().Draw(t, "after")

		s := mustParse(t, expr)
		parsed, err := other.Parse(expr)
		if err != nil {
			t.Fatalf("the other refuses %q: %v", expr, err)
		}
		oracle := parsed.(*robfig.SpecSchedule)
		oracle.Location = time.UTC
		readStarsAsVixie(oracle, expr)

		for range 3 {
			got, ok := s.Next(after)
			want := oracle.Next(after)
			// The other library stops after five years.
			if want.IsZero() && (!ok || got.Year() > after.Year()+5) {
				return
			}
			if !ok || got != want {
				t.Fatalf("%q.Next(%v) = %v, %v; the other says %v", expr, after, got, ok, want)
			}
			after = got
		}
	})
}

// readStarsAsVixie makes the other library treat a day field as unrestricted if it begins
// with a star. By default it accepts a star anywhere, but not one with a step.
func readStarsAsVixie(s *robfig.SpecSchedule, expr string) {
	fields := strings.Fields(expr)
	if len(fields) < 5 {
		return
	}
	const star = 1 << 63
	day, weekday := fields[len(fields)-3], fields[len(fields)-1]
	s.Dom, s.Dow = s.Dom&^star, s.Dow&^star
	if strings.ContainsAny(day[:1], "*?") {
		s.Dom |= star
	}
	if strings.ContainsAny(weekday[:1], "*?") {
		s.Dow |= star
	}
}

func TestSchedule_Next_isTheFirst(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(t *rapid.T) {
		expr := rapid.OneOf(common(), ours()).Draw(t, "expr")
		checkNext(t, mustParse(t, expr), readings().Draw(t, "after"))
	})
}

func readings() *rapid.Generator[time.Time] {
	return rapid.Custom(func(t *rapid.T) time.Time {
		year := rapid.OneOf(rapid.IntRange(1970, 2110), rapid.IntRange(1, 9990)).Draw(t, "year")
		seconds := rapid.IntRange(0, 366*24*60*60).Draw(t, "seconds")
		nanos := rapid.SampledFrom([]int{0, 0, 1, 999_999_999}).Draw(t, "nanos")
		return time.Date(year, time.January, 1, 0, 0, seconds, nanos, time.UTC)
	})
}

// common draws expressions with the same meaning in both libraries.
func common() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		if rapid.IntRange(0, 19).Draw(t, "macro") == 0 {
			return rapid.SampledFrom([]string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}).Draw(t, "which")
		}
		fields := []string{
			list(t, [2]int{0, 59}, nil),
			list(t, [2]int{0, 59}, nil),
			list(t, [2]int{0, 23}, nil),
			list(t, [2]int{1, 31}, nil),
			list(t, [2]int{1, 12}, []string{1: "JAN", 2: "feb", 3: "Mar", 12: "DEC"}),
			list(t, [2]int{0, 6}, []string{0: "SUN", 1: "mon", 5: "Fri", 6: "sAt"}),
		}
		return strings.Join(fields[rapid.IntRange(0, 1).Draw(t, "seconds"):], " ")
	})
}

// ours draws expressions that the other library lacks or reads differently.
func ours() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		day := rapid.SampledFrom([]string{"L", "l", "13", "1,L", "*", "?", "*/2", "5,*", "L-3", "l-30", "15W", "1w", "31W,L-28", "LW", "30W,7"}).Draw(t, "day")
		n := rapid.IntRange(0, 7).Draw(t, "weekday")
		weekday := rapid.SampledFrom([]string{
			"?", fmt.Sprintf("%dL", n), fmt.Sprintf("%d#%d", n, 1+n%5), "friL,MON#1", fmt.Sprintf("%d-7", n),
			fmt.Sprintf("%d-SUN", n%7), "6-7/1", "7/3", "7", "TUE/2,7",
		}).Draw(t, "form")
		month := list(t, [2]int{1, 12}, nil)
		return fmt.Sprintf("%d %d %s %s %s", n*8, n*3, day, month, weekday)
	})
}

// list draws one to three items from the values of bounds.
func list(t *rapid.T, bounds [2]int, names []string) string {
	low, high := bounds[0], bounds[1]
	spell := func(n int) string {
		if n < len(names) && names[n] != "" {
			return names[n]
		}
		return fmt.Sprintf("%0*d", 1+n%2, n)
	}
	item := func() string {
		from := rapid.IntRange(low, high).Draw(t, "from")
		step := fmt.Sprintf("/%d", rapid.IntRange(1, high-low+1).Draw(t, "step"))
		switch rapid.IntRange(0, 5).Draw(t, "form") {
		case 0:
			return "*"
		case 1:
			return "*" + step
		case 2:
			return spell(from) + "-" + spell(rapid.IntRange(from, high).Draw(t, "to"))
		case 3:
			return spell(from) + "-" + spell(rapid.IntRange(from, high).Draw(t, "to")) + step
		case 4:
			return spell(from) + step
		}
		return spell(from)
	}
	items := []string{item()}
	for range rapid.IntRange(0, 2).Draw(t, "more") {
		items = append(items, item())
	}
	return strings.Join(items, ",")
}
