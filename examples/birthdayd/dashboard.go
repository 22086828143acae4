package main

import (
	"context"
	"log/slog"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac/dashboard"
	"github.com/almanac-go/almanac/httpapi"
	"github.com/almanac-go/almanac/postgres"
)

// dashboardPath is the path of the dashboard's first page.
const dashboardPath = "/dashboard/"

// dashboardConfig is the configuration of the dashboard.
type dashboardConfig struct {
	on    bool
	names bool // whether it shows names, addresses and payloads
}

func (c *dashboardConfig) settings() []setting {
	return []setting{
		{name: "dashboard", preset: "true", take: takeSwitch(&c.on),
			usage: "serve a dashboard for operators at /dashboard/, which asks for the API's token"},
		{name: "dashboard-names", preset: "false", take: takeSwitch(&c.names),
			usage: "show names, addresses and payloads of users in the dashboard"},
	}
}

// addDashboard adds the dashboard to the HTTP server. It reads on connections of its own, so
// that viewers delay neither deliveries nor the API. Changes by operators, their dry runs and
// previews, and the list of pauses use the API's connections for edits.
func (d *deployment) addDashboard(c config, p pools, log *slog.Logger) error {
	if !c.api.dashboard.on {
		return nil
	}
	if short := len(c.api.token); short > 0 && short < minToken { // allowed on loopback only
		log.Warn("no dashboard: it needs an -api-token of at least 16 bytes, or none")
		return nil
	}
	look, err := postgres.New(p.look, postgres.ReadOnly(0))
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	d.server.RegisterOnShutdown(stop) // otherwise the server would wait for streams
	options := []dashboard.Option{
		dashboard.WithLogger(log), dashboard.WithMonitor(d.monitor), dashboard.WithTrail(look.Audit), dashboard.WithContext(ctx),
	}
	if c.api.token == "" {
		options = append(options, dashboard.AllowAll())
	} else {
		options = append(options, dashboard.WithTokenLogin(c.api.token))
	}
	if c.api.dashboard.names || c.demo { // the users of the demo are made up
		options = append(options, dashboard.WithPermissions(func(*http.Request, dashboard.Action, uuid.UUID) (bool, error) { return true, nil }))
	}
	pages, err := dashboard.New(d.planner, look, options...)
	if err != nil {
		stop()
		return err
	}
	api := d.server.Handler
	mounted := http.StripPrefix(strings.TrimSuffix(dashboardPath, "/"), pages)
	d.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == strings.TrimSuffix(dashboardPath, "/") || strings.HasPrefix(r.URL.Path, dashboardPath) {
			httpapi.CloseAfterChunks(w, r)
			mounted.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
	return nil
}
