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

// metricsPath is where Prometheus looks.
const metricsPath = "/metrics"

// scrapesAtOnce bounds what scrapers can take up; the others are told to come again.
const scrapesAtOnce = 4

// metricsConfig says who is told how the program does.
type metricsConfig struct {
	on    bool
	token string
}

// metrics are what the program tells Prometheus.
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

// watch adds how the scheduler does, and what waits in the database.
func (m metrics) watch(d *deployment, types almanac.Registry) error {
	backlog, err := almanacprom.NewBacklog(d.store, types)
	if err != nil {
		return err
	}
	m.registry.MustRegister(almanacprom.NewHealth(d.scheduler, d.answers), backlog)
	return nil
}

// beside serves the metrics to whom auth lets in, and leaves all other requests to
// the API. They are no part of the API: who watches the program may not be who
// keeps people, and is not counted among its requests.
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
		if none, ok := auth.(httpapi.NoAuthentication); ok && !none.Answers(r.Host) {
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

// metricsAuthenticator lets in whoever knows the token of the metrics, or that of the
// API, which opens everything; everybody when there is neither.
func (c *config) metricsAuthenticator() httpapi.Authenticator {
	if c.apiToken == "" && c.metrics.token == "" {
		return httpapi.NoAuthentication{}
	}
	return httpapi.BearerToken(c.apiToken, c.metrics.token)
}
