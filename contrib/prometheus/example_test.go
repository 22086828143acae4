package almanacprom_test

import (
	"context"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/almanac-go/almanac"
	almanacprom "github.com/almanac-go/almanac/contrib/prometheus"
)

// watched is a scheduler whose metrics a handler serves.
func watched(store almanac.Repository, types almanac.Registry, deliverer almanac.Deliverer) (almanac.Scheduler, http.Handler, error) {
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

// The three collectors belong to one scheduler, and are registered where the host's
// other metrics are.
func Example() {
	var store almanac.Repository // package postgres has one
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
