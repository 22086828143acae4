package almanacjetstream_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	almanacjetstream "github.com/almanac-go/almanac/contrib/jetstream"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// partVariable is the environment variable that makes this program a process which a test
// starts, freezes and kills.
const partVariable = "ALMANAC_JETSTREAM_PART"

func TestMain(m *testing.M) {
	text := os.Getenv(partVariable)
	if text == "" {
		pgtest.Main(m)
		return
	}
	var p part
	err := json.Unmarshal([]byte(text), &p)
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		err = p.play(ctx)
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// part describes such a process.
type part struct {
	Name                       string // of a worker; a dispatcher has none
	Point                      point  // where it freezes, if set
	Database, Stream, Receiver string // their addresses
}

// point is a step in the life of an event.
type point string

const (
	claimed   point = "claimed"   // by a dispatcher, all under one lease
	leased    point = "leased"    // each under its own lease: by a dispatcher, and not published; by a worker, and not acknowledged
	published point = "published" // the first of those that were claimed together
	fetched   point = "fetched"   // by a worker, and not leased
	taken     point = "taken"     // by a worker, and not delivered
	delivered point = "delivered" // and not settled
	settled   point = "settled"
)

// reach freezes the process if the point is its own, until it is continued or killed.
func (p part) reach(at point) error {
	if p.Point != at {
		return nil
	}
	goOn := make(chan os.Signal, 1) // the stop signal may arrive a moment later
	signal.Notify(goOn, syscall.SIGCONT)
	defer signal.Stop(goOn)
	fmt.Println(at)
	if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
		return err
	}
	<-goOn
	return nil
}

func (p part) play(ctx context.Context) error {
	pool, err := pgxpool.New(ctx, p.Database)
	if err != nil {
		return err
	}
	defer pool.Close()
	store, err := postgres.New(pool)
	if err != nil {
		return err
	}
	conn, err := nats.Connect(p.Stream, nats.MaxReconnects(-1))
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	registry, err := almanac.NewRegistry(ping{})
	if err != nil {
		return err
	}
	settings := almanacjetstream.Settings{JetStream: &publishing{JetStream: js, part: p}, Repository: freezing{store, p}, Registry: registry, Lease: short}
	if p.Name == "" {
		d, err := almanacjetstream.NewDispatcher(settings, quick()...)
		if err != nil {
			return err
		}
		return d.Run(ctx)
	}
	w, err := almanacjetstream.NewWorker(settings, append(quick(), almanac.WithDeliverer("ping", almanac.DelivererFunc(p.deliver)))...)
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

func (p part) deliver(ctx context.Context, d almanac.Delivery) error {
	if err := p.reach(taken); err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.Receiver, strings.NewReader(string(d.Event.Payload)))
	if err != nil {
		return err
	}
	r.Header.Set("Worker", p.Name)
	r.Header.Set("Idempotency-Key", d.Event.IdempotencyKey.String())
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	if err := answer.Body.Close(); err != nil {
		return err
	}
	return p.reach(delivered)
}

// publishing is the stream of a process that freezes when it has published one message.
type publishing struct {
	jetstream.JetStream
	part part
	turn sync.Mutex
}

func (p *publishing) PublishMsg(ctx context.Context, m *nats.Msg, options ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	p.turn.Lock()
	defer p.turn.Unlock()
	ack, err := p.JetStream.PublishMsg(ctx, m, options...)
	if err == nil {
		err = p.part.reach(published)
	}
	return ack, err
}

// freezing is the store of a process that freezes.
type freezing struct {
	*postgres.Store
	part part
}

func (f freezing) Claim(ctx context.Context, r almanac.ClaimRequest) (almanac.ClaimResult, error) {
	claim, err := f.Store.Claim(ctx, r)
	if err == nil && len(claim.Events) > 0 {
		err = f.part.reach(claimed)
	}
	return claim, err
}

func (f freezing) LeaseEach(ctx context.Context, events []almanac.Event, owner string, lease time.Duration) (almanac.ClaimResult, error) {
	if err := f.part.reach(fetched); err != nil {
		return almanac.ClaimResult{}, err
	}
	is, err := f.Store.LeaseEach(ctx, events, owner, lease)
	if err == nil && len(is.Events) > 0 {
		err = f.part.reach(leased)
	}
	return is, err
}

func (f freezing) Settle(ctx context.Context, list []almanac.Settlement) ([]almanac.SettleResult, error) {
	answers, err := f.Store.Settle(ctx, list)
	if err == nil {
		err = f.part.reach(settled)
	}
	return answers, err
}

// process is a process with a part.
type process struct {
	*exec.Cmd
	t       *testing.T
	reached <-chan point
}

// start starts a process, which is killed at the end of the test at the latest.
func (s *stage) start(p part) *process {
	s.Helper()
	p.Database, p.Stream, p.Receiver = s.database, s.server.ClientURL(), s.receiver()
	text, err := json.Marshal(p)
	require.NoError(s, err)
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), partVariable+"="+string(text))
	command.Stderr = s.Output()
	out, err := command.StdoutPipe()
	require.NoError(s, err)
	require.NoError(s, command.Start())
	reached := make(chan point, 1)
	go func() {
		defer close(reached)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			reached <- point(lines.Text())
		}
	}()
	one := &process{command, s.T, reached}
	s.Cleanup(one.kill)
	return one
}

// await waits until the process has frozen at its point.
func (p *process) await(at point) {
	p.t.Helper()
	select {
	case is := <-p.reached:
		require.Equal(p.t, at, is)
	case <-p.t.Context().Done():
		p.t.Fatalf("never reached: %s", at)
	}
}

// kill ends the process as kill -9 does.
func (p *process) kill() {
	_ = p.Process.Kill()
	for range p.reached { // Wait must not close the pipe while it is read
	}
	_ = p.Wait()
}

// A message renews only the lease of its own event. Events of the same claim that were not
// published become pending again, however long the message waits in the stream.
func TestDispatcherIsKilledBetweenSiblings(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	events := s.due(3)
	victim := s.start(part{Point: published})
	victim.await(published)
	victim.kill()
	require.Equal(t, 1, s.inStream())

	s.start(part{}) // renews the leases of events in the stream, which no worker takes
	s.published(3)
	s.start(part{Name: "ben"})

	crashes := make(map[int]int)
	for _, e := range s.settled(events) {
		require.Equal(t, "ben", s.received.workers(e))
		require.Equal(t, e.CrashCount+1, e.ClaimCount)
		crashes[e.CrashCount]++
	}
	require.Equal(t, map[int]int{0: 1, 1: 2}, crashes, "only what was not published was lost with the dispatcher")
}

// A worker that was only frozen counts as dead. It has delivered, but its outcome is
// refused when it continues.
func TestAFrozenWorkerContinues(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	events := s.due(1)
	s.start(part{})
	frozen := s.start(part{Name: "ada", Point: delivered})
	frozen.await(delivered)
	s.start(part{Name: "ben"})
	ended := s.settled(events)

	require.NoError(t, frozen.Process.Signal(syscall.SIGCONT))
	require.NoError(t, frozen.Process.Signal(syscall.SIGTERM)) // it stops normally, and stores what it can
	for range frozen.reached {
	}
	require.NoError(t, frozen.Wait())

	require.Equal(t, "ada ben", s.received.workers(events[0]))
	again, err := s.store.Event(t.Context(), events[0].ID)
	require.NoError(t, err)
	require.Equal(t, ended[0], again)
}
