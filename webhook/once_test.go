package webhook_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/webhook"
)

// effects is the table that records what a receiver did: one row for each effect.
const effects = `CREATE TABLE effects (key text NOT NULL, body text NOT NULL)`

// receiverPool returns a pool on a new database for a receiver.
func receiverPool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), pgtest.EmptyURL(t))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	for _, statement := range []string{webhook.OnceSchema, effects} {
		_, err := pool.Exec(t.Context(), statement, pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err)
	}
	return pool
}

// store is an effect that inserts a row.
func store(ctx context.Context, tx pgx.Tx, a webhook.Accepted) error {
	_, err := tx.Exec(ctx, "INSERT INTO effects (key, body) VALUES ($1, $2)", a.Key, string(a.Body))
	return err
}

// once returns a receiver for deliveries signed with secret a.
func once(t *testing.T, pool *pgxpool.Pool, next webhook.Effect) http.Handler {
	t.Helper()
	verifier, err := webhook.NewVerifier(secret('a'))
	require.NoError(t, err)
	handler, err := verifier.Once(pool, 0, next)
	require.NoError(t, err)
	return handler
}

// ask sends a delivery of {} signed with secret a, and returns the response.
func ask(ctx context.Context, t *testing.T, to http.Handler, key string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", bytes.NewReader([]byte("{}")))
	r.Header = signed(t, secret('a'), key, time.Now(), "{}")
	w := httptest.NewRecorder()
	to.ServeHTTP(w, r)
	return w
}

func count(t *testing.T, pool *pgxpool.Pool, query string, args ...any) (n int) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), query, args...).Scan(&n))
	return n
}

// The sender is this package's deliverer, over a real connection.
func TestOnceAnswersADuplicateWithoutRepeatingTheEffect(t *testing.T) {
	t.Parallel()
	pool := receiverPool(t)
	r := httptest.NewServer(once(t, pool, store))
	t.Cleanup(r.Close)
	d := deliverer(t, r.URL, webhook.WithSecrets(secret('a')))
	event := greeting(time.Now())
	for range 3 {
		require.NoError(t, d.Deliver(t.Context(), event))
		event.Attempt++
	}

	var key, body string
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT min(key), min(body) FROM effects HAVING count(*) = 1").Scan(&key, &body), "once")
	require.Equal(t, event.Event.IdempotencyKey.String(), key)
	require.JSONEq(t, `{"eventId":"0193b3a0-0000-7000-8000-000000000001","eventType":"BIRTHDAY","a":[1,2],"message":"Hey, Ada O'Brien & co it's your birthday"}`, body)
}

func TestOnceSaysWhatIsADuplicate(t *testing.T) {
	t.Parallel()
	receiver := once(t, receiverPool(t), store)
	for _, want := range []string{`{"success":true}`, `{"success":true,"duplicate":true}`} {
		answer := ask(t.Context(), t, receiver, "event-1")
		require.Equal(t, http.StatusOK, answer.Code)
		require.Equal(t, want, answer.Body.String())
	}
}

// X-Idempotency-Key is not signed. If it counted, a recorded delivery with another value
// would run again.
func TestOnceUsesTheSignedKey(t *testing.T) {
	t.Parallel()
	pool := receiverPool(t)
	receiver := once(t, pool, store)
	for _, forged := range []string{"event-1", "event-2"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader([]byte("{}")))
		r.Header = signed(t, secret('a'), "event-1", time.Now(), "{}")
		r.Header.Set("X-Idempotency-Key", forged)
		receiver.ServeHTTP(httptest.NewRecorder(), r)
	}
	require.Equal(t, 1, count(t, pool, "SELECT count(*) FROM effects"))
}

// Duplicates that arrive while the first delivery is under way wait for its outcome.
func TestOnceRunsConcurrentDuplicatesOnce(t *testing.T) {
	t.Parallel()
	const duplicates = 6
	for name, tt := range map[string]struct {
		first error
		codes map[int]int
	}{
		"the first commits":    {nil, map[int]int{http.StatusOK: duplicates}},
		"the first rolls back": {errors.New("no ink"), map[int]int{http.StatusOK: duplicates - 1, http.StatusInternalServerError: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := receiverPool(t)
			var ran atomic.Int32
			under, end := make(chan struct{}), make(chan struct{})
			receiver := once(t, pool, func(ctx context.Context, tx pgx.Tx, a webhook.Accepted) error {
				if err := store(ctx, tx, a); err != nil || ran.Add(1) > 1 {
					return err
				}
				close(under)
				<-end
				return tt.first
			})
			var answers sync.WaitGroup
			codes := make(chan int, duplicates)
			send := func() { codes <- ask(context.WithoutCancel(t.Context()), t, receiver, "event-1").Code }
			answers.Go(send)
			select {
			case <-under:
			case code := <-codes:
				require.FailNow(t, "the first was not run", "%d", code)
			}
			for range duplicates - 1 {
				answers.Go(send)
			}
			// The waiting deliveries may occupy all connections of the pool.
			watch, err := pgx.Connect(t.Context(), pgtest.Direct(t, pool.Config().ConnString()))
			require.NoError(t, err)
			defer func() { _ = watch.Close(context.WithoutCancel(t.Context())) }()
			blocked := func() bool {
				var n int
				err := watch.QueryRow(t.Context(), "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) "+
					"WHERE NOT l.granted AND a.datname = current_database()").Scan(&n)
				return err == nil && n >= 1
			}
			waits := eventually(t, blocked)
			close(end)
			answers.Wait()
			close(codes)

			got := map[int]int{}
			for code := range codes {
				got[code]++
			}
			require.True(t, waits, "a duplicate waits for the first")
			require.Equal(t, tt.codes, got)
			require.Equal(t, 1, count(t, pool, "SELECT count(*) FROM effects"))
		})
	}
}

// eventually reports whether a condition becomes true. It does not stop the test, which
// must still unblock others.
func eventually(t *testing.T, condition func() bool) bool {
	t.Helper()
	deadline, tick := time.After(time.Minute), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline:
			return false
		}
	}
	return true
}

func TestOnceForgetsKeysAfterTheirTime(t *testing.T) {
	t.Parallel()
	pool := receiverPool(t)
	receiver := once(t, pool, store)
	age := func(by time.Duration) {
		_, err := pool.Exec(t.Context(), "UPDATE webhook_accepted SET accepted_at = accepted_at - $1::interval", by)
		require.NoError(t, err)
	}
	for _, key := range []string{"event-1", "event-2"} {
		require.Equal(t, http.StatusOK, ask(t.Context(), t, receiver, key).Code)
	}

	age(7*24*time.Hour - time.Hour)
	ask(t.Context(), t, receiver, "event-1")
	require.Equal(t, 2, count(t, pool, "SELECT count(*) FROM effects"), "remembered for seven days")

	age(2 * time.Hour)
	ask(t.Context(), t, receiver, "event-1")
	require.Equal(t, 3, count(t, pool, "SELECT count(*) FROM effects"), "not for longer")
	require.Equal(t, 1, count(t, pool, "SELECT count(*) FROM webhook_accepted"), "and the other key is deleted")
}

func TestOnceRollsBackWhenTheEffectFails(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fail func() error
		code int
	}{
		"an error":              {func() error { return errors.New("no ink") }, http.StatusInternalServerError},
		"one that is permanent": {func() error { return almanac.Permanent(errors.New("no such user")) }, http.StatusUnprocessableEntity},
		"a panic":               {func() error { panic(http.ErrAbortHandler) }, http.StatusOK}, // the default status of a recorder without a response
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := receiverPool(t)
			fails := true
			receiver := once(t, pool, func(ctx context.Context, tx pgx.Tx, a webhook.Accepted) error {
				if err := store(ctx, tx, a); err != nil || !fails {
					return err
				}
				return tt.fail()
			})
			func() {
				defer func() { _ = recover() }()
				require.Equal(t, tt.code, ask(t.Context(), t, receiver, "event-1").Code)
			}()
			require.Equal(t, 0, count(t, pool, "SELECT (SELECT count(*) FROM effects) + (SELECT count(*) FROM webhook_accepted)"))

			fails = false
			require.Equal(t, http.StatusOK, ask(t.Context(), t, receiver, "event-1").Code)
			require.Equal(t, 1, count(t, pool, "SELECT count(*) FROM effects"))
		})
	}
}

func TestOnceVerifiesFirst(t *testing.T) {
	t.Parallel()
	pool := receiverPool(t)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader([]byte("{}")))
	r.Header = signed(t, secret('b'), "event-1", time.Now(), "{}")
	w := httptest.NewRecorder()
	once(t, pool, store).ServeHTTP(w, r)
	require.Equal(t, http.StatusUnauthorized, w.Code)
	require.Equal(t, 0, count(t, pool, "SELECT count(*) FROM webhook_accepted"))
}

func TestOnceAnswers500WithoutItsTable(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), pgtest.EmptyURL(t))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	require.Equal(t, http.StatusInternalServerError, ask(t.Context(), t, once(t, pool, store), "event-1").Code)
}

func TestOnceNamesEveryWrongArgument(t *testing.T) {
	t.Parallel()
	var none *webhook.Verifier
	_, err := none.Once(nil, time.Minute, nil)
	for _, part := range []string{"no verifier", "no database", "no effect", "a ttl of 1m0s is less than 10m0s"} {
		require.ErrorContains(t, err, part)
	}
	verifier, err := webhook.NewVerifier(secret('a'))
	require.NoError(t, err)
	_, err = verifier.Once(new(pgx.Conn), -time.Hour, store)
	require.ErrorContains(t, err, "a ttl of -1h0m0s")
}

// WEBHOOK_TEST_URL names an external receiver that shows incoming requests, such as one of
// webhook.site. Without the variable, the test uses and checks its own receiver.
func TestDeliveryToTheReceiverOfTheEnvironment(t *testing.T) {
	t.Parallel()
	own := listen(t, status(http.StatusOK))
	target := cmp.Or(os.Getenv("WEBHOOK_TEST_URL"), own.URL)
	d := deliverer(t, target, webhook.WithSecrets(secret('s')))
	event := greeting(time.Now())
	for range 3 {
		require.NoError(t, d.Deliver(t.Context(), event))
		event.Attempt++
	}
	if target != own.URL {
		t.Logf("%s must show three requests with X-Idempotency-Key %s and one and the same body", d, event.Event.IdempotencyKey)
		return
	}
	require.Len(t, own.received(), 3)
	for _, c := range own.received() {
		require.Equal(t, event.Event.IdempotencyKey.String(), c.header.Get("X-Idempotency-Key"))
		require.Equal(t, own.received()[0].body, c.body)
	}
}
