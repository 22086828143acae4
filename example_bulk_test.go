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

// users reads profiles from a table of number, names, date of birth and zone. It makes
// their ids from the host's numbers, so that the import can be repeated.
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

// A host imports its users, and later introduces another type of event.
func ExampleCreateUsersOptions() {
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
		done, err := schedulerOf(almanac.Birthday{}).CreateUsers(ctx, people(strings.NewReader(table)), almanac.CreateUsersOptions{})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%d enrolled, %d were there\n", done.Created, done.Existing)
		for _, r := range done.Refused {
			fmt.Printf("line %d: %v\n", r.Position+1, r.Err)
		}
	}

	done, err := schedulerOf(almanac.Birthday{}, gift{}).Backfill(ctx, "GIFT", almanac.BackfillOptions{Rate: 5000})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d users get a gift, too\n", done.Events)
	// Output:
	// 2 enrolled, 0 were there
	// line 2: almanac: invalid input: dateOfBirth is not a day of the calendar: February 1992 has 29 days
	// 0 enrolled, 2 were there
	// line 2: almanac: invalid input: dateOfBirth is not a day of the calendar: February 1992 has 29 days
	// 2 users get a gift, too
}

// gift is another type of event, on the same day.
type gift struct{ almanac.Birthday }

func (gift) EventType() string { return "GIFT" }

// three has the users of the examples: one of them twice, one with an invalid zone.
const three = `1,Ada,Lovelace,1990-12-10,Europe/London
2,Grace,Hopper,1992-12-09,America/New_Yorck
3,Katherine,Johnson,1991-08-26,America/New_York
1,Ada,Lovelace,1990-12-10,Europe/London`

// Progress is called after each transaction.
func ExamplePlanner_createUsers() {
	scheduler, _ := birthdaysIn()
	var p almanac.Planner = scheduler
	progress := func(done almanac.CreateUsersResult) {
		fmt.Println(done.Created+done.Existing+len(done.Refused), "of 4")
	}
	must(p.CreateUsers(context.Background(), people(strings.NewReader(three)), almanac.CreateUsersOptions{Batch: 2, Writers: 1, Progress: progress}))
	// Unordered output:
	// 2 of 4
	// 4 of 4
}

// A backfill that was interrupted continues from its cursor.
func ExampleBackfillOptions() {
	ctx, stop := context.WithCancel(context.Background())
	_, repository := birthdaysIn()
	for range 3 {
		stored(repository)
	}
	scheduler := must(almanac.NewScheduler(repository, must(almanac.NewRegistry(gift{}))))

	first, err := scheduler.Backfill(ctx, "GIFT", almanac.BackfillOptions{Rate: 2, Progress: func(almanac.BackfillResult) { stop() }})
	fmt.Println(first.Users, "looked at:", err)
	rest := must(scheduler.Backfill(context.Background(), "GIFT", almanac.BackfillOptions{After: first.Next}))
	fmt.Println(rest.Users, "looked at")
	// Output:
	// 2 looked at: context canceled
	// 1 looked at
}
