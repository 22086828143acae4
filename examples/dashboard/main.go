// Dashboard shows package dashboard behind the login of a host. An operator may do everything.
// A viewer may look, and sees no names. It also delivers the events of the database that
// DATABASE_URL names, and serves on ADDRESS until it is interrupted.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
	_ "time/tzdata"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/dashboard"
	"github.com/almanac-go/almanac/postgres"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	pool, readers := connect(ctx, "host", 10), connect(ctx, "dashboard", 2)
	defer pool.Close()
	defer readers.Close()
	reader := must(postgres.New(readers, postgres.ReadOnly(2*time.Second)))

	monitor := dashboard.NewMonitor()
	deliver := almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { return nil }) // or package webhook
	registry := must(almanac.NewRegistry(almanac.Birthday{}))
	scheduler := must(almanac.NewScheduler(must(postgres.New(pool)), registry, almanac.WithObserver(monitor),
		almanac.WithDeliverer(almanac.ChannelWebhook, monitor.Middleware(deliver))))
	pages := must(dashboard.New(scheduler, reader, dashboard.WithMonitor(monitor), dashboard.WithTrail(reader.Audit),
		dashboard.WithContext(ctx), dashboard.WithAuthentication(principal), dashboard.WithPermissions(may)))

	mux := http.NewServeMux()
	mux.Handle("/dashboard/", login(http.StripPrefix("/dashboard", pages)))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	listener := must(net.Listen("tcp", os.Getenv("ADDRESS")))
	go func() { log.Print(server.Serve(listener)) }()
	fmt.Printf("http://%s/dashboard/\n", listener.Addr())

	check(scheduler.Run(ctx)) // until ctx is done, which also ends the streams of live pages
	check(server.Shutdown(context.Background()))
}

// principal returns the name that the log and the audit trail show.
func principal(r *http.Request) (string, bool) {
	a, ok := r.Context().Value(accountKey{}).(account)
	return a.name, ok
}

// may lets viewers look, and operators do everything.
func may(r *http.Request, wanted dashboard.Action, _ uuid.UUID) (bool, error) {
	a, _ := r.Context().Value(accountKey{}).(account)
	return a.operator || wanted == dashboard.Look, nil
}
