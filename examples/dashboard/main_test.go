package main

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// The test binary runs the program itself on request.
func TestMain(m *testing.M) {
	if os.Getenv("DASHBOARD") != "" {
		main()
		return
	}
	pgtest.Main(m)
}

// program is a running example, before a database with one user and a pending event.
type program struct {
	*exec.Cmd
	url   string
	log   *bytes.Buffer // complete once the program has ended
	store *postgres.Store
	pool  *pgxpool.Pool
	user  almanac.User
	event almanac.Event
}

func start(t *testing.T) program {
	t.Helper()
	return startAt(t, pgtest.URL(t))
}

func startAt(t *testing.T, address string) program {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), address)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	store, err := postgres.New(pool)
	require.NoError(t, err)
	u := almanactest.User()
	e := almanactest.Event(time.Now().Add(24*time.Hour), almanactest.For(u))
	almanactest.Store(t, store, u, e)

	p := program{Cmd: exec.CommandContext(t.Context(), os.Args[0]), log: new(bytes.Buffer), store: store, pool: pool, user: u, event: e}
	p.Env = append(os.Environ(), "DASHBOARD=1", "DATABASE_URL="+address, "ADDRESS=127.0.0.1:0", "OPERATOR_PASSWORD=lets-operate", "VIEWER_PASSWORD=lets-look")
	p.Stderr = p.log
	out, err := p.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	p.url = strings.TrimSpace(line)
	return p
}

// send sends a request. A password of "" sends none.
func (p program) send(t *testing.T, method, path, name, password string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, p.url+path, nil)
	require.NoError(t, err)
	if name != "" {
		r.SetBasicAuth(name, password)
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}

// look returns the status and the text of a page.
func (p program) look(t *testing.T, path, name, password string) (int, string) {
	t.Helper()
	answer := p.send(t, http.MethodGet, path, name, password)
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(text)
}

// stop ends the program as a supervisor does.
func (p program) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	require.NoError(t, p.Wait(), "it drains and exits with success:\n%s", p.log)
}

func TestOnlyAccountsOfTheHostSeeThePages(t *testing.T) {
	t.Parallel()
	p := start(t)
	for _, other := range []struct{ name, password string }{
		{"", ""}, {"operator", ""}, {"operator", "lets-look"}, {"viewer", "lets-operate"}, {"nobody", ""}, {"nobody", "lets-look"},
	} {
		answer := p.send(t, http.MethodGet, "", other.name, other.password)
		require.Equal(t, http.StatusUnauthorized, answer.StatusCode, other)
		require.Equal(t, "Basic", answer.Header.Get("WWW-Authenticate"))
	}

	status, text := p.look(t, "", "viewer", "lets-look")

	require.Equal(t, http.StatusOK, status)
	require.Contains(t, text, "<h1>Now</h1>")
	require.Eventually(t, func() bool { // once the workers have verified the schema
		_, text := p.look(t, "", "viewer", "lets-look")
		return strings.Contains(text, "This process is healthy.")
	}, time.Minute, 50*time.Millisecond)
	p.stop(t)
}

func TestViewersSeeNoNamesAndOperatorsDo(t *testing.T) {
	t.Parallel()
	p := start(t)
	for _, page := range []string{"users/" + p.user.ID.String(), "events/" + p.event.ID.String(), "users"} {
		status, text := p.look(t, page, "viewer", "lets-look")
		require.Equal(t, http.StatusOK, status, page)
		require.NotContains(t, text, "Lovelace", page)

		status, text = p.look(t, page, "operator", "lets-operate")
		require.Equal(t, http.StatusOK, status, page)
		require.Contains(t, text, "Lovelace", page)
	}
	p.stop(t)
}

func TestViewersMayNotCancelAndOperatorsMay(t *testing.T) {
	t.Parallel()
	p := start(t)
	cancel := "events/" + p.event.ID.String() + "/cancel"
	is := func(want almanac.Status) {
		t.Helper()
		e, err := p.store.Event(t.Context(), p.event.ID)
		require.NoError(t, err)
		require.Equal(t, want, e.Status)
	}

	require.Equal(t, http.StatusForbidden, p.send(t, http.MethodPost, cancel, "viewer", "lets-look").StatusCode)
	is(almanac.Pending)
	require.Equal(t, http.StatusSeeOther, p.send(t, http.MethodPost, cancel, "operator", "lets-operate").StatusCode)
	is(almanac.Cancelled)

	p.stop(t)
	require.Regexp(t, "Dashboard change.* principal=operator .*"+p.event.ID.String(), p.log)
	require.NotContains(t, p.log.String(), "principal=viewer")
}

// Pages are read by the dashboard's own connections, of which there are two. A pooler would have others.
func TestPagesAreReadByTwoConnections(t *testing.T) {
	t.Parallel()
	p := startAt(t, pgtest.Direct(t, pgtest.URL(t)))
	var group sync.WaitGroup
	for range 32 {
		group.Go(func() {
			status, _ := p.look(t, "events/"+p.event.ID.String(), "viewer", "lets-look")
			assert.Contains(t, []int{http.StatusOK, http.StatusGatewayTimeout}, status, "on a busy machine, the last ones take too long")
		})
	}
	group.Wait()

	var open, reading int
	require.NoError(t, p.pool.QueryRow(t.Context(), `
		SELECT count(*), count(*) FILTER (WHERE query LIKE '%almanac%' OR query IN ('commit', 'rollback'))
		FROM pg_stat_activity
		WHERE application_name = 'dashboard' AND datname = current_database()`).Scan(&open, &reading))

	require.Positive(t, reading)
	require.LessOrEqual(t, open, 2)
	p.stop(t)
}

// A live page has a stream, for which the program does not wait.
func TestStopEndsTheStreamsOfLivePages(t *testing.T) {
	t.Parallel()
	p := start(t)
	stream := p.send(t, http.MethodGet, "live?page=now", "viewer", "lets-look")
	require.Equal(t, http.StatusOK, stream.StatusCode)
	lines := bufio.NewReader(stream.Body)
	_, err := lines.ReadString('\n')
	require.NoError(t, err, "it has begun")
	began := time.Now()

	p.stop(t)

	require.Less(t, time.Since(began), time.Minute, "a stream alone would last five")
	_, err = io.Copy(io.Discard, lines)
	require.NoError(t, err, "its end is a whole one")
}
