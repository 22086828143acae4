package dashboard_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/dashboard"
)

// viewerKey is the key under which a host's login puts the name of a viewer into the context
// of a request.
type viewerKey struct{}

func Example() {
	store := almanactest.NewRepository(time.Now) // or a postgres.Store
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	if err != nil {
		panic(err)
	}
	monitor := dashboard.NewMonitor()
	deliver := almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { return nil })
	scheduler, err := almanac.NewScheduler(store, registry, almanac.WithObserver(monitor),
		almanac.WithDeliverer(almanac.ChannelWebhook, monitor.Middleware(deliver)))
	if err != nil {
		panic(err)
	}
	pages, err := dashboard.New(scheduler, store,
		dashboard.WithMonitor(monitor),
		dashboard.WithAuthentication(func(r *http.Request) (string, bool) {
			name, ok := r.Context().Value(viewerKey{}).(string) // set by the host's login
			return name, ok
		}))
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/dashboard/", http.StripPrefix("/dashboard", pages))

	for _, name := range []string{"", "grace"} {
		r := httptest.NewRequest(http.MethodGet, "/dashboard/", nil)
		if name != "" {
			r = r.WithContext(context.WithValue(r.Context(), viewerKey{}, name))
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		fmt.Println(w.Code)
	}
	// Output:
	// 401
	// 200
}
