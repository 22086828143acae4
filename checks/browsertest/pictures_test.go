package browsertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/dashboard"
	"github.com/almanac-go/almanac/ops"
)

var picturesInto = flag.String("pictures", "", "write the pictures of docs/dashboard.md into this directory")

// pictured is when the pictures are taken: nine o'clock in Berlin, on the day before the night in
// which clocks in Europe show an hour twice.
var pictured = time.Date(2026, time.October, 24, 7, 0, 4, 0, time.UTC)

// mostOfAPicture is how many bytes a picture has at most.
const mostOfAPicture = 110_000

// inBothThemes is the picture that the README shows, in dark colours too. Hosts download the pictures
// with the library, so the others are in light colours only.
const inBothThemes = "map"

// studio has the answers of a dashboard at one instant of virtual time.
type studio struct {
	answers map[string]*httptest.ResponseRecorder // by path and query
	names   []string                              // of the pictures
	paths   map[string]string                     // by name
}

// add keeps the answer to a path, which is the picture of that name.
func (s *studio) add(pages http.Handler, name, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	pages.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil))
	s.answers[path] = w
	if name != "" {
		s.names, s.paths[name] = append(s.names, name), path
	}
	return w
}

// ServeHTTP answers with what was kept. Streams are silent.
func (s *studio) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kept, ok := s.answers[r.URL.RequestURI()]
	if strings.HasPrefix(r.URL.Path, "/live") {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		return
	}
	if !ok {
		http.NotFound(w, r)
		return
	}
	for name, values := range kept.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(kept.Code)
	_, _ = w.Write(kept.Body.Bytes())
}

// lockedRandom is a source of randomness that always gives the same.
type lockedRandom struct {
	mu     sync.Mutex
	source *rand.ChaCha8
}

func (r *lockedRandom) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.source.Read(p)
}

// residents are how many of the made-up users live in each zone.
var residents = []struct {
	zone string
	n    int
}{
	{"Asia/Kolkata", 180}, {"Asia/Shanghai", 170}, {"America/New_York", 150}, {"Europe/Berlin", 130}, {"America/Sao_Paulo", 110}, {"Europe/London", 110},
	{"America/Chicago", 100}, {"Asia/Tokyo", 100}, {"Europe/Paris", 90}, {"America/Los_Angeles", 90}, {"Asia/Jakarta", 80}, {"Africa/Lagos", 80},
	{"America/Mexico_City", 70}, {"Europe/Madrid", 60}, {"Africa/Cairo", 60}, {"Europe/Istanbul", 60}, {"Asia/Manila", 60}, {"Asia/Karachi", 50},
	{"Asia/Dhaka", 50}, {"Africa/Johannesburg", 40}, {"Asia/Seoul", 40}, {"America/Bogota", 40}, {"America/Toronto", 40}, {"Australia/Sydney", 40},
	{"America/Argentina/Buenos_Aires", 30}, {"Asia/Dubai", 30}, {"Africa/Nairobi", 30}, {"America/Denver", 20}, {"Asia/Tehran", 20}, {"Asia/Kathmandu", 15},
	{"Pacific/Auckland", 15}, {"America/Halifax", 10}, {"America/Anchorage", 8}, {"America/St_Johns", 8}, {"Pacific/Honolulu", 8}, {"Atlantic/Azores", 5},
	{"Atlantic/Reykjavik", 5}, {"Australia/Lord_Howe", 2}, {"Pacific/Apia", 2}, {"Pacific/Kiritimati", 2}, {"Pacific/Chatham", 1}, {"UTC", 3},
}

var givenNames = strings.Fields("Aiko Amara Anna Arjun Chidi Clara Diego Elena Emeka Emil Fatima Grace Hana Ines Jonas Kaito Lea Leila Luca Mateo Mei Mia Nadia Noah Olga Omar Paula Priya Rosa Samir Sofia Tariq Tomas Wei Yara Zoe")

var familyNames = strings.Fields("Abe Adeyemi Ali Bauer Brown Chen Costa Das Diaz Eze Fischer Garcia Haddad Ito Jensen Kaya Khan Kim Lopez Mensah Moreau Novak Okafor Park Patel Reyes Rossi Santos Sato Silva Smith Tanaka Wagner Wang Weber Yilmaz")

// slowest is the external id of the user whose deliveries take minutes.
const (
	slowest = "crm-100"
	nightly = "crm-200" // greeted at 02:30, in the hour that clocks show twice
)

// named is a repository whose leases name a made-up program, and not the test.
type named struct{ *almanactest.Repository }

func (n named) Leases(ctx context.Context, limit int) ([]ops.Lease, error) {
	leases, err := n.Repository.Leases(ctx, limit)
	for i := range leases {
		leases[i].Program, leases[i].Owner = "greeter v1.4.2", "worker-3/812/5f0a1c77"
	}
	return leases, err
}

// perform runs a program with made-up users until the pictured instant, and keeps all pages. It
// must be called in a bubble.
func perform(t *testing.T) *studio {
	t.Helper()
	time.Sleep(time.Until(pictured.Add(-26 * time.Hour)))
	repository := almanactest.NewRepository(time.Now)
	registry, err := almanac.NewRegistry(almanac.Anniversary{}, almanac.Birthday{At: func(u almanac.User) calendar.Clock {
		if u.ExternalID == nightly {
			return calendar.Clock{Hour: 2, Minute: 30}
		}
		return calendar.Clock{Hour: 9}
	}})
	require.NoError(t, err)
	monitor := dashboard.NewMonitor()
	random := rand.New(rand.NewPCG(1, 2))
	var mu sync.Mutex
	deliver := almanac.DelivererFunc(func(ctx context.Context, d almanac.Delivery) error {
		mu.Lock()
		takes, luck := time.Duration(5+random.IntN(40))*time.Millisecond, random.IntN(60)
		mu.Unlock()
		switch {
		case d.User.ExternalID == slowest:
			takes = 4 * time.Minute
		case luck == 0:
			return almanac.Permanent(errors.New("receiver answered 410 Gone"))
		case luck == 1:
			return almanac.Permanent(fmt.Errorf("receiver answered 422: unknown member %d", 1000+luck))
		}
		select {
		case <-time.After(takes):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	const rarely = 24 * time.Hour // a day of frequent looks at a repository in memory takes minutes
	scheduler, err := almanac.NewScheduler(repository, registry, almanac.WithLogger(slog.New(slog.DiscardHandler)), almanac.WithObserver(monitor),
		almanac.WithPoll(rarely), almanac.WithSweep(rarely),
		almanac.WithDeliverer(almanac.ChannelWebhook, monitor.Middleware(deliver)))
	require.NoError(t, err)
	all := func(*http.Request, dashboard.Action, uuid.UUID) (bool, error) { return true, nil }
	pages, err := dashboard.New(scheduler, named{repository}, dashboard.WithName("production"), dashboard.WithPermissions(all), dashboard.WithMonitor(monitor),
		dashboard.WithAuthentication(func(*http.Request) (string, bool) { return "grace", true }), dashboard.WithLogger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	users := populate(t, scheduler, random)
	require.NoError(t, scheduler.Pause(t.Context(), almanac.Pause{Lane: almanac.TypeAnniversary}))

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- scheduler.Run(ctx) }()
	time.Sleep(time.Until(pictured))
	s := shoot(t, pages, repository, users)
	stop()
	require.NoError(t, <-ended)
	return s
}

// populate creates the users, and returns those who have an external id.
func populate(t *testing.T, scheduler almanac.Scheduler, random *rand.Rand) map[string]almanac.User {
	t.Helper()
	users := map[string]almanac.User{}
	for _, r := range residents {
		for range r.n {
			born := pictured.AddDate(-18-random.IntN(60), 0, random.IntN(5)-1) // a birthday in these days
			if random.IntN(3) == 0 {
				born = born.AddDate(0, 0, random.IntN(365))
			}
			p := almanac.Profile{
				FirstName: givenNames[random.IntN(len(givenNames))], LastName: familyNames[random.IntN(len(familyNames))],
				DateOfBirth: born.Format(time.DateOnly), Timezone: r.zone, Attributes: json.RawMessage(`{}`),
			}
			switch p.ExternalID = fmt.Sprintf("crm-%d", len(users)); {
			case p.ExternalID == slowest:
				p.Timezone, p.DateOfBirth = "Europe/Berlin", "1990-10-24"
			case p.ExternalID == nightly:
				p.FirstName, p.LastName, p.Timezone, p.DateOfBirth = "Jonas", "Weber", "Europe/Berlin", "1990-10-25"
			case random.IntN(5) == 0:
				p.Attributes = json.RawMessage(`{"anniversary":"2021-10-26"}`)
			}
			created, err := scheduler.CreateUser(t.Context(), p)
			require.NoError(t, err)
			users[p.ExternalID] = created.User
		}
	}
	return users
}

// shoot keeps all pages.
func shoot(t *testing.T, pages http.Handler, repository almanac.Repository, users map[string]almanac.User) *studio {
	t.Helper()
	s := &studio{answers: map[string]*httptest.ResponseRecorder{}, paths: map[string]string{}}
	jonas := users[nightly].ID
	night := almanactest.PendingEvent(t, repository, jonas, almanac.TypeBirthday).ID
	s.add(pages, "", "/") // has the numbers read
	time.Sleep(time.Second)
	for _, one := range []struct{ name, path string }{
		{"now", "/"}, {"map", "/map?hour=09:00"}, {"calendar", "/calendar?zone=Europe/Berlin&year=2026"},
		{"day", "/calendar/2026-10-25?zone=Europe/Berlin"}, {"events", "/events?status=PENDING&order=next"}, {"event", "/events/" + night.String()},
		{"users", "/users?name=jonas"}, {"user", "/users/" + jonas.String() + "?zone=America/New_York"}, {"zones", "/zones"},
		{"zone", "/zones/Europe/Berlin"}, {"when", "/when?zone=Europe/Berlin&at=2026-10-25T02:30"}, {"failures", "/failures"},
		{"leases", "/leases"}, {"pauses", "/pauses"}, {"operations", "/operations?operation=cancel&zone=Europe/Berlin&type=BIRTHDAY"},
		{"confirm", "/events/" + night.String() + "/cancel"},
	} {
		w := s.add(pages, one.name, one.path)
		require.Equal(t, http.StatusOK, w.Code, one.path)
		for _, link := range linked.FindAllStringSubmatch(w.Body.String(), -1) {
			base, err := url.Parse(one.path)
			require.NoError(t, err)
			file, err := base.Parse(link[1])
			require.NoError(t, err)
			s.add(pages, "", file.Path)
		}
	}
	return s
}

var linked = regexp.MustCompile(`(?:href|src)="([^"]*assets/[^"]*)"`)

// TestPictures takes the pictures of docs/dashboard.md. They repeat, but for the fonts and the
// releases of the machine.
func TestPictures(t *testing.T) {
	uuid.SetRand(&lockedRandom{source: rand.NewChaCha8([32]byte{1})})
	defer uuid.SetRand(nil)
	var s *studio
	synctest.Test(t, func(t *testing.T) { s = perform(t) })

	server := httptest.NewServer(s)
	defer func() {
		server.CloseClientConnections() // streams
		server.Close()
	}()
	dir := *picturesInto
	if dir == "" {
		dir = t.TempDir()
	}
	browser := newBrowser(t)
	for _, theme := range []string{"light", "dark"} {
		for _, name := range s.names {
			if theme == "dark" && name != inBothThemes {
				continue
			}
			b := newTab(t, browser, look{1200, 800, theme == "dark", true, nil})
			require.EqualValues(t, 200, b.open(server.URL+s.paths[name]))
			// Streams are silent here.
			eval[bool](b, `(() => { const bar = document.querySelector("[data-live]");
				if (bar) { bar.classList.add("on"); bar.querySelector("[data-state]").textContent = "Live"; } return true; })()`)
			height := min(eval[float64](b, "document.documentElement.scrollHeight"), 1000)
			picture := b.picture(1200, height)
			require.LessOrEqual(t, len(picture), mostOfAPicture, "%s, %s", name, theme)
			require.NoError(t, os.WriteFile(filepath.Join(dir, name+"-"+theme+".webp"), picture, 0o644))
			b.requireSound(server.URL)
		}
	}
	docs, err := os.ReadFile("../../docs/dashboard.md")
	require.NoError(t, err)
	for _, name := range s.names {
		require.True(t, bytes.Contains(docs, []byte("pictures/dashboard/"+name+"-light.webp")), "docs/dashboard.md does not show %s", name)
		info, err := os.Stat("../../docs/pictures/dashboard/" + name + "-light.webp")
		require.NoError(t, err, "make pictures")
		require.LessOrEqual(t, info.Size(), int64(mostOfAPicture))
	}
}

// picture returns the upper part of the page as an image.
func (b *tab) picture(width, height float64) []byte {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	beyond, quality := true, int64(60)
	taken, err := chromedp.Call(ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{
		Format: page.CaptureScreenshotFormatWebp, Quality: &quality, CaptureBeyondViewport: &beyond,
		Clip: &page.Viewport{Width: width, Height: height, Scale: 1},
	})
	require.NoError(b.t, err)
	return taken.Data
}
