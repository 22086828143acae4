package main

import (
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/almanac-go/almanac"
	almanacprom "github.com/almanac-go/almanac/contrib/prometheus"
	"github.com/almanac-go/almanac/httpapi"
)

// metricsPath is the path that Prometheus scrapes.
const metricsPath = "/metrics"

// scrapesAtOnce bounds concurrent scrapes; further ones are refused with a request to retry.
const scrapesAtOnce = 4

// metricsConfig is the configuration of the metrics.
type metricsConfig struct {
	on    bool
	token string
}

// metrics are the program's Prometheus metrics.
type metrics struct {
	registry *prometheus.Registry
	events   *almanacprom.Events
}

func newMetrics(types almanac.Registry) metrics {
	m := metrics{prometheus.NewRegistry(), almanacprom.NewEvents(types)}
	m.registry.MustRegister(m.events, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// watch adds the metrics of the scheduler's health and of the backlog in the database.
func (m metrics) watch(d *deployment, types almanac.Registry) error {
	backlog, err := almanacprom.NewBacklog(d.store, types)
	if err != nil {
		return err
	}
	m.registry.MustRegister(almanacprom.NewHealth(d.scheduler, d.answers), backlog)
	return nil
}

// beside serves the metrics to requests that auth lets in, and passes all other requests to
// the API. The metrics are separate from the API: their readers may not be allowed to
// change users, and do not count as its requests.
func (m metrics) beside(api http.Handler, auth httpapi.Authenticator, log *slog.Logger) http.Handler {
	tell := promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: scrapesAtOnce,
		EnableOpenMetrics:   true,
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != metricsPath {
			api.ServeHTTP(w, r)
			return
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		httpapi.CloseAfterChunks(w, r)
		if none, ok := auth.(httpapi.NoAuthentication); ok && !none.AllowsHost(r.Host) {
			http.Error(w, "without a token only localhost and loopback addresses are answered", http.StatusMisdirectedRequest)
			return
		}
		if challenge, ok := auth.Authenticate(r); !ok {
			w.Header().Set("Www-Authenticate", challenge)
			http.Error(w, "the metrics ask for a bearer token", http.StatusUnauthorized)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "metrics can be read only", http.StatusMethodNotAllowed)
			return
		}
		tell.ServeHTTP(w, r)
	})
}
