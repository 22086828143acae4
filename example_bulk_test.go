package almanac_test

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"strings"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// people reads profiles from a table of number, names, date of birth and zone. Their
// ids are made of the host's numbers, so that an enrolment can be run again.
func people(table io.Reader) func(yield func(almanac.Profile, error) bool) {
	return func(yield func(almanac.Profile, error) bool) {
		for rows := csv.NewReader(table); ; {
			row, err := rows.Read()
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(almanac.Profile{}, err)
				return
			}
			id := uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://example.com/users/"+row[0]))
			if !yield(almanac.Profile{ID: id, FirstName: row[1], LastName: row[2], DateOfBirth: row[3], Timezone: row[4]}, nil) {
				return
			}
		}
	}
}

// A host brings its users along, and later introduces another type of event.
func ExampleEnrol() {
	const table = `1,Ada,Lovelace,1990-12-10,Europe/London
2,Grace,Hopper,1992-02-30,America/New_York
3,Katherine,Johnson,1991-08-26,America/New_York`
	ctx := context.Background()
	repository := almanactest.NewRepository(nil)
	schedulerOf := func(handlers ...almanac.EventHandler) almanac.Scheduler {
		registry, err := almanac.NewRegistry(handlers...)
		if err != nil {
			panic(err)
		}
		scheduler, err := almanac.NewScheduler(repository, registry)
		if err != nil {
			panic(err)
		}
		return scheduler
	}

	for range 2 {
		done, err := schedulerOf(almanac.Birthday{}).Enrol(ctx, people(strings.NewReader(table)), almanac.Enrol{})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%d enrolled, %d were there\n", done.Created, done.Existing)
		for _, r := range done.Refused {
			fmt.Printf("line %d: %v\n", r.Position+1, r.Err)
		}
	}

	done, err := schedulerOf(almanac.Birthday{}, gift{}).Backfill(ctx, "GIFT", almanac.Backfill{Rate: 5000})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d people get a gift, too\n", done.Events)
	// Output:
	// 2 enrolled, 0 were there
	// line 2: almanac: invalid input: dateOfBirth is not a date of the form YYYY-MM-DD
	// 0 enrolled, 2 were there
	// line 2: almanac: invalid input: dateOfBirth is not a date of the form YYYY-MM-DD
	// 2 people get a gift, too
}

// gift is another type of event, on the same day.
type gift struct{ almanac.Birthday }

func (gift) EventType() string { return "GIFT" }
