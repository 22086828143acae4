package dashboard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

const (
	// pageLimit is how long one page may take, including its calls of the reader.
	pageLimit = 10 * time.Second
	// readLimit is how long one call of the reader may take.
	readLimit = 3 * time.Second
	// maxForm is how many bytes a form may have.
	maxForm = 64 << 10
)

// route is a page, or a form that changes something.
type route struct {
	method, path string
	page         page
}

// page makes what a request is answered with. It writes nothing itself, so nothing is sent
// before the answer is complete.
type page func(r *request) (answer, error)

// routes lists the pages. Each has a file that is named after it; zones.go also has the page of one
// zone. A page about one user checks by itself whether the viewer may look.
func (d *dashboard) routes() []route {
	return []route{
		{http.MethodGet, "/{$}", look(d.nowPage)},
		{http.MethodGet, "/map", look(d.mapPage)},
		{http.MethodGet, "/events", look(d.eventsPage)},
		{http.MethodGet, "/events.csv", look(d.exportPage)},
		{http.MethodGet, "/events/{id}", d.eventPage},
		{http.MethodGet, "/users", look(d.usersPage)},
		{http.MethodGet, "/users/{id}", d.userPage},
		{http.MethodGet, "/users/{id}/opt-outs", d.confirmOptOutPage},
		{http.MethodPost, "/users/{id}/opt-outs", d.changeOptOutPage},
		{http.MethodGet, "/users/{id}/why", d.whyPage},
		{http.MethodGet, "/failures", look(d.failuresPage)},
		{http.MethodGet, "/calendar", look(d.calendarPage)},
		{http.MethodGet, "/calendar/{date}", look(d.dayPage)},
		{http.MethodGet, "/zones", look(d.zonesPage)},
		{http.MethodGet, "/zones/reconcile", look(d.reconcilePage)},
		{http.MethodPost, "/zones/reconcile", look(d.reconcilePage)},
		{http.MethodGet, "/roll-out", look(d.rollOutPage)},
		{http.MethodPost, "/roll-out", look(d.rollOutPage)},
		{http.MethodGet, "/rehearsal", look(d.rehearsalPage)},
		{http.MethodGet, "/rehearsal.csv", look(d.rehearsalFile)},
		{http.MethodGet, "/zones/{name...}", look(d.zonePage)},
		{http.MethodGet, "/when", look(d.whenPage)},
		{http.MethodGet, "/leases", look(d.leasesPage)},
		{http.MethodGet, "/events/{id}/{operation}", d.confirmEventPage},
		{http.MethodPost, "/events/{id}/{operation}", d.changeEventPage},
		{http.MethodGet, "/operations", look(d.operationsPage)},
		{http.MethodPost, "/operations", look(d.operatePage)},
		{http.MethodGet, "/lanes", look(d.lanesPage)},
		{http.MethodPost, "/lanes", look(d.lanePage)},
		{http.MethodGet, "/pauses", look(d.pausesPage)},
		{http.MethodPost, "/pauses", look(d.pausePage)},
		{http.MethodGet, "/broadcasts", look(d.broadcastsPage)},
		{http.MethodPost, "/broadcasts", look(d.broadcastPage)},
	}
}

// look returns a page that only viewers see who may look at everything.
func look(do page) page {
	return func(r *request) (answer, error) {
		if err := r.need(Look, uuid.Nil); err != nil {
			return answer{}, err
		}
		return do(r)
	}
}

func (d *dashboard) route() {
	d.mux = http.NewServeMux()
	for _, one := range d.routes() {
		d.mux.Handle(one.method+" "+one.path, d.serve(one.page))
	}
	if d.login != nil {
		d.mux.Handle("GET /login", d.serveUnauthenticated(d.loginPage))
		d.mux.Handle("POST /login", d.serveUnauthenticated(d.logInPage))
		d.mux.Handle("POST /logout", d.serveUnauthenticated(d.logOutPage))
	}
	d.mux.HandleFunc("GET /assets/{hash}/{file}", serveAsset)
	d.mux.HandleFunc("GET /live", d.live)
	d.mux.Handle("/", d.serve(func(*request) (answer, error) { return answer{}, notFound }))
}

// ServeHTTP answers one request.
func (d *dashboard) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w := &tracked{ResponseWriter: rw}
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "same-origin") // no-referrer would make the Origin of forms null
	header.Set("Cache-Control", "no-store")
	if r.URL.Path == "" { // mounted at a path without a slash at its end: relative links need it
		redirect(w, "./"+path.Base(strings.SplitN(r.RequestURI, "?", 2)[0])+"/") // "./": a colon would make it a scheme
		return
	}
	defer func() {
		if cause := recover(); cause != nil {
			d.panicked(w, d.requestOf(r, ""), cause)
		}
	}()
	switch {
	case d.misdirected(r):
		d.fail(w, d.requestOf(r, ""), refused(http.StatusMisdirectedRequest, "This dashboard has no login, so it answers requests for localhost and loopback addresses only."))
	case !clean(r.URL.EscapedPath()): // ServeMux would redirect, and it does not know what was stripped
		d.fail(w, d.requestOf(r, ""), notFound)
	default:
		d.mux.ServeHTTP(w, r)
	}
}

// policy allows the dashboard's own files only, and nothing inline.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// clean reports whether ServeMux accepts a path as it is.
func clean(p string) bool {
	shortest := path.Clean(p)
	return strings.HasPrefix(p, "/") && (p == shortest || shortest != "/" && p == shortest+"/")
}

// redirect answers with a relative Location. [http.Redirect] would make it absolute, by a
// path that may lack what was stripped.
func redirect(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

// request is a request of a viewer who is let in.
type request struct {
	*http.Request
	d         *dashboard
	principal string
	root      string    // the relative path to the first page, such as "../"
	now       time.Time // the reader's time, UTC; see [request.clock]
	permits   map[permit]bool
}

// permit is a permission that a request has asked for.
type permit struct {
	action Action
	user   uuid.UUID
}

func (d *dashboard) requestOf(r *http.Request, principal string) *request {
	return &request{Request: r, d: d, principal: principal, root: rootOf(r.URL.EscapedPath())}
}

// rootOf returns the relative path from a page to the first page. It takes the escaped
// path, because for a browser an escaped slash is no slash.
func rootOf(p string) string {
	if deep := strings.Count(p, "/") - 1; deep > 0 {
		return strings.Repeat("../", deep)
	}
	return "./"
}

// clock returns the reader's time. It is read every few seconds, and goes by this machine's
// clock in between. One request has one time.
func (r *request) clock() (time.Time, error) {
	if r.now.IsZero() {
		read, at, err := r.d.clock.get(r.Context(), r.d.now, freshFor, r.d.reader.Now)
		if err != nil {
			return time.Time{}, err
		}
		r.now = read.UTC().Add(r.d.now().Sub(at))
	}
	return r.now, nil
}

// mayDo reports whether the viewer may do something to a user; uuid.Nil means to all users. A
// request asks for each permission once.
func (r *request) mayDo(a Action, user uuid.UUID) (bool, error) {
	key := permit{a, user}
	if may, known := r.permits[key]; known {
		return may, nil
	}
	may, err := r.d.may(r.Request, a, user)
	if r.permits == nil {
		r.permits = make(map[permit]bool)
	}
	if err != nil {
		return false, fmt.Errorf("%w: %w", errPermission, err)
	}
	r.permits[key] = may
	return may, nil
}

// errPermission is the failure of the host's function of permissions.
var errPermission = errors.New("dashboard: a permission could not be checked")

// need returns nil if the viewer may do something, and otherwise what the answer is.
func (r *request) need(a Action, user uuid.UUID) error {
	switch may, err := r.mayDo(a, user); {
	case err != nil:
		return err
	case !may && a == Look && user != uuid.Nil:
		return notFound
	case !may:
		return refused(http.StatusForbidden, "You may not do this: "+string(a)+".")
	}
	return nil
}

// serve authenticates a request, bounds it, and writes the answer of a page.
func (d *dashboard) serve(do page) http.Handler {
	return d.bound(func(w http.ResponseWriter, r *request) {
		var ok bool
		if r.principal, ok = d.authenticate(r.Request); !ok {
			r.principal = ""
			d.unauthenticated(w, r)
			return
		}
		d.answer(w, r, do)
	})
}

// serveUnauthenticated is serve without authentication.
func (d *dashboard) serveUnauthenticated(do page) http.Handler {
	return d.bound(func(w http.ResponseWriter, r *request) { d.answer(w, r, do) })
}

// bound bounds how long a request takes.
func (d *dashboard) bound(do func(http.ResponseWriter, *request)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, raw *http.Request) {
		ctx, cancel := context.WithTimeout(raw.Context(), pageLimit)
		defer cancel()
		do(w, d.requestOf(raw.WithContext(ctx), ""))
	})
}

// answer makes the answer of a page, and writes it.
func (d *dashboard) answer(w http.ResponseWriter, r *request, do page) {
	if r.Method == http.MethodPost {
		if err := d.form(w, r); err != nil {
			d.fail(w, r, err)
			return
		}
	}
	a, err := do(r)
	if err != nil {
		d.fail(w, r, err)
		return
	}
	d.write(w, r, a)
}

// form refuses forms of other origins, and parses the others.
func (d *dashboard) form(w http.ResponseWriter, r *request) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := d.origins.Check(r.Request); err != nil {
		return refused(http.StatusForbidden, "A page of another origin cannot change anything here. Behind a proxy that replaces the Host header, set WithTrustedOrigin.")
	}
	if err := r.ParseForm(); err != nil {
		return refused(http.StatusBadRequest, "The form cannot be read.")
	}
	r.Request = r.WithContext(almanac.WithPrincipal(r.Context(), r.principal))
	return nil
}

// unauthenticated answers a request that is not let in.
func (d *dashboard) unauthenticated(w http.ResponseWriter, r *request) {
	switch {
	case d.login == nil:
		d.fail(w, r, refused(http.StatusUnauthorized, "Log in to see this dashboard."))
	case d.login.wait(r.Request) > 0 && bearer(r.Request) != "":
		d.write(w, r, d.tooManyTries(r))
	case r.Method == http.MethodPost || bearer(r.Request) != "":
		d.fail(w, r, refused(http.StatusUnauthorized, "Log in to see this dashboard."))
	default:
		redirect(w, r.root+"login")
	}
}

// problem is an error whose text a viewer may read.
type problem struct {
	status int
	detail string
	form   answer // for a form with wrong fields: the same page, with its fields kept
}

func (p *problem) Error() string { return "dashboard: " + p.detail }

func refused(status int, detail string) error { return &problem{status: status, detail: detail} }

var notFound = refused(http.StatusNotFound, "There is no such page, event or user.")

// problemOf returns what a viewer sees of an error, and whether that is all there is to know.
// Otherwise the error is logged.
func problemOf(r *request, err error) (p *problem, complete bool) {
	var missing *almanac.NotFoundError
	var invalid *almanac.ValidationError
	switch {
	case errors.As(err, &p):
		return p, true
	case errors.Is(err, errPermission) && r.Context().Err() == nil: // before the others: the error of the host may be any of them
		return &problem{status: http.StatusServiceUnavailable, detail: causeOf(err) + " Try again in a moment."}, false
	case errors.As(err, new(*panicError)), rejected(err):
		return &problem{status: http.StatusInternalServerError, detail: causeOf(err)}, false
	case errors.As(err, &missing):
		return notFound.(*problem), true
	case errors.As(err, &invalid):
		return &problem{status: http.StatusBadRequest, detail: sentences(invalid)}, true
	case errors.Is(err, context.DeadlineExceeded):
		return &problem{status: http.StatusGatewayTimeout, detail: "The database took too long. Narrow the filter, or try again."}, false
	case r.Context().Err() != nil:
		return &problem{status: http.StatusServiceUnavailable, detail: "The request was given up."}, true
	}
	return &problem{status: http.StatusServiceUnavailable, detail: causeOf(err) + " Try again in a moment."}, false
}

// causeOf says what an error that is logged means.
func causeOf(err error) string {
	switch {
	case errors.Is(err, errPermission):
		return "A permission could not be checked."
	case errors.As(err, new(*panicError)):
		return "The program has failed. Its log says where."
	case rejected(err):
		return "The database refuses this. The log of the program says why."
	}
	return "The database does not answer."
}

// rejected reports whether the database refuses a statement for good, such as for want of a right. That
// it stops, is overloaded, or lets another transaction go first is no such refusal.
func rejected(err error) bool {
	var answered interface{ SQLState() string } // as the errors of pgx and of other drivers are
	return errors.As(err, &answered) && !slices.Contains([]string{"", "08", "40", "53", "55", "57"}, wholeCharacters(answered.SQLState(), 2))
}

// sentences says what is wrong with each field.
func sentences(invalid *almanac.ValidationError) string {
	var all []string
	for _, f := range invalid.Fields {
		all = append(all, f.Field+" "+f.Problem)
	}
	return strings.Join(all, "; ") + "."
}

// fail answers with the page of an error. The filters of the address stay, so that a
// viewer can change one and try again.
func (d *dashboard) fail(w http.ResponseWriter, r *request, err error) {
	p, complete := problemOf(r, err)
	if !complete {
		d.log.ErrorContext(r.Context(), "Dashboard request failed", slog.String("route", r.Pattern), slog.Any("error", err))
	}
	if later := p.status == http.StatusServiceUnavailable || p.status == http.StatusGatewayTimeout; later && w.Header().Get("Retry-After") == "" {
		w.Header().Set("Retry-After", "5")
	}
	a := answer{title: http.StatusText(p.status), template: "problem", data: p.detail}
	if p.form.template != "" {
		a = p.form
	}
	a.status = p.status
	d.write(w, r, a)
}

// logChange logs a change that a viewer made.
func (r *request) logChange(what Action, attributes ...slog.Attr) {
	attributes = append([]slog.Attr{slog.String("principal", r.principal), slog.String("action", string(what))}, attributes...)
	r.d.log.LogAttrs(r.Context(), slog.LevelInfo, "Dashboard change", attributes...)
}

// throttled is a Reader of which at most as many calls run at a time as its channel holds.
type throttled struct {
	Reader
	slots chan struct{}
}
