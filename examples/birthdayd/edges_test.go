package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgtest"
)

// dial opens a connection to the API for raw requests.
func (p *process) dial() *net.TCPConn {
	p.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	require.NoError(p.t, err)
	p.t.Cleanup(func() { _ = c.Close() }) // the server may have closed it already
	require.NoError(p.t, c.SetDeadline(time.Now().Add(patience)))
	return c.(*net.TCPConn)
}

// status writes a raw request and returns the status of the answer.
func (p *process) status(request string) int {
	p.t.Helper()
	c := p.dial()
	_, err := io.WriteString(c, request)
	require.NoError(p.t, err)
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(p.t, err)
	require.NoError(p.t, answer.Body.Close())
	return answer.StatusCode
}

// A web page whose host name resolves to 127.0.0.1 has the same origin as the API. Its
// requests carry its name as Host.
func TestWithoutATokenOnlyLoopbackHostsAreAnswered(t *testing.T) {
	t.Parallel()
	p := launch(t, append(listen(t, http.StatusOK).flags(), "-database-url", pgtest.URL(t))...)
	body := newborn("{}")
	for host, answered := range map[string]bool{
		"127.0.0.1": true, "localhost:8080": true, "LOCALHOST.": true, "[::1]:80": true, "127.9.9.9": true,
		"evil.example": false, "evil.example:8080": false, "localhost.evil.example": false, "127.0.0.1.evil.example": false,
		"192.0.2.1": false, "0.0.0.0": false, "[2001:db8::1]:80": false,
	} {
		for _, path := range []string{"/events", "/readyz", "/metrics", "/nowhere"} {
			status := p.status(fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, host))
			require.Equal(t, answered, status != http.StatusMisdirectedRequest, "%s of %s: %d", path, host, status)
		}
		status := p.status(fmt.Sprintf("POST /user HTTP/1.1\r\nHost: %s\r\nOrigin: http://%s\r\nContent-Length: %d\r\n\r\n%s", host, host, len(body), body))
		want := http.StatusMisdirectedRequest
		if answered {
			want = http.StatusCreated
		}
		require.Equal(t, want, status, host)
	}
	require.Equal(t, 0, p.stop())
}

// A web page of another name does not have the token.
func TestWithATokenEveryHostIsAnswered(t *testing.T) {
	t.Parallel()
	p := launch(t, append(listen(t, http.StatusOK).flags(), "-database-url", pgtest.URL(t), "-api-token", apiToken)...)
	status := p.status("GET /events HTTP/1.1\r\nHost: greeter.example\r\nAuthorization: Bearer " + apiToken + "\r\n\r\n")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, 0, p.stop())
}

// A proxy that forwards the request by its Content-Length sees another end of it.
func TestAnAmbiguousLengthEndsTheConnection(t *testing.T) {
	t.Parallel()
	p := launch(t, append(listen(t, http.StatusOK).flags(), "-database-url", pgtest.URL(t))...)
	for _, target := range []string{"POST /user", "POST /metrics", "GET /events"} {
		c := p.dial()
		_, err := io.WriteString(c, target+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"+
			"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		require.NoError(t, err)

		answers, err := io.ReadAll(c)

		require.NoError(t, err, "the connection stays open")
		require.Equal(t, 1, strings.Count(string(answers), "HTTP/1.1 "), "%s", answers)
	}
	require.Equal(t, 0, p.stop())
}

// Such a client requests more data than socket buffers hold.
func TestAClientThatReadsNothingDoesNotFailTheStop(t *testing.T) {
	t.Parallel()
	p := launch(t, append(listen(t, http.StatusOK).flags(), "-database-url", pgtest.URL(t), "-log-level", "debug")...)
	status, answer := p.send("POST", "/user", newborn(`{"long":"`+strings.Repeat("x", 60<<10)+`"}`))
	require.Equal(t, http.StatusCreated, status)
	c := p.dial()
	require.NoError(t, c.SetReadBuffer(4<<10))
	go func() {
		ask := "GET /user/" + answer["user"].(map[string]any)["id"].(string) + " HTTP/1.1\r\nHost: localhost\r\n\r\n"
		_, _ = io.WriteString(c, strings.Repeat(ask, 2000)) // it ends with the connection
	}()
	before := 0
	full := func() bool { // the buffers on the way are full
		served := len(p.lines("request"))
		defer func() { before = served }()
		return served > 1 && served == before
	}
	require.Eventually(t, full, patience, time.Second)

	p.signal(syscall.SIGTERM)

	require.Equal(t, 0, p.wait())
	require.Len(t, p.lines("closed the connections of clients that did not read their answers in time"), 1)
}

// lockUser locks the row of a user until the test ends or release is called.
func lockUser(t *testing.T, db *pgxpool.Pool, id any) (release func()) {
	t.Helper()
	tx, err := db.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT FROM almanac.users WHERE id = $1 FOR UPDATE", id)
	require.NoError(t, err)
	release = sync.OnceFunc(func() { _ = tx.Rollback(t.Context()) })
	t.Cleanup(release)
	return release
}

func TestEditsOfLockedUsersDelayNoOtherUser(t *testing.T) {
	t.Parallel()
	for name, users := range map[string]int{"one user": 1, "ten users": 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			p := launch(t, append(listen(t, http.StatusOK).flags(), "-database-url", url)...)
			p.says("/readyz", http.StatusOK)
			db, err := pgxpool.New(t.Context(), pgtest.Direct(t, url)+"&pool_max_conns=12")
			require.NoError(t, err)
			t.Cleanup(db.Close) // after the locks are released
			var paths []string
			var releases []func()
			for range users {
				_, answer := p.send("POST", "/user", newborn("{}"))
				id := answer["user"].(map[string]any)["id"].(string)
				paths, releases = append(paths, "/user/"+id), append(releases, lockUser(t, db, id))
			}
			_, answer := p.send("POST", "/user", newborn("{}"))
			other := "/user/" + answer["user"].(map[string]any)["id"].(string)

			statuses := make(chan int, 10)
			for i := range 10 {
				go func() {
					status, answer := p.send("PUT", paths[i%users], `{"firstName":"B"}`)
					if status != http.StatusConflict || !strings.Contains(fmt.Sprint(answer["type"]), "Locked") {
						t.Errorf("edit of a locked user: %d, %v", status, answer)
					}
					statuses <- status
				}()
			}
			slowest := make(map[string]time.Duration)
			for answered := 0; answered < 10; {
				select {
				case <-statuses:
					answered++
				default:
				}
				for _, request := range [][]string{{"GET", "/readyz", "200"}, {"GET", "/events?limit=1", "200"}, {"GET", other, "200"}, {"PUT", other, "200"}} {
					began := time.Now()
					status, answer := p.send(request[0], request[1], `{"firstName":"C"}`)
					require.Equal(t, request[2], fmt.Sprint(status), "%v %v", request, answer)
					slowest[request[0]] = max(slowest[request[0]], time.Since(began))
				}
			}
			t.Logf("slowest while they wait: %v", slowest)
			require.Less(t, slowest["GET"], 2*time.Second)
			require.Less(t, slowest["PUT"], 4*time.Second)

			for _, release := range releases {
				release()
			}
			status, _ := p.send("PUT", paths[0], `{"firstName":"B"}`)
			require.Equal(t, http.StatusOK, status)
			require.Equal(t, 0, p.stop())
		})
	}
}

func TestRefusedRequestsAreCounted(t *testing.T) {
	t.Parallel()
	p := launch(t, append(listen(t, http.StatusOK).flags(), "-database-url", pgtest.URL(t), "-api-token", apiToken, "-api-rate", "2")...)
	statuses := make(map[int]int)
	for range 50 {
		status, _ := p.send("GET", "/events", "")
		statuses[status]++
	}
	require.Positive(t, statuses[http.StatusTooManyRequests], "%v", statuses)
	status, _ := p.send("GET", "/events", "", "Authorization: Bearer "+apiToken)
	require.Equal(t, http.StatusOK, status, "who has the token does not pay for it")
	require.Equal(t, 0, p.stop())
}

func TestTheBurstAddsToTheRateOnlyOnce(t *testing.T) {
	t.Parallel()
	const rate = 100
	p := launch(t, append(listen(t, http.StatusOK).flags(), "-database-url", pgtest.URL(t), "-api-rate", fmt.Sprint(rate))...)
	c := p.dial()
	began := time.Now()
	go func() {
		_, _ = io.WriteString(c, strings.Repeat("GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n", 20*rate))
	}()
	answered, answers := 0, bufio.NewReader(c)
	for range 20 * rate {
		answer, err := http.ReadResponse(answers, nil)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, answer.Body)
		require.NoError(t, err)
		if answer.StatusCode != http.StatusTooManyRequests {
			answered++
		}
	}
	took := time.Since(began)
	t.Logf("%d answered in %v", answered, took)
	require.LessOrEqual(t, float64(answered), rate*took.Seconds()+rate/10+1)
	require.Equal(t, 0, p.stop())
}

func TestReadinessMetricAndProbeAgree(t *testing.T) {
	t.Parallel()
	w := lay(t, pgtest.URL(t))
	p := launch(t, append(listen(t, http.StatusOK).flags(), "-database-url", w.url)...) // a lease of a minute: workers are patient
	p.says("/readyz", http.StatusOK)
	_, text := p.scrape("")
	require.Contains(t, text, "\nalmanac_ready 1")

	w.cut()
	p.says("/readyz", http.StatusServiceUnavailable)

	_, text = p.scrape("")
	require.Contains(t, text, "\nalmanac_ready 0")
	w.mend()
	p.says("/readyz", http.StatusOK)
	require.Equal(t, 0, p.stop())
}

func TestAnInvalidTimeOfDayIsRefused(t *testing.T) {
	t.Parallel()
	p := launch(t, append(listen(t, http.StatusOK).flags(), "-database-url", pgtest.URL(t))...)
	status, answer := p.send("POST", "/user", newborn(`{"deliverAt":"08:30"}`))
	require.Equal(t, http.StatusCreated, status)
	path := "/user/" + answer["user"].(map[string]any)["id"].(string)
	for _, bad := range []string{`"25:99"`, `"24:00"`, `"9"`, `9`, `""`, `{}`, `"09:00:60"`} {
		for _, request := range [][]string{
			{"POST", "/user", newborn(`{"deliverAt":` + bad + `}`)}, {"PUT", path, `{"attributes":{"deliverAt":` + bad + `}}`},
			{"PATCH", path, `{"attributes":{"deliverAt":` + bad + `}}`, "Content-Type: application/merge-patch+json"},
		} {
			status, answer := p.send(request[0], request[1], request[2], request[3:]...)

			require.Equal(t, http.StatusBadRequest, status, request)
			require.Equal(t, "attributes.deliverAt", answer["errors"].([]any)[0].(map[string]any)["field"])
		}
	}
	status, answer = p.send("POST", "/user", `{"firstName":"","attributes":{"deliverAt":"25:99"}}`)
	require.Equal(t, http.StatusBadRequest, status)
	require.Len(t, answer["errors"], 5, "%v", answer["errors"])
	status, _ = p.send("PATCH", path, `{"attributes":{"deliverAt":null}}`, "Content-Type: application/merge-patch+json")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, 0, p.stop())
}
