package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/webhook"
)

// greetings are attempts at so many birthdays, whose keys are k0, k1 and so on.
func greetings(n int) []almanac.Delivery {
	batch := make([]almanac.Delivery, n)
	for i := range batch {
		batch[i] = greeting(time.Now())
		batch[i].Event.IdempotencyKey = almanac.IdempotencyKey(fmt.Sprint("k", i))
	}
	return batch
}

// keysIn returns the ids of the CloudEvents of a batch.
func keysIn(t *testing.T, body []byte) (keys []string) {
	t.Helper()
	var events []struct{ ID string }
	require.NoError(t, json.Unmarshal(body, &events))
	for _, e := range events {
		keys = append(keys, e.ID)
	}
	return keys
}

func TestABatchIsOneSignedRequest(t *testing.T) {
	t.Parallel()
	r := listen(t, status(http.StatusNoContent))
	d := deliverer(t, r.URL, webhook.WithCloudEvents("/greetings", "com.example."), webhook.WithSecrets(secret('a')))
	for _, err := range d.DeliverBatch(t.Context(), greetings(3)) {
		require.NoError(t, err)
	}
	require.Len(t, r.calls, 1)
	is := r.calls[0]
	require.Equal(t, "application/cloudevents-batch+json", is.header.Get("Content-Type"))
	require.Empty(t, is.header.Get("X-Idempotency-Key"))
	require.Equal(t, []string{"k0", "k1", "k2"}, keysIn(t, is.body))
	verifier, err := webhook.NewVerifier(secret('a'))
	require.NoError(t, err)
	require.NoError(t, verifier.Verify(is.header, is.body, time.Now()))

	require.NoError(t, d.DeliverBatch(t.Context(), greetings(3))[0])
	require.NotEqual(t, is.header.Get("Webhook-Id"), r.calls[1].header.Get("Webhook-Id"))
}

func TestAnAnswerToABatchNamesTheFailures(t *testing.T) {
	t.Parallel()
	const no = "webhook: receiver did not accept this event of the batch"
	transient := func(text string) func(*testing.T, error) {
		return func(t *testing.T, err error) {
			t.Helper()
			require.EqualError(t, err, text)
			require.NotErrorIs(t, err, almanac.ErrPermanent)
		}
	}
	good := func(t *testing.T, err error) { t.Helper(); require.NoError(t, err) }
	for name, tt := range map[string]struct {
		answer string
		want   [2]func(*testing.T, error)
	}{
		"nothing":      {``, [2]func(*testing.T, error){good, good}},
		"other JSON":   {`{"ok": true}`, [2]func(*testing.T, error){good, good}},
		"an array":     {`[]`, [2]func(*testing.T, error){good, good}},
		"none":         {`{"failures": []}`, [2]func(*testing.T, error){good, good}},
		"one":          {`{"failures": [{"id": "k1"}]}`, [2]func(*testing.T, error){good, transient(no)}},
		"one for good": {`{"failures": [{"id": "k1", "permanent": true}]}`, [2]func(*testing.T, error){good, func(t *testing.T, err error) { t.Helper(); require.ErrorIs(t, err, almanac.ErrPermanent) }}},
		"one for later": {`{"failures": [{"id": "k1", "retry_after": 60}]}`, [2]func(*testing.T, error){good, func(t *testing.T, err error) {
			t.Helper()
			require.Equal(t, almanac.RetryAfter(time.Minute, errors.New(no)).Error(), err.Error())
		}}},
		"an unknown one": {`{"failures": [{"id": "k7"}]}`, [2]func(*testing.T, error){
			transient("webhook: the receiver's answer names an event that was not in the batch"), transient("webhook: the receiver's answer names an event that was not in the batch")}},
		"nonsense": {`{"failures": 7}`, [2]func(*testing.T, error){
			transient("webhook: the failures in the receiver's answer are not as documented"), transient("webhook: the failures in the receiver's answer are not as documented")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := listen(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(tt.answer)) })
			errs := deliverer(t, r.URL, webhook.WithCloudEvents("/greetings", "")).DeliverBatch(t.Context(), greetings(2))
			for i, want := range tt.want {
				want(t, errs[i])
			}
		})
	}
}

// A batch that was not accepted is tried again: as another request, with the same bytes for each event.
func TestABatchIsTriedAgainWithTheSameEvents(t *testing.T) {
	t.Parallel()
	n := 0
	r := listen(t, func(w http.ResponseWriter, _ *http.Request) {
		switch n++; n {
		case 1: // it may have accepted them
			panic(http.ErrAbortHandler)
		case 2:
			w.Header().Set("Retry-After", "30")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	d := deliverer(t, r.URL, webhook.WithCloudEvents("/greetings", ""), webhook.WithSecrets(secret('a')))
	batch := greetings(3)
	for attempt := range 3 {
		for i, err := range d.DeliverBatch(t.Context(), batch) {
			switch attempt {
			case 2:
				require.NoError(t, err)
			case 1:
				require.Equal(t, almanac.Busy(30*time.Second, &webhook.StatusError{Code: 503}).Error(), err.Error())
				fallthrough
			default:
				require.Error(t, err, i)
				require.NotErrorIs(t, err, almanac.ErrPermanent)
			}
		}
	}
	require.Len(t, r.calls, 3)
	ids := make(map[string]bool)
	for _, call := range r.calls {
		require.Equal(t, string(r.calls[0].body), string(call.body))
		ids[call.header.Get("Webhook-Id")] = true
	}
	require.Len(t, ids, 3)
	// A batch with other members has the same bytes for those that are in both.
	require.NoError(t, d.DeliverBatch(t.Context(), batch[1:2])[0])
	require.Contains(t, string(r.calls[0].body), strings.Trim(string(r.calls[3].body), "[]"))
}

// A receiver that does not understand one event refuses the whole batch.
func TestAPoisonousEventOfABatchFailsAlone(t *testing.T) {
	t.Parallel()
	r := listen(t, nil)
	r.Config.Handler = r.answering(func(w http.ResponseWriter, _ *http.Request) {
		r.mu.Lock()
		body := r.calls[len(r.calls)-1].body
		r.mu.Unlock()
		if slices.Contains(keysIn(t, body), "k5") {
			w.WriteHeader(http.StatusUnprocessableEntity)
		}
	})
	errs := deliverer(t, r.URL, webhook.WithCloudEvents("/greetings", "")).DeliverBatch(t.Context(), greetings(9))
	for i, err := range errs {
		if i == 5 {
			require.Equal(t, almanac.Permanent(&webhook.StatusError{Code: 422}), err)
		} else {
			require.NoError(t, err)
		}
	}
	require.LessOrEqual(t, len(r.calls), 9)
}

func TestALargeBatchTakesSeveralRequests(t *testing.T) {
	t.Parallel()
	r := listen(t, status(http.StatusOK))
	batch := greetings(9)
	for i := range batch {
		batch[i].Event.Payload = json.RawMessage(`{"message": "` + strings.Repeat("x", 60<<10) + `"}`)
	}
	batch[8].Event.Payload = json.RawMessage(`{"message": "` + strings.Repeat("x", 2<<20) + `"}`)
	errs := deliverer(t, r.URL, webhook.WithCloudEvents("/greetings", "")).DeliverBatch(t.Context(), batch)
	require.ErrorIs(t, errs[8], almanac.ErrPermanent)
	require.Len(t, r.calls, 2)
	for i := range 2 {
		require.Len(t, keysIn(t, r.calls[i].body), 4)
		require.NoError(t, errs[4*i])
	}
}

func TestBatchesAreCloudEvents(t *testing.T) {
	t.Parallel()
	r := listen(t, status(http.StatusOK))
	for _, err := range deliverer(t, r.URL).DeliverBatch(t.Context(), greetings(2)) {
		require.ErrorIs(t, err, almanac.ErrPermanent)
	}
	require.Empty(t, r.calls)
}

func TestOnceActsOncePerEventOfABatch(t *testing.T) {
	t.Parallel()
	pool := receiverPool(t)
	refuse := true
	r := httptest.NewServer(once(t, pool, func(ctx context.Context, tx pgx.Tx, a webhook.Accepted) error {
		if err := store(ctx, tx, a); err != nil {
			return err
		}
		switch {
		case a.Key == "k1" && refuse:
			return errors.New("not now")
		case a.Key == "k2":
			return almanac.Permanent(errors.New("never"))
		}
		return nil
	}))
	t.Cleanup(r.Close)
	d := deliverer(t, r.URL, webhook.WithSecrets(secret('a')), webhook.WithCloudEvents("/greetings", ""))
	errs := d.DeliverBatch(t.Context(), greetings(4))
	require.NoError(t, errs[0])
	require.NotErrorIs(t, errs[1], almanac.ErrPermanent)
	require.Error(t, errs[1])
	require.ErrorIs(t, errs[2], almanac.ErrPermanent)
	require.NoError(t, errs[3])
	require.Equal(t, 2, count(t, pool, "SELECT count(*) FROM effects"))

	refuse = false
	errs = d.DeliverBatch(t.Context(), greetings(4))
	require.NoError(t, errors.Join(errs[0], errs[1], errs[3]))
	require.Equal(t, 3, count(t, pool, "SELECT count(*) FROM effects"), "each event once")
	require.Equal(t, 1, count(t, pool, "SELECT count(*) FROM effects WHERE key = 'k1' AND body LIKE '{%'"))
}
