package webhook_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/webhook"
)

// tenantOf is the occurrence key, in these tests.
func tenantOf(d almanac.Delivery) string { return d.Event.OccurrenceKey }

func forTenant(name, lane string) almanac.Delivery {
	d := greeting(time.Now())
	d.Event.OccurrenceKey, d.Event.Lane = name, lane
	return d
}

func receivers(t *testing.T, find webhook.FindReceiver, options ...webhook.Option) *webhook.Receivers {
	t.Helper()
	r, err := webhook.NewReceivers(tenantOf, find, 0, append([]webhook.Option{webhook.AllowPrivate()}, options...)...)
	require.NoError(t, err)
	t.Cleanup(r.CloseIdleConnections)
	return r
}

func TestEachTenantHasItsReceiver(t *testing.T) {
	t.Parallel()
	a, b := listen(t, status(http.StatusOK)), listen(t, status(http.StatusGone))
	var looked atomic.Int64
	d := receivers(t, func(_ context.Context, tenant string) (webhook.Receiver, error) {
		looked.Add(1)
		return map[string]webhook.Receiver{"a": {URL: a.URL, Secrets: []string{secret('a')}}, "b": {URL: b.URL}}[tenant], nil
	})
	for range 3 {
		require.NoError(t, d.Deliver(t.Context(), forTenant("a", "")))
		require.ErrorIs(t, d.Deliver(t.Context(), forTenant("b", "")), almanac.ErrPermanent)
	}
	require.Len(t, a.calls, 3)
	require.Len(t, b.calls, 3)
	require.EqualValues(t, 2, looked.Load(), "a receiver is kept")
	verifier, err := webhook.NewVerifier(secret('a'))
	require.NoError(t, err)
	require.NoError(t, verifier.Verify(a.calls[0].header, a.calls[0].body, time.Now()))
	require.Empty(t, b.calls[0].header.Get("Webhook-Signature"))
	require.ErrorIs(t, d.Deliver(t.Context(), forTenant("c", "")), almanac.ErrPermanent, "it has no URL")
}

func TestAReceiverThatCannotBeFoundIsLookedUpAgain(t *testing.T) {
	t.Parallel()
	a := listen(t, status(http.StatusOK))
	down := errors.New("the directory is down")
	var failing atomic.Bool
	failing.Store(true)
	d := receivers(t, func(context.Context, string) (webhook.Receiver, error) {
		if failing.Load() {
			return webhook.Receiver{}, down
		}
		return webhook.Receiver{URL: a.URL}, nil
	})
	err := d.Deliver(t.Context(), forTenant("a", ""))
	require.ErrorIs(t, err, down)
	require.NotErrorIs(t, err, almanac.ErrPermanent)
	failing.Store(false)
	require.NoError(t, d.Deliver(t.Context(), forTenant("a", "")))
}

func TestReceiversAreKeptForAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var looked atomic.Int64
		d, err := webhook.NewReceivers(tenantOf, func(context.Context, string) (webhook.Receiver, error) {
			looked.Add(1)
			time.Sleep(time.Second)
			return webhook.Receiver{Lane: "crm/a", URL: "https://example.com/"}, nil
		}, 0)
		require.NoError(t, err)
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { require.Equal(t, almanac.InLane("crm/a"), d.Deliver(t.Context(), forTenant("a", ""))) })
		}
		all.Wait()
		require.EqualValues(t, 1, looked.Load(), "those at once share a lookup")
		time.Sleep(59 * time.Second)
		require.Error(t, d.Deliver(t.Context(), forTenant("a", "")))
		require.EqualValues(t, 1, looked.Load())
		time.Sleep(2 * time.Second)
		require.Error(t, d.Deliver(t.Context(), forTenant("a", "")))
		require.EqualValues(t, 2, looked.Load())
	})
}

func TestAReceiverMovesItsEventsToItsLane(t *testing.T) {
	t.Parallel()
	a := listen(t, status(http.StatusOK))
	lane := "crm/a"
	d := receivers(t, func(context.Context, string) (webhook.Receiver, error) {
		return webhook.Receiver{URL: a.URL, Lane: lane}, nil
	})
	require.Equal(t, almanac.InLane("crm/a"), d.Deliver(t.Context(), forTenant("a", "")))
	require.NoError(t, d.Deliver(t.Context(), forTenant("a", "crm/a")))
	lane = "BIRTHDAY"
	require.NoError(t, d.Deliver(t.Context(), forTenant("b", "")), "the lane of its type")
	require.Equal(t, almanac.InLane("BIRTHDAY"), d.Deliver(t.Context(), forTenant("b", "crm/a")))
	require.Len(t, a.calls, 2)
}

func TestABatchForSeveralTenantsTakesARequestForEach(t *testing.T) {
	t.Parallel()
	a, b := listen(t, status(http.StatusOK)), listen(t, status(http.StatusInternalServerError))
	d := receivers(t, func(_ context.Context, tenant string) (webhook.Receiver, error) {
		return map[string]webhook.Receiver{"a": {URL: a.URL}, "b": {URL: b.URL}, "c": {URL: a.URL, Lane: "crm/c"}}[tenant], nil
	}, webhook.WithCloudEvents("/greetings", ""))
	errs := d.DeliverBatch(t.Context(), []almanac.Delivery{forTenant("a", ""), forTenant("b", ""), forTenant("a", ""), forTenant("c", "")})
	require.NoError(t, errs[0])
	require.Error(t, errs[1])
	require.NoError(t, errs[2])
	require.Equal(t, almanac.InLane("crm/c"), errs[3])
	require.Len(t, a.calls, 1)
	require.Len(t, b.calls, 1)
}

func TestReceiversNameEveryWrongSetting(t *testing.T) {
	t.Parallel()
	_, err := webhook.NewReceivers(nil, nil, -1, webhook.WithSecrets(secret('a')), webhook.WithTimeout(0))
	for _, want := range []string{"no function for keys", "no function for receivers", "is negative", "secrets belong to the receivers", "timeout of 0s"} {
		require.ErrorContains(t, err, want)
	}
}

// The guard and the bounds of concurrency hold for each receiver that is found, as for one that is known from the start.
func TestReceiversAreGuardedAndBounded(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"https://127.0.0.1/", "https://169.254.169.254/latest/meta-data", "http://receiver.example/"} {
		r, err := webhook.NewReceivers(tenantOf, func(context.Context, string) (webhook.Receiver, error) { return webhook.Receiver{URL: address}, nil }, 0)
		require.NoError(t, err)
		require.ErrorIs(t, r.Deliver(t.Context(), forTenant("a", "")), almanac.ErrPermanent, address)
	}

	release := make(chan struct{})
	var slow atomic.Int64
	a := listen(t, func(w http.ResponseWriter, _ *http.Request) {
		slow.Add(1)
		<-release
		w.WriteHeader(http.StatusOK)
	})
	b := listen(t, status(http.StatusOK))
	d := receivers(t, func(_ context.Context, tenant string) (webhook.Receiver, error) {
		return webhook.Receiver{URL: map[string]string{"a": a.URL, "b": b.URL}[tenant]}, nil
	}, webhook.WithConcurrency(2))
	var delivering sync.WaitGroup
	for range 2 {
		delivering.Go(func() { assert.NoError(t, d.Deliver(t.Context(), forTenant("a", ""))) })
	}
	require.Eventually(t, func() bool { return slow.Load() == 2 }, 10*time.Second, time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.Error(t, d.Deliver(ctx, forTenant("a", "")), "two are under way")
	require.NoError(t, d.Deliver(t.Context(), forTenant("b", "")), "another receiver has room")
	close(release)
	delivering.Wait()
	require.EqualValues(t, 2, slow.Load())
}
