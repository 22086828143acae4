package dashboard

import (
	"context"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/ops"
)

// zonesReader is a repository of which some answers are replaced.
type zonesReader struct {
	*almanactest.Repository
	leases []ops.Lease
	find   func() (almanac.List[almanac.Event], error)
	spec   almanac.Spec // of the last Find of a page
	due    func(ops.DueCountsRequest) (ops.DueCountsResult, error)
	book   *almanac.ZoneBook
	stats  *ops.Stats
}

func (r *zonesReader) Leases(context.Context, int) ([]ops.Lease, error) { return r.leases, nil }

func (r *zonesReader) Find(ctx context.Context, spec almanac.Spec, page almanac.Page) (almanac.List[almanac.Event], error) {
	r.spec = spec
	if r.find != nil {
		return r.find()
	}
	return r.Repository.Find(ctx, spec, page)
}

func (r *zonesReader) DueCounts(ctx context.Context, request ops.DueCountsRequest) (ops.DueCountsResult, error) {
	if r.due != nil {
		return r.due(request)
	}
	return r.Repository.DueCounts(ctx, request)
}

func (r *zonesReader) ZoneRules(ctx context.Context) (almanac.ZoneBook, error) {
	if r.book != nil {
		return *r.book, nil
	}
	return r.Repository.ZoneRules(ctx)
}

func (r *zonesReader) Stats(ctx context.Context) (ops.Stats, error) {
	if r.stats != nil {
		return *r.stats, nil
	}
	return r.Repository.Stats(ctx)
}

// zonesHost returns a dashboard before a reader that a test can change.
func zonesHost(t *testing.T, options ...Option) (host, *zonesReader) {
	t.Helper()
	h := newHost(t)
	reader := &zonesReader{Repository: h.repository}
	var err error
	h.Handler, err = New(h.scheduler, reader, append([]Option{AllowAll(), WithLogger(slog.New(slog.DiscardHandler))}, options...)...)
	require.NoError(t, err)
	return h, reader
}

// getRead returns a page with numbers. Each request waits a moment for the first ones.
func (h host) getRead(t *testing.T, path string) (int, string) {
	t.Helper()
	for {
		status, body := h.get(t, path)
		if !strings.Contains(body, "Being read") {
			return status, body
		}
	}
}

// without returns an option that forbids some actions.
func without(actions ...Action) Option {
	return WithPermissions(func(_ *http.Request, a Action, _ uuid.UUID) (bool, error) {
		for _, one := range actions {
			if a == one {
				return false, nil
			}
		}
		return true, nil
	})
}

var anyLink = regexp.MustCompile(`(?:href|action|src|data-live)="([^"]*)"`)

// requireSound requires what holds for every page: relative links, one heading, and nothing
// inline.
func requireSound(t *testing.T, path, body string) {
	t.Helper()
	for _, link := range anyLink.FindAllStringSubmatch(body, -1) {
		require.False(t, strings.HasPrefix(link[1], "/") || strings.Contains(link[1], ":"), "%s has the link %q", path, link[1])
	}
	require.Equal(t, 1, strings.Count(body, "<h1>"), path)
	require.NotContains(t, body, " style=", path)
	require.NotContains(t, body, "ZgotmplZ", path)
	require.NotRegexp(t, ` on[a-z]+="`, body, path)
}

var zonePages = []string{
	"/calendar", "/calendar?zone=America/New_York&year=2026&type=BIRTHDAY", "/calendar/2026-03-08?zone=America/New_York",
	"/calendar/2011-12-30?zone=Pacific/Apia", "/zones", "/zones?q=york", "/zones?doubt=1", "/zones/Europe/London", "/zones/UTC",
	"/zones/America/Argentina/Ushuaia", "/zones/Etc/GMT+5", "/zones/reconcile", "/when", "/when?zone=Europe/Berlin&at=2026-10-25T02:30",
	"/when?zone=Europe/Berlin&rule=weekly&on=mon,thu&at=02:30", "/leases",
}

func TestZonePagesAreSound(t *testing.T) {
	t.Parallel()
	h, _ := zonesHost(t)
	h.createUser(t, ada())
	for _, path := range zonePages {
		status, body := h.get(t, path)
		require.Equal(t, http.StatusOK, status, path)
		requireSound(t, path, body)
	}
}

func TestZonePagesNeedPermissionToLook(t *testing.T) {
	t.Parallel()
	h, _ := zonesHost(t, without(Look))
	for _, path := range zonePages {
		status, _ := h.get(t, path)
		require.Equal(t, http.StatusForbidden, status, path)
	}
}

func TestZonePagesRefuseHostileTexts(t *testing.T) {
	t.Parallel()
	h, _ := zonesHost(t)
	for _, text := range []string{"%3Cscript%3Ealert(1)%3C/script%3E", "%E2%80%AE", "a%00b", strings.Repeat("x", 100_000)} {
		for path, want := range map[string]int{
			"/calendar?zone=": 400, "/calendar?year=": 400, "/calendar/2026-01-01?zone=": 400, "/calendar?zone=UTC&year=2026&type=": 0,
			"/zones?q=": 200, "/zones?from=": 400, "/zones/": 404, "/when?zone=": 400, "/when?at=": 400, "/when?rule=": 400,
			"/when?rule=daily&from=": 400, "/when?rule=daily&every=": 400, "/when?rule=weekly&on=": 400, "/when?rule=monthly&on=": 400,
			"/when?rule=yearly&on=": 400, "/when?rule=daily&quiet=": 400, "/when?gap=": 400, "/when?fold=": 400, "/when?leap-day=": 400,
			"/when?month-end=": 400,
		} {
			status, body := h.getRead(t, path+text)
			if want != 0 {
				require.Equal(t, want, status, path+text[:3])
			}
			require.Less(t, status, 500, path)
			require.NotContains(t, body, "<script>", path)
			if len(text) < 1000 {
				requireSound(t, path, body)
			}
		}
	}
	status, _ := h.get(t, "/calendar?type=a%00b")
	require.Equal(t, http.StatusBadRequest, status)
	status, _ = h.get(t, "/calendar/%3Cscript%3E?zone=UTC")
	require.Equal(t, http.StatusBadRequest, status)
}

// now is a time of the tests that need one.
var zonesNow = time.Date(2026, time.November, 25, 12, 0, 0, 0, time.UTC)
