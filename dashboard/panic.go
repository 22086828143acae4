package dashboard

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"
)

// tracked knows whether an answer has begun.
type tracked struct {
	http.ResponseWriter
	began bool
}

func (t *tracked) WriteHeader(status int) {
	t.began = true
	t.ResponseWriter.WriteHeader(status)
}

func (t *tracked) Write(p []byte) (int, error) {
	t.began = true
	return t.ResponseWriter.Write(p)
}

// Unwrap is for [http.ResponseController].
func (t *tracked) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// began reports whether an answer has begun. Then no other can be sent, and aborting the
// connection is the only way to show that it is not complete.
func began(w http.ResponseWriter) bool {
	t, ok := w.(*tracked)
	return ok && t.began
}

// panicError is a panic of a page. It names the type of the value only, since the value may
// be about a user. The texts of the runtime have no data.
type panicError struct {
	cause string
	stack []byte
}

func (e *panicError) Error() string { return "dashboard: panic: " + e.cause + "\n" + string(e.stack) }

func newPanicError(cause any) *panicError {
	text := fmt.Sprintf("%T", cause)
	if known, ok := cause.(runtime.Error); ok {
		text = known.Error()
	}
	return &panicError{text, debug.Stack()}
}

// recovered makes a call whose panic becomes an error. Goroutines of the dashboard need it, because no server
// recovers them.
func recovered[T any](call func() (T, error)) (result T, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = newPanicError(cause)
		}
	}()
	return call()
}

// panicked answers a request whose page has panicked.
func (d *dashboard) panicked(w http.ResponseWriter, r *request, cause any) {
	if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(cause)
	}
	err := newPanicError(cause)
	if began(w) {
		d.log.ErrorContext(r.Context(), "Dashboard request failed", slog.String("route", r.Pattern), slog.Any("error", err))
		panic(http.ErrAbortHandler)
	}
	d.fail(w, r, err)
}
