package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/almanac-go/almanac"
)

const (
	demoPeople  = 300
	demoLead    = 2 * time.Second // the first greeting is due about then
	demoSeconds = 4               // the greetings are due at so many full seconds
	demoMakers  = 8               // people made up at once
	shortNotice = time.Second     // nobody is made up later than that before their greeting
)

// populate makes up the people, several at once, in the order in which they are
// to be greeted.
func (d *demo) populate(ctx context.Context, planner almanac.Planner, c clock) error {
	first := c.now().Add(demoLead).Truncate(time.Second).Add(time.Second)
	numbers := make(chan int)
	errs := make([]error, demoMakers)
	var making sync.WaitGroup
	for m := range demoMakers {
		making.Go(func() {
			for i := range numbers {
				if errs[m] != nil {
					continue // one complaint is enough
				}
				moment := first.Add(time.Duration(i*demoSeconds/demoPeople) * time.Second)
				for moment.Before(c.now().Add(shortNotice)) { // on a slow machine
					moment = moment.Add(time.Second)
				}
				errs[m] = d.enrol(ctx, planner, i, moment)
			}
		})
	}
	for i := range demoPeople {
		numbers <- i
	}
	close(numbers)
	making.Wait()
	return errors.Join(errs...)
}

var errNoZone = errors.New("no zone shows this moment once")

// enrol makes up the person of that number and stores them. Their zone is the
// next one in which the moment is told by its wall time.
func (d *demo) enrol(ctx context.Context, planner almanac.Planner, i int, moment time.Time) error {
	names := zones()
	for skipped := range names {
		profile, ok := person(i, names[(i+skipped)%len(names)], moment)
		if !ok {
			continue
		}
		enrolment, err := planner.CreateUser(ctx, profile)
		if err != nil {
			return err
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.people[enrolment.User.ID] = true
		if moment.After(d.last) {
			d.last = moment
		}
		return nil
	}
	return errNoZone
}
