package webhook_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/webhook"
)

// receiverURL is the environment variable that makes the test program a receiver. It serves
// the inherited listener and stores effects in the database of that URL until it is killed.
const receiverURL = "ALMANAC_TEST_WEBHOOK_RECEIVER_URL"

// receive returns only if it fails. Each effect takes a while, so that many are under way
// at any time.
func receive(url string) error {
	pool, err := pgxpool.New(context.Background(), url)
	if err != nil {
		return err
	}
	defer pool.Close()
	verifier, err := webhook.NewVerifier(secret('a'))
	if err != nil {
		return err
	}
	handler, err := verifier.Once(pool, 0, func(ctx context.Context, tx pgx.Tx, a webhook.Accepted) error {
		if err := store(ctx, tx, a); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "SELECT pg_sleep(0.02)")
		return err
	})
	if err != nil {
		return err
	}
	inherited, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		return err
	}
	return http.Serve(inherited, handler)
}

// doorway is a listener that outlives the processes that serve it, as the address of a
// service does.
type doorway struct {
	url  string
	file *os.File
}

func openDoorway(t *testing.T) doorway {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	file, err := listener.(*net.TCPListener).File()
	require.NoError(t, err)
	t.Cleanup(func() { _ = file.Close() })
	return doorway{"http://" + listener.Addr().String(), file}
}

// open starts a receiver behind the doorway.
func (d doorway) open(t *testing.T, database string) *exec.Cmd {
	t.Helper()
	program := exec.CommandContext(t.Context(), os.Args[0])
	program.Env = append(os.Environ(), receiverURL+"="+database)
	program.ExtraFiles = []*os.File{d.file}
	program.Stderr = os.Stderr
	require.NoError(t, program.Start())
	return program
}

// deliverAll delivers each key twice at once, and repeats each delivery until it is
// accepted.
func deliverAll(ctx context.Context, t *testing.T, url string, keys int) (accepted *atomic.Int32, wait func()) {
	t.Helper()
	accepted = new(atomic.Int32)
	var senders sync.WaitGroup
	work := make(chan string)
	senders.Go(func() {
		defer close(work)
		for i := range 2 * keys {
			select {
			case work <- fmt.Sprintf("event-%d", i/2):
			case <-ctx.Done():
				return
			}
		}
	})
	for range 8 {
		d := deliverer(t, url, webhook.WithSecrets(secret('a')), webhook.WithTimeout(5*time.Second))
		senders.Go(func() {
			for key := range work {
				for ctx.Err() == nil {
					if d.Deliver(ctx, deliveryOf(key)) == nil {
						accepted.Add(1)
						break
					}
				}
			}
		})
	}
	return accepted, senders.Wait
}

func deliveryOf(key string) almanac.Delivery {
	return almanac.Delivery{Attempt: 1, At: time.Now(), Event: almanac.Event{
		ID: uuid.NewSHA1(uuid.Nil, []byte(key)), Type: almanac.TypeBirthday, IdempotencyKey: almanac.IdempotencyKey(key), Payload: []byte("{}"),
	}}
}

// Receivers are killed, and their sessions ended, in the middle of their effects.
func TestOnceHoldsWhenReceiversAreKilled(t *testing.T) {
	t.Parallel()
	const keys, kills = 400, 6
	pool := receiverPool(t)
	database := pool.Config().ConnString()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	door := openDoorway(t)
	accepted, wait := deliverAll(ctx, t, door.url, keys)
	watch, err := pgx.Connect(ctx, pgtest.Direct(t, database))
	require.NoError(t, err)
	defer func() { _ = watch.Close(context.WithoutCancel(ctx)) }()

	// Sessions in a transaction that has stored its effect.
	const under = "FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'SELECT pg_sleep%' AND pid <> pg_backend_pid()"
	receiver := door.open(t, database)
	for kill := range kills {
		before := accepted.Load()
		require.Eventually(t, func() bool {
			var n int
			err := watch.QueryRow(ctx, "SELECT count(*) "+under+" AND state = 'active'").Scan(&n)
			return err == nil && n > 0 && accepted.Load() > before
		}, time.Minute, time.Millisecond, "effects are under way, before kill %d", kill)
		if kill%2 == 0 {
			require.NoError(t, receiver.Process.Kill())
			_ = receiver.Wait() // it was killed
			receiver = door.open(t, database)
			continue
		}
		_, err := watch.Exec(ctx, "SELECT pg_terminate_backend(pid) "+under)
		require.NoError(t, err)
	}
	atLastKill := accepted.Load()
	wait()
	require.NoError(t, receiver.Process.Kill())
	_ = receiver.Wait()

	require.NoError(t, ctx.Err())
	require.Less(t, atLastKill, int32(2*keys), "the last kill met deliveries under way")
	require.Equal(t, keys, count(t, pool, "SELECT count(DISTINCT key) FROM effects"), "every delivery that was accepted took effect")
	require.Equal(t, keys, count(t, pool, "SELECT count(*) FROM effects"), "and took effect once")
	require.Equal(t, keys, count(t, pool, "SELECT count(*) FROM webhook_accepted"))
}
