package httpapi_test

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/httpapi"
)

// stuck is a repository in which the edits of one user wait for a lock.
type stuck struct {
	almanac.Repository
	user    uuid.UUID
	waiting atomic.Int32
	most    atomic.Int32
	free    chan struct{}
}

func (s *stuck) EditUser(ctx context.Context, id uuid.UUID, edit func(almanac.Roster) (almanac.Edit, error)) (almanac.Edit, error) {
	if id == s.user {
		s.most.Store(max(s.most.Load(), s.waiting.Add(1)))
		defer s.waiting.Add(-1)
		select {
		case <-s.free:
		case <-ctx.Done():
			return almanac.Edit{}, ctx.Err()
		}
	}
	return s.Repository.EditUser(ctx, id, edit)
}

func TestChangesOfOneUserRunOneAfterTheOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &stuck{Repository: newRepository(), free: make(chan struct{})}
		s := openOn(t, r, httpapi.NoAuthentication{})
		user, _ := s.create(grace)
		other, _ := s.create(grace)
		r.user = uuid.MustParse(user["id"].(string))
		statuses := make(chan answer, 10)
		var all sync.WaitGroup
		for range cap(statuses) {
			all.Go(func() { statuses <- s.send("PUT", "/user/"+r.user.String(), `{"firstName":"B"}`) })
		}
		synctest.Wait()
		require.Equal(t, http.StatusOK, s.send("PUT", "/user/"+other["id"].(string), `{"firstName":"B"}`).status)
		time.Sleep(6 * time.Second)
		require.Len(t, statuses, 9, "those that wait are answered before a request's time is over")
		for range 9 {
			a := <-statuses
			require.Equal(t, "https://pkg.go.dev/github.com/almanac-go/almanac/httpapi#hdr-Locked", s.problem(a, http.StatusConflict)["type"])
			require.Equal(t, "1", a.header.Get("Retry-After"))
		}
		close(r.free)
		all.Wait()
		require.Equal(t, http.StatusOK, (<-statuses).status)
		require.EqualValues(t, 1, r.most.Load(), "edits of the user at once")
		require.Equal(t, http.StatusOK, s.send("PUT", "/user/"+r.user.String(), `{"firstName":"C"}`).status)
	})
}

func TestALockTimeoutIsAConflict(t *testing.T) {
	t.Parallel()
	s := openOn(t, failing{newRepository(), driverError{"55P03"}}, httpapi.NoAuthentication{})

	a := s.send("PUT", "/user/"+stranger, `{"firstName":"B"}`)

	require.Equal(t, "https://pkg.go.dev/github.com/almanac-go/almanac/httpapi#hdr-Locked", s.problem(a, http.StatusConflict)["type"])
	require.Equal(t, "1", a.header.Get("Retry-After"))
}

// failing is a repository whose edits and deletions fail.
type failing struct {
	almanac.Repository
	err error
}

func (f failing) EditUser(context.Context, uuid.UUID, func(almanac.Roster) (almanac.Edit, error)) (almanac.Edit, error) {
	return almanac.Edit{}, f.err
}

func (f failing) DeleteUser(context.Context, uuid.UUID, almanac.DeleteOptions) (almanac.DeleteResult, error) {
	return almanac.DeleteResult{}, f.err
}

// asked counts how often the repository is asked for the time.
type asked struct {
	almanac.Repository
	times *atomic.Int32
	err   error
}

func (a *asked) Now(ctx context.Context) (time.Time, error) {
	a.times.Add(1)
	now, err := a.Repository.Now(ctx)
	if a.err != nil {
		err = a.err
	}
	return now, err
}

func TestProbesCheckOnceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &asked{Repository: newRepository(), times: new(atomic.Int32)}
		s := openOn(t, r, httpapi.NoAuthentication{})
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if status := s.send("GET", "/readyz", "").status; status != http.StatusOK {
					t.Errorf("status %d", status)
				}
			})
		}
		all.Wait()
		require.EqualValues(t, 1, r.times.Load())

		r.err = driverError{"08006"}
		require.Equal(t, http.StatusOK, s.send("GET", "/readyz", "").status)
		time.Sleep(time.Second)
		require.Equal(t, http.StatusServiceUnavailable, s.send("GET", "/readyz", "").status)
		require.EqualValues(t, 2, r.times.Load())
		r.err = nil
		time.Sleep(time.Second)
		require.Equal(t, http.StatusOK, s.send("GET", "/readyz", "").status)
	})
}
