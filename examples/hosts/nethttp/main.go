// Nethttp is a shop on net/http. Its signup stores the shop's customer and Almanac's user in
// one transaction. Almanac's API is below /staff/almanac, behind the shop's own login.
// Under load, give Run a pool of its own, as docs/embedding.md says under "Pools".
package main

import (
	"context"
	"crypto/subtle"
	"errors"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	_ "time/tzdata"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/httpapi"
	"github.com/almanac-go/almanac/postgres"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	pool := must(pgxpool.New(ctx, os.Getenv("DATABASE_URL")))
	defer pool.Close()
	serve(ctx, pool, must(net.Listen("tcp", "localhost:8080")))
}

// serve answers requests and delivers until ctx is done. What is under way may finish.
func serve(ctx context.Context, pool *pgxpool.Pool, l net.Listener) {
	check(postgres.Migrate(ctx, pool))
	must(pool.Exec(ctx, "CREATE TABLE IF NOT EXISTS customers (id uuid PRIMARY KEY, email text UNIQUE)"))
	store := must(postgres.New(pool))
	greet := almanac.DelivererFunc(func(_ context.Context, d almanac.Delivery) error {
		log.Printf("to %s: %s", d.User.Email, d.Event.Payload)
		return nil // an error would be tried again
	})
	scheduler := must(almanac.NewScheduler(store, must(almanac.NewRegistry(almanac.Birthday{})),
		almanac.WithDeliverer(almanac.ChannelWebhook, greet)))
	api := http.StripPrefix("/staff/almanac", must(httpapi.New(scheduler, store, staff{})))
	mux := http.NewServeMux()
	mux.Handle("POST /signup", signup(pool, scheduler))
	mux.Handle("/staff/almanac/", login(api))
	server := httpapi.Server("", mux) // with limits for slow clients

	var running sync.WaitGroup
	running.Go(func() { check(scheduler.Run(ctx)) })
	running.Go(func() { <-ctx.Done(); check(server.Shutdown(context.WithoutCancel(ctx))) })
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
	running.Wait()
}

// signup stores the customer and the user, or neither. An error of either side ends both.
func signup(pool *pgxpool.Pool, scheduler almanac.Scheduler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p := almanac.Profile{FirstName: r.PostFormValue("first"), LastName: r.PostFormValue("last"),
			Email: r.PostFormValue("email"), DateOfBirth: r.PostFormValue("born"), Timezone: r.PostFormValue("zone")}
		err := pgx.BeginFunc(r.Context(), pool, func(tx pgx.Tx) error {
			created, err := scheduler.With(must(postgres.New(tx))).CreateUser(r.Context(), p)
			if err != nil {
				return err
			}
			_, err = tx.Exec(r.Context(), "INSERT INTO customers VALUES ($1, $2)", created.User.ID, p.Email)
			return err
		})
		var refused *pgconn.PgError
		switch {
		case errors.Is(err, almanac.ErrInvalid): // it names every bad field
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		case errors.As(err, &refused) && refused.ConstraintName == "customers_email_key":
			http.Error(w, "this address has an account", http.StatusConflict)
		case err != nil:
			log.Print("signup: ", err)
			http.Error(w, "please try again", http.StatusInternalServerError)
		default:
			w.WriteHeader(http.StatusCreated)
		}
	}
}

// login stands for the login that the shop has already.
func login(next http.Handler) http.Handler {
	password := os.Getenv("STAFF_PASSWORD")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, given, _ := r.BasicAuth()
		if password == "" || subtle.ConstantTimeCompare([]byte(given), []byte(password)) == 0 {
			w.Header().Set("WWW-Authenticate", `Basic realm="staff"`)
			http.Error(w, "log in first", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), staff{}, true)))
	})
}

// staff lets those into the API whom login has let in. Without login before it, it refuses all requests.
type staff struct{}

func (staff) Authenticate(r *http.Request) (string, bool) {
	return `Basic realm="staff"`, r.Context().Value(staff{}) != nil
}

func must[T any](value T, err error) T { check(err); return value }

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
