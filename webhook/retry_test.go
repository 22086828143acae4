package webhook_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/webhook"
)

// A wait is compared with an error of almanac.RetryAfter or almanac.Busy, because the wait itself cannot be
// read.
func TestDeliverPassesOnRetryAfter(t *testing.T) {
	t.Parallel()
	// Far from the machine's clock: a date counts from the time of the attempt.
	at := time.Date(2031, 3, 29, 1, 0, 0, 0, time.UTC)
	tests := map[string]struct {
		code  int
		value string
		want  time.Duration // zero means none
	}{
		"seconds":                  {429, "120", 2 * time.Minute},
		"a date":                   {503, "Sat, 29 Mar 2031 01:00:30 GMT", 30 * time.Second},
		"with a redirect":          {301, "60", time.Minute},
		"with any failure of its":  {500, "60", time.Minute},
		"ten years":                {429, "315360000", 24 * time.Hour},
		"a date in ten years":      {429, "Thu, 29 Mar 2041 01:00:00 GMT", 24 * time.Hour},
		"more than a number holds": {429, "99999999999999999999999999", 24 * time.Hour},
		"no time at all":           {429, "0", 0},
		"a date that has passed":   {429, "Sat, 29 Mar 2031 00:59:59 GMT", 0},
		"less than nothing":        {429, "-5", 0},
		"a fraction":               {429, "1.5", 0},
		"words":                    {429, "soon", 0},
		"nothing":                  {429, "", 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := listen(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", tt.value)
				w.WriteHeader(tt.code)
			})

			err := deliverer(t, r.URL).Deliver(t.Context(), greeting(at))

			want := error(&webhook.StatusError{Code: tt.code})
			switch {
			case tt.want > 0 && (tt.code == 429 || tt.code == 503):
				want = almanac.Busy(tt.want, want)
			case tt.want > 0:
				want = almanac.RetryAfter(tt.want, want)
			}
			require.Equal(t, want, err)
		})
	}
}

func TestDeliverIgnoresRetryAfterOfFinalStatuses(t *testing.T) {
	t.Parallel()
	r := listen(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "60")
		w.WriteHeader(http.StatusGone)
	})
	err := deliverer(t, r.URL).Deliver(t.Context(), greeting(time.Now()))
	require.Equal(t, almanac.Permanent(&webhook.StatusError{Code: http.StatusGone}), err)
	require.EqualError(t, err, "webhook: receiver answered 410 Gone")
}

func TestStatusErrorHandlesUnknownStatuses(t *testing.T) {
	t.Parallel()
	require.EqualError(t, &webhook.StatusError{Code: 599}, "webhook: receiver answered 599")
}
