package main

import (
	"context"
	"crypto/subtle"
	"log"
	"net/http"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"
)

// What is here stands for what the host has anyway.

// account is a row of the host's own table of accounts.
type account struct {
	name     string
	operator bool
}

// accountKey is the key under which login puts the account into the context of a request.
type accountKey struct{}

// login stands for the login of the host. It lets through requests with a known account only.
func login(next http.Handler) http.Handler {
	accounts := map[string]string{"operator": os.Getenv("OPERATOR_PASSWORD"), "viewer": os.Getenv("VIEWER_PASSWORD")}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, password, _ := r.BasicAuth()
		want := accounts[name]
		if want == "" || subtle.ConstantTimeCompare([]byte(password), []byte(want)) == 0 {
			w.Header().Set("WWW-Authenticate", "Basic")
			http.Error(w, "Log in first.", http.StatusUnauthorized)
			return
		}
		ctx := context.WithValue(r.Context(), accountKey{}, account{name, name == "operator"})
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

func connect(ctx context.Context, name string, connections int32) *pgxpool.Pool {
	config := must(pgxpool.ParseConfig(os.Getenv("DATABASE_URL")))
	config.MaxConns = connections
	config.ConnConfig.RuntimeParams["application_name"] = name
	return must(pgxpool.NewWithConfig(ctx, config))
}

func must[T any](value T, err error) T { check(err); return value }

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
