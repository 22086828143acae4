package main

import (
	"encoding/json"
	"net/http"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgtest"
)

func TestABirthdayIsDeliveredOnceAtItsInstant(t *testing.T) {
	t.Parallel()
	const zone = "Asia/Kathmandu"
	url, h := pgtest.URL(t), listen(t, http.StatusOK)
	moment := soon(8 * time.Second)
	at := moment.In(location(t, zone))
	flags := append(h.flags(), "-database-url", url, "-deliver-at", at.Format(time.TimeOnly))
	p := launch(t, flags...)

	status, answer := p.send("POST", "/user", `{"firstName":"Ada","lastName":"Lovelace","dateOfBirth":"1992-`+
		at.Format("01-02")+`","timezone":"`+zone+`"}`)
	require.Equal(t, http.StatusCreated, status, answer)
	event := answer["nextBirthdayEvent"].(map[string]any)
	require.Equal(t, at.Format("2006-01-02T15:04:05"), event["targetTimestampLocal"])
	require.Equal(t, moment.Format("2006-01-02T15:04:05.000Z"), event["targetTimestampUTC"])

	r := h.next()
	lateness := r.at.Sub(moment)
	t.Logf("arrived %v after its instant", lateness)
	require.GreaterOrEqual(t, lateness, time.Duration(0), "it was early")
	require.Less(t, lateness, 5*time.Second)
	require.Equal(t, event["idempotencyKey"], r.key())
	var body map[string]any
	require.NoError(t, json.Unmarshal([]byte(r.body), &body))
	require.Equal(t, "Hey, Ada Lovelace it's your birthday", body["message"])

	event = p.ends(event, "COMPLETED")
	require.EqualValues(t, 3, event["version"])
	require.NotNil(t, event["executedAt"])
	series := p.series(event)
	require.Len(t, series, 2)
	next := series[1].(map[string]any)
	requireAYearLater(t, at, next)
	require.Equal(t, 0, p.stop())

	p = launch(t, flags...)
	require.Eventually(t, func() bool { return len(p.lines("No missed events found")) == 1 }, patience, pollEvery, "the log says whether there were missed events")
	other, _ := p.enrol("Pacific/Chatham")
	require.Equal(t, other["idempotencyKey"], h.next().key())
	p.ends(other, "COMPLETED")
	h.silent()
	require.Equal(t, next, p.series(event)[1])
	require.Equal(t, 0, p.stop())
}

// requireAYearLater requires that the event is pending, for the same date and time of day
// as at, one year later.
func requireAYearLater(t *testing.T, at time.Time, event map[string]any) {
	t.Helper()
	day := at.Day()
	if at.Month() == time.February && day == 29 {
		day = 28
	}
	later := time.Date(at.Year()+1, at.Month(), day, at.Hour(), at.Minute(), at.Second(), 0, at.Location())
	require.Equal(t, "PENDING", event["status"])
	require.EqualValues(t, 1, event["version"])
	require.Equal(t, later.Format("2006-01-02T15:04:05"), event["targetTimestampLocal"])
	require.Equal(t, later.UTC().Format("2006-01-02T15:04:05.000Z"), event["targetTimestampUTC"])
	require.Equal(t, later.Format("2006"), event["occurrenceKey"])
}

func TestRepeatedDeliveriesHaveOneKeyAndOneBody(t *testing.T) {
	t.Parallel()
	h := listen(t, http.StatusServiceUnavailable, http.StatusServiceUnavailable, http.StatusOK)
	p := launch(t, append(h.flags(), "-database-url", pgtest.URL(t), "-retry-first", "50ms")...)
	event, _ := p.enrol("America/St_Johns")

	first, second, third := h.next(), h.next(), h.next()

	event = p.ends(event, "COMPLETED")
	require.Equal(t, []string{first.key(), first.key()}, []string{second.key(), third.key()})
	require.Equal(t, []string{first.body, first.body}, []string{second.body, third.body})
	require.EqualValues(t, 2, event["retryCount"])
	h.silent()
	require.Equal(t, 0, p.stop())
}

func TestA404FailsOneBirthdayAndNotTheSeries(t *testing.T) {
	t.Parallel()
	h := listen(t, http.StatusNotFound)
	p := launch(t, append(h.flags(), "-database-url", pgtest.URL(t))...)
	event, moment := p.enrol("Australia/Eucla")

	h.next()

	event = p.ends(event, "FAILED")
	require.Contains(t, event["failureReason"], "404")
	require.EqualValues(t, 3, event["version"])
	series := p.series(event)
	require.Len(t, series, 2)
	requireAYearLater(t, moment.In(location(t, "Australia/Eucla")), series[1].(map[string]any))
	h.silent()
	require.Equal(t, 0, p.stop())
}

func TestStoppingLetsADeliveryEnd(t *testing.T) {
	t.Parallel()
	url, h := pgtest.URL(t), listenBehind(t, http.StatusOK)
	p := launch(t, append(h.flags(), "-database-url", url)...)
	event, _ := p.enrol("Europe/Lisbon")
	h.next()

	p.signal(syscall.SIGTERM)
	p.closed()
	require.False(t, p.ended(), "it did not wait for the delivery")
	h.free()
	require.Equal(t, 0, p.wait())

	p = launch(t, append(h.flags(), "-database-url", url)...)
	require.EqualValues(t, 3, p.ends(event, "COMPLETED")["version"])
	h.silent()
	require.Equal(t, 0, p.stop())
}

// closed waits until the API accepts no more connections.
func (p *process) closed() {
	p.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	require.Eventually(p.t, func() bool {
		response, err := client.Get(p.url + "/healthz")
		if err == nil {
			_ = response.Body.Close()
		}
		return err != nil
	}, patience, pollEvery, "it goes on listening")
}

func TestASecondSignalEndsTheProgramAtOnce(t *testing.T) {
	t.Parallel()
	h := listenBehind(t, http.StatusOK)
	p := launch(t, append(h.flags(), "-database-url", pgtest.URL(t))...)
	p.enrol("Asia/Tokyo")
	h.next()

	p.signal(syscall.SIGTERM)
	p.closed()
	began := time.Now()
	p.signal(syscall.SIGTERM) // not SIGINT, which background jobs of a shell ignore

	require.Equal(t, -1, p.wait())
	require.Less(t, time.Since(began), 5*time.Second)
}

func TestAnotherProcessDeliversTheEventsOfADeadOne(t *testing.T) {
	t.Parallel()
	url, h := pgtest.URL(t), listenBehind(t, http.StatusOK)
	flags := append(h.flags(), "-database-url", url, "-lease", "3s")
	p := launch(t, flags...)
	event, _ := p.enrol("America/Argentina/Buenos_Aires")
	first := h.next()

	p.signal(syscall.SIGKILL)
	p.wait()
	died := time.Now()
	p = launch(t, flags...)
	second := h.next()
	h.free()

	t.Logf("delivered again %v after the death, with a lease of 3s and a sweep of 1s", second.at.Sub(died))
	require.Less(t, second.at.Sub(died), 10*time.Second)
	require.Equal(t, first.key(), second.key())
	require.Equal(t, first.body, second.body)
	require.EqualValues(t, 5, p.ends(event, "COMPLETED")["version"], "claimed, released, claimed, completed")
	series := p.series(event)
	require.Len(t, series, 2)
	require.False(t, slices.ContainsFunc(series[1:], func(e any) bool {
		return e.(map[string]any)["idempotencyKey"] == first.key()
	}))
	h.silent()
	require.Equal(t, 0, p.stop())
}
