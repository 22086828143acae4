package almanacprom_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	almanacprom "github.com/almanac-go/almanac/contrib/prometheus"
	"github.com/almanac-go/almanac/ops"
)

// statisticsStore is a repository with statistics. A postgres.Store is one.
type statisticsStore interface {
	almanac.Repository
	ops.Statistics
}

// watched returns a scheduler, and a handler that serves its metrics.
func watched(store statisticsStore, types almanac.Registry, deliverer almanac.Deliverer) (almanac.Scheduler, http.Handler, error) {
	events := almanacprom.NewEvents(types)
	backlog, err := almanacprom.NewBacklog(store, types)
	if err != nil {
		return nil, nil, err
	}
	scheduler, err := almanac.NewScheduler(store, types,
		almanac.WithObserver(events),
		almanac.WithDeliverer(almanac.ChannelWebhook, events.Middleware(deliverer)))
	if err != nil {
		return nil, nil, err
	}
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(events, almanacprom.NewHealth(scheduler), backlog)
	return scheduler, promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}), nil
}

// The three collectors belong to one scheduler. Register them in the registry of the host's
// other metrics.
func Example() {
	var store statisticsStore // package postgres has one
	types, err := almanac.NewRegistry(almanac.Birthday{})
	if err != nil {
		panic(err)
	}
	deliverer := almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { return nil })
	scheduler, metrics, err := watched(store, types, deliverer)
	if err != nil {
		panic(err)
	}
	http.Handle("/metrics", metrics)
	_ = scheduler.Run(context.Background())
}

// birthdays is a registry of one type.
func birthdays() almanac.Registry {
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	if err != nil {
		panic(err)
	}
	return registry
}

// show prints one metric of a collector.
func show(c prometheus.Collector, metric string) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		panic(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == metric {
				fmt.Println(metric, m.GetLabel(), m.GetGauge().GetValue()+m.GetCounter().GetValue())
			}
		}
	}
}

// Events counts stored changes, and measures each delivery.
func ExampleEvents() {
	events := almanacprom.NewEvents(birthdays())
	refused := events.Middleware(almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { return errors.New("receiver answered 503") }))
	e := almanac.Event{Type: almanac.TypeBirthday, Due: time.Now()}
	_ = refused.Deliver(context.Background(), almanac.Delivery{Event: e, Attempt: 1, At: time.Now()})
	events.Observe(context.Background(), almanac.Notice{Kind: almanac.EventCreated, Event: e})
	fmt.Println(testutil.CollectAndCount(events) > 0)
	// Output: true
}

// down is a scheduler that cannot store outcomes.
type down struct{}

func (down) Health() almanac.Health {
	return almanac.Health{Running: true, Workers: 100, Held: 7, Patience: 30 * time.Second, Settle: almanac.Failure{For: time.Minute}}
}

func ExampleHealth() {
	health := almanacprom.NewHealth(down{})
	show(health, "almanac_ready")
	show(health, "almanac_events_held")
	// Output:
	// almanac_ready [] 0
	// almanac_events_held [] 7
}

// A scheduler is a Runner, and so is any type with the method.
func ExampleRunner() {
	var r almanacprom.Runner = down{}
	show(almanacprom.NewHealth(r), "almanac_workers")
	// Output: almanac_workers [] 100
}

// overdue is a repository with an event that has been ready for a minute.
func overdue() almanacprom.Store {
	now := time.Date(2027, time.March, 15, 14, 0, 0, 0, time.UTC)
	repository, ada := almanactest.NewRepository(func() time.Time { return now }), almanactest.User()
	if _, _, err := almanactest.CreateUser(context.Background(), repository, ada, almanactest.Event(now, almanactest.For(ada), almanactest.ReadyFor(time.Minute))); err != nil {
		panic(err)
	}
	return repository
}

func ExampleBacklog() {
	backlog, err := almanacprom.NewBacklog(overdue(), birthdays())
	if err != nil {
		panic(err)
	}
	show(backlog, "almanac_backlog_events")
	show(backlog, "almanac_backlog_oldest_age_seconds")
	// Output:
	// almanac_backlog_events [] 1
	// almanac_backlog_oldest_age_seconds [] 60
}

// NewBacklog reports every setting that is out of bounds.
func ExampleBacklogOption() {
	_, err := almanacprom.NewBacklog(overdue(), birthdays(), almanacprom.WithAge(-time.Second), almanacprom.WithDeadline(0))
	fmt.Println(err)
	// Output:
	// almanacprom: age of -1s is negative
	// almanacprom: deadline of 0s is not positive
}

// away is a database that does not answer.
type away struct{ almanacprom.Store }

func (away) Missed(context.Context, []string, time.Duration) (almanac.Missed, error) {
	return almanac.Missed{}, context.DeadlineExceeded
}

// A value that cannot be read is absent, and the error is counted.
func ExampleStore() {
	backlog, err := almanacprom.NewBacklog(away{overdue()}, birthdays())
	if err != nil {
		panic(err)
	}
	show(backlog, "almanac_backlog_events")
	show(backlog, "almanac_backlog_oldest_age_seconds")
	// Output: almanac_backlog_oldest_age_seconds [] 60
}
