package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/almanac-go/almanac"
)

const (
	demoUsers   = 300
	demoLead    = 2 * time.Second // when the first greeting is due, about
	demoSeconds = 4               // the greetings are due at this many full seconds
	demoMakers  = 8               // users created at once
	shortNotice = time.Second     // each user is created at least this long before their greeting
)

// populate creates the users, several at once, in the order of their greetings.
func (d *demo) populate(ctx context.Context, planner almanac.Planner, c clock) error {
	first := c.now().Add(demoLead).Truncate(time.Second).Add(time.Second)
	numbers := make(chan int)
	errs := make([]error, demoMakers)
	var making sync.WaitGroup
	for m := range demoMakers {
		making.Go(func() {
			for i := range numbers {
				if errs[m] != nil {
					continue // one error is enough
				}
				moment := first.Add(time.Duration(i*demoSeconds/demoUsers) * time.Second)
				for moment.Before(c.now().Add(shortNotice)) { // on a slow machine
					moment = moment.Add(time.Second)
				}
				errs[m] = d.enrol(ctx, planner, i, moment)
			}
		})
	}
	for i := range demoUsers {
		numbers <- i
	}
	close(numbers)
	making.Wait()
	return errors.Join(errs...)
}

var errNoZone = errors.New("no zone shows this moment once")

// enrol creates and stores the user of that number. The user's zone is the next one in
// which the wall time identifies the moment.
func (d *demo) enrol(ctx context.Context, planner almanac.Planner, i int, moment time.Time) error {
	names := zones()
	for skipped := range names {
		profile, ok := birthdayUser(i, names[(i+skipped)%len(names)], moment)
		if !ok {
			continue
		}
		enrolment, err := planner.CreateUser(ctx, profile)
		if err != nil {
			return err
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.users[enrolment.User.ID] = true
		if moment.After(d.last) {
			d.last = moment
		}
		return nil
	}
	return errNoZone
}
