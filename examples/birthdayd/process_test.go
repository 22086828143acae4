package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience is how long a test waits for a process on a busy machine.
const patience = 30 * time.Second

// pollEvery is how often a test checks the state of a process.
const pollEvery = 10 * time.Millisecond

// process is a running birthdayd.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	url  string        // of its API
	out  *syncBuffer   // its standard output
	log  *syncBuffer   // its standard error
	done chan struct{} // closed when it has ended
}

// syncBuffer is a buffer that can be read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// launch starts birthdayd on a free port and returns when it listens. If it still runs at
// the end of the test, it is killed.
func launch(t *testing.T, args ...string) *process {
	t.Helper()
	p := begin(t, append([]string{"-addr", "127.0.0.1:0", "-log-format", "json", "-log-level", "info"}, args...)...)
	require.Eventually(t, func() bool { return p.ended() || p.listening() }, patience, pollEvery, "it never listened")
	require.False(t, p.ended(), "it ended: %s", p.log)
	return p
}

// begin starts birthdayd.
func begin(t *testing.T, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	p := &process{t: t, out: new(syncBuffer), log: new(syncBuffer), done: make(chan struct{})}
	p.cmd = exec.Command(self, args...)
	p.cmd.Env = []string{asProgram + "=1", "PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.log
	require.NoError(t, p.cmd.Start())
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // the tests check its exit code
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it has usually ended already
		<-p.done
		if t.Failed() {
			t.Logf("birthdayd %s\n%s%s", strings.Join(args, " "), p.out, p.log)
		}
	})
	return p
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// listening looks for the address in the log.
func (p *process) listening() bool {
	for _, line := range p.lines("listening") {
		p.url = line["url"].(string)
		return true
	}
	return false
}

// lines returns the log's lines with the given message.
func (p *process) lines(message string) []map[string]any {
	var found []map[string]any
	for scanner := bufio.NewScanner(strings.NewReader(p.log.String())); scanner.Scan(); {
		var line map[string]any
		if json.Unmarshal(scanner.Bytes(), &line) == nil && line["msg"] == message {
			found = append(found, line)
		}
	}
	return found
}

// signal sends a signal.
func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(s))
}

// wait waits for the end and returns the exit code, -1 after a signal.
func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Fatal("birthdayd does not end")
	}
	return p.cmd.ProcessState.ExitCode()
}

// stop asks the program to stop and returns its exit code.
func (p *process) stop() int {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	return p.wait()
}

// send sends a request to the API and returns the answer as an object. Header lines are
// "Name: value".
func (p *process) send(method, path, body string, header ...string) (status int, answer map[string]any) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, strings.NewReader(body))
	require.NoError(p.t, err)
	r.Header.Set("Content-Type", "application/json")
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	response, err := client.Do(r)
	require.NoError(p.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(p.t, err)
	if len(text) > 0 {
		require.NoError(p.t, json.Unmarshal(text, &answer), "%s", text)
	}
	return response.StatusCode, answer
}

// enrol stores a user whose greeting is due in about two seconds, and returns the event and
// the moment. If the moment passes meanwhile on a busy machine, it tries again.
func (p *process) enrol(zone string) (event map[string]any, moment time.Time) {
	p.t.Helper()
	for range 5 {
		moment = soon(2 * time.Second)
		wall := moment.In(location(p.t, zone))
		status, answer := p.send("POST", "/user", fmt.Sprintf(
			`{"firstName":"Ada","lastName":"Lovelace","dateOfBirth":"1992-%s","timezone":%q,"attributes":{"deliverAt":%q}}`,
			wall.Format("01-02"), zone, wall.Format(time.TimeOnly)))
		if status == http.StatusServiceUnavailable {
			continue
		}
		require.Equal(p.t, http.StatusCreated, status, answer)
		event = answer["nextBirthdayEvent"].(map[string]any)
		if event["targetTimestampUTC"] == moment.Format("2006-01-02T15:04:05.000Z") {
			return event, moment
		}
		require.True(p.t, time.Now().After(moment), "%v is not due at %v", event, moment)
	}
	p.t.Fatal("every moment passed before the person was stored")
	return nil, moment
}

// ends waits until the event has the status, and returns it.
func (p *process) ends(event map[string]any, status string) map[string]any {
	p.t.Helper()
	path := "/events/" + event["id"].(string)
	require.Eventually(p.t, func() bool {
		_, answer := p.send("GET", path, "")
		event = answer["event"].(map[string]any)
		return event["status"] == status
	}, patience, pollEvery, "the event never became %s", status)
	return event
}

// series returns the events of the event's user, in order.
func (p *process) series(event map[string]any) []any {
	p.t.Helper()
	status, answer := p.send("GET", "/user/"+event["userId"].(string)+"/events", "")
	require.Equal(p.t, http.StatusOK, status)
	return answer["events"].([]any)
}

// soon returns a full second at least d from now.
func soon(d time.Duration) time.Time {
	return time.Now().UTC().Add(d).Truncate(time.Second).Add(time.Second)
}

func location(t *testing.T, zone string) *time.Location {
	t.Helper()
	l, err := time.LoadLocation(zone)
	require.NoError(t, err)
	return l
}
