package dashboard

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

//go:embed templates/*.html
var templateFiles embed.FS

// answer is what a page is made of.
type answer struct {
	title    string
	template string                          // the name of the file in templates, without .html
	status   int                             // 200 if zero
	data     any                             // the template's .Data
	live     string                          // the name of the stream that keeps the page up to date; "" if none does
	redirect string                          // a relative path, instead of all else
	csv      func(http.ResponseWriter) error // instead of a page
	notice   string                          // what was just done; "" if nothing was
	header   http.Header                     // more headers
}

// frame is what every template sees.
type frame struct {
	Title     string
	Page      string // the entry of the navigation that is current
	Root      string // the relative path to the first page
	Name      string // of the instance
	Principal string
	Login     bool // whether there is a form to log out
	Stranger  bool // whether the viewer can log in, and has not
	Retry     bool // whether there are filters that an error page can leave out
	Notice    string
	Live      string // the address of the stream, or ""
	Data      any
	files
}

// files are the addresses of the files that every page loads.
type files struct{ Style, Script, Icon string }

// sections are the entries of the navigation.
var sections = []struct{ Path, Name string }{
	{"", "Now"}, {"map", "Map"}, {"calendar", "Calendar"}, {"events", "Events"}, {"users", "Users"},
	{"zones", "Zones"}, {"when", "When"}, {"failures", "Failures"}, {"leases", "Leases"}, {"lanes", "Lanes"}, {"pauses", "Pauses"},
	{"broadcasts", "Broadcasts"}, {"operations", "Operations"}, {"roll-out", "Roll-out"},
}

// templates has one set for each page: the layout, what all pages share, and the page.
var templates = parseTemplates()

func parseTemplates() map[string]*template.Template {
	shared := template.Must(template.New("").Funcs(functions).ParseFS(templateFiles, "templates/layout.html", "templates/shared.html"))
	entries, err := templateFiles.ReadDir("templates")
	if err != nil {
		panic(err)
	}
	all := make(map[string]*template.Template)
	for _, entry := range entries {
		name := strings.TrimSuffix(entry.Name(), ".html")
		if name == "layout" || name == "shared" {
			continue
		}
		all[name] = template.Must(template.Must(shared.Clone()).ParseFS(templateFiles, "templates/"+entry.Name()))
	}
	return all
}

// write renders an answer completely, and then sends it.
func (d *dashboard) write(w http.ResponseWriter, r *request, a answer) {
	maps.Copy(w.Header(), a.header)
	if a.redirect != "" {
		redirect(w, a.redirect)
		return
	}
	if a.csv != nil {
		d.send(w, r, a.csv)
		return
	}
	body, err := d.render(r, a, "layout")
	if err != nil {
		d.log.ErrorContext(r.Context(), "Dashboard page failed", slog.String("route", r.Pattern), slog.Any("error", err))
		http.Error(w, "This page cannot be shown.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if a.status != 0 {
		w.WriteHeader(a.status)
	}
	_, _ = w.Write(body) // an error means that the viewer is gone
}

// send writes a file. If that fails, the viewer gets the page of the error, or a download
// that is seen to be broken.
func (d *dashboard) send(w http.ResponseWriter, r *request, csv func(http.ResponseWriter) error) {
	err := csv(w)
	if err == nil {
		return
	}
	if began(w) {
		d.log.ErrorContext(r.Context(), "Dashboard export failed", slog.String("route", r.Pattern), slog.Any("error", err))
		panic(http.ErrAbortHandler)
	}
	w.Header().Del("Content-Disposition")
	d.fail(w, r, err)
}

// render renders one template of a page: "layout" is the whole page.
func (d *dashboard) render(r *request, a answer, name string) ([]byte, error) {
	set, ok := templates[a.template]
	if !ok {
		return nil, fmt.Errorf("dashboard: no template %q", a.template)
	}
	f := frame{
		Title: a.title, Page: sectionOf(r.URL.Path), Root: r.root, Name: d.name, Principal: r.principal,
		Login: d.login != nil && r.principal != "", Stranger: d.login != nil && r.principal == "",
		Retry: r.Method == http.MethodGet && r.URL.RawQuery != "", Notice: a.notice,
		files: files{r.root + assetPath("dashboard.css"), r.root + assetPath("dashboard.js"), r.root + assetPath("icon.svg")}, Data: a.data,
	}
	if a.live != "" {
		values := r.URL.Query()
		values.Set("page", a.live)
		f.Live = r.root + "live?" + values.Encode()
	}
	var body bytes.Buffer
	err := set.ExecuteTemplate(&body, name, f)
	return body.Bytes(), err
}

// sectionOf returns the path of the entry of the navigation to which a path belongs.
func sectionOf(path string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return strings.TrimSuffix(first, ".csv")
}

// functions are what templates can call.
var functions = template.FuncMap{
	"sections": func() any { return sections },
	"instant":  instantOf,
	"utc":      utc,
	"duration": duration,
	"events":   eventsText,
	"short":    short,
	"number":   number,
	"counted":  countText,
	"list":     func(values ...any) []any { return values },
	"query":    query,
	"lower":    strings.ToLower,
	"isZero":   func(t time.Time) bool { return t.IsZero() },
}

// instant is a point in time as a page shows it: on the clocks of a zone, and in UTC. The
// script adds the viewer's own time.
type instant struct {
	At   time.Time
	Wall calendar.WallTime // zero if the zone is unknown
	Zone string            // "" if only UTC is shown
}

// instantOf returns the instant in a zone. An unknown zone leaves only UTC, and so does the zone UTC, so that
// its time does not stand there twice.
func instantOf(at time.Time, zone string) instant {
	i := instant{At: at.UTC()}
	if z, err := calendar.LoadTimezone(zone); err == nil && !at.IsZero() && z.Canonical() != "Etc/UTC" {
		i.Zone, i.Wall = zone, z.WallTime(at)
	}
	return i
}

// ISO is the instant in the form of the attribute datetime.
func (i instant) ISO() string { return i.At.Format("2006-01-02T15:04:05.000Z") }

func utc(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}

// duration returns a duration for people to read, with two units at most.
func duration(d time.Duration) string {
	sign := ""
	if d < 0 {
		sign, d = "−", -d
	}
	switch {
	case d < time.Millisecond:
		return sign + fmt.Sprintf("%d µs", d.Microseconds())
	case d < 999500*time.Microsecond: // from here on three figures are a second
		return sign + fmt.Sprintf("%.3g ms", float64(d.Microseconds())/1000)
	case d < time.Minute:
		return sign + fmt.Sprintf("%.3g s", d.Seconds())
	case d < time.Hour:
		return sign + units(int(d.Minutes()), "min", int(d.Seconds())%60, "s")
	case d < 48*time.Hour:
		return sign + units(int(d.Hours()), "h", int(d.Minutes())%60, "min")
	}
	return sign + units(int(d.Hours())/24, "d", int(d.Hours())%24, "h")
}

// units writes two numbers with their units, and leaves out the second if it is zero.
func units(n int, unit string, m int, small string) string {
	if m == 0 {
		return fmt.Sprintf("%d %s", n, unit)
	}
	return fmt.Sprintf("%d %s %d %s", n, unit, m, small)
}

// short returns the part of an id by which people tell ids apart: its end, since ids that
// were made at the same time begin alike.
func short(id uuid.UUID) string { return "…" + id.String()[24:] }

// number writes a whole number with commas.
func number(n int) string {
	digits, sign := fmt.Sprint(max(n, -n)), ""
	if n < 0 {
		sign = "−"
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// listCut returns at most n bytes of a text, in whole characters, and an ellipsis if the text is longer.
func listCut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return wholeCharacters(text, n) + "…"
}

// wholeCharacters returns the longest beginning of a text that has at most n bytes and ends
// between characters.
func wholeCharacters(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// query returns values as a query, without the empty ones: "a", 1, "b", "" is "?a=1".
func query(pairs ...any) string {
	values := url.Values{}
	for pair := range slices.Chunk(pairs, 2) {
		if text := fmt.Sprint(pair[1]); text != "" {
			values.Set(fmt.Sprint(pair[0]), text)
		}
	}
	if len(values) == 0 {
		return "?"
	}
	return "?" + values.Encode()
}

// nameOf returns the name of a user, if the viewer may see it, and otherwise "".
func (r *request) nameOf(u almanac.User) (string, error) {
	if may, err := r.mayDo(SeeNames, u.ID); !may || err != nil {
		return "", err
	}
	return u.Name(), nil
}

//go:embed assets/dashboard.css assets/dashboard.js assets/icon.svg
var assetFiles embed.FS

// assets are the files with their hashes. A file at the address of another hash is not
// found, so an old page never gets the style of a new release.
var assets = hashAssets()

type asset struct {
	hash    string
	content []byte
}

func hashAssets() map[string]asset {
	all := make(map[string]asset)
	entries, err := assetFiles.ReadDir("assets")
	if err != nil {
		panic(err)
	}
	for _, entry := range entries {
		content, err := assetFiles.ReadFile("assets/" + entry.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(content)
		all[entry.Name()] = asset{base64.RawURLEncoding.EncodeToString(sum[:9]), content}
	}
	return all
}

// assetTypes are fixed, because the tables of a machine may say otherwise. A browser does not
// run a script of another type.
var assetTypes = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

func assetPath(name string) string { return "assets/" + assets[name].hash + "/" + name }

// serveAsset answers without authentication, because the page that asks for a login needs
// the files too. The cache is private, since a host may set cookies on every answer.
func serveAsset(w http.ResponseWriter, r *http.Request) {
	file, ok := assets[r.PathValue("file")]
	if !ok || file.hash != r.PathValue("hash") {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", assetTypes[path.Ext(r.PathValue("file"))])
	w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
	_, _ = w.Write(file.content)
}
