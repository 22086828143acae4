package dashboard

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/google/uuid"
)

// Action is something that a viewer may be allowed to do.
type Action string

// The actions.
const (
	Look        Action = "look"          // see pages, without names and payloads
	SeeNames    Action = "see names"     // see names, addresses, birth dates, external ids and attributes of users
	SeePayloads Action = "see payloads"  // see payloads of events, and texts of errors
	Cancel      Action = "cancel"        // cancel pending events
	RunNow      Action = "run now"       // make pending events due at once
	Requeue     Action = "requeue"       // deliver failed and cancelled events again
	PauseTypes  Action = "pause"         // pause and resume types of events, and limit lanes
	EditOptOuts Action = "edit opt-outs" // store and remove opt-outs of users
	Reconcile   Action = "reconcile"     // resolve the pending events of zones again
	RollOut     Action = "roll out"      // plan the pending events of a type again
	Broadcast   Action = "broadcast"     // start, stop and resume broadcasts
)

// WithAuthentication sets who may use the dashboard. The function returns the name of the
// viewer who sent a request, for the log and the audit trail, and whether the request is
// let in. A request that is not let in is answered 401. Use it behind the host's own login,
// which puts the viewer into the context of the request. The function must be safe for
// concurrent use. It is called again every second while a stream is open.
func WithAuthentication(viewer func(r *http.Request) (principal string, ok bool)) Option {
	return func(d *dashboard) {
		d.rules++
		d.authenticate = viewer
	}
}

// AllowAll allows every request for localhost or a loopback address. It is
// for programs on the viewer's own machine. A request with any other Host header is
// answered 421, because it may come from a web page in a browser on this machine.
func AllowAll() Option {
	return func(d *dashboard) {
		d.rules++
		d.loopback = true
		d.authenticate = func(*http.Request) (string, bool) { return "", true }
	}
}

// WithPermissions sets what viewers may do. The function is asked for each request that is let in, and
// again for each thing on a page that needs a permission. user is the id of the user concerned. It is
// [uuid.Nil] for actions about all users: pages of lists, operations on many events, pauses, limits,
// reconciling, rolling out and broadcasts. SeePayloads with uuid.Nil also shows the errors by which events that are retried are
// grouped, for all users. SeeNames is asked with the id of each user whose name a page would show.
//
// EditOptOuts is asked with the id of the user. The reason of an opt-out is shown only with SeeNames.
//
// Without [Look], the answer is 403, and for a page about one user or event 404. Each
// change is checked again when it is made. An error is logged and answered 503. The function
// must be safe for concurrent use.
//
// By default a viewer who is let in may do everything except [SeeNames] and [SeePayloads].
func WithPermissions(may func(r *http.Request, a Action, user uuid.UUID) (bool, error)) Option {
	return func(d *dashboard) { d.may = may }
}

// WithTrustedOrigin lets pages of another origin, such as "https://admin.example.com", send
// changes. A proxy that replaces the Host header under plain HTTP needs it, with the origin
// that viewers see in their browsers. New refuses a text that is not an origin. By default
// only the origin of the dashboard itself is trusted.
func WithTrustedOrigin(origin string) Option {
	return func(d *dashboard) {
		if err := d.origins.AddTrustedOrigin(origin); err != nil {
			d.bad = append(d.bad, err)
		}
	}
}

// access decides who is let in, and what viewers may do.
type access struct {
	authenticate func(*http.Request) (string, bool)
	may          func(*http.Request, Action, uuid.UUID) (bool, error)
	login        *login // nil without WithTokenLogin
	loopback     bool   // requests for other hosts are refused
	rules        int    // how many rules of access were given
	origins      http.CrossOriginProtection
}

func (a *access) check() error {
	var errs []error
	if a.rules != 1 {
		errs = append(errs, errors.New("dashboard: exactly one of WithAuthentication, WithTokenLogin and AllowAll is required"))
	}
	if a.rules > 0 && a.authenticate == nil {
		errs = append(errs, errors.New("dashboard: authentication is nil"))
	}
	if a.may == nil {
		errs = append(errs, errors.New("dashboard: permissions are nil"))
	}
	return errors.Join(errs...)
}

// misdirected reports whether a request without authentication is for another host than this machine. A
// web page whose host name resolves to this machine could otherwise read everything (DNS rebinding).
func (a *access) misdirected(r *http.Request) bool {
	if !a.loopback {
		return false
	}
	name := r.Host
	if h, _, err := net.SplitHostPort(r.Host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	if ip, err := netip.ParseAddr(name); err == nil {
		return !ip.Unmap().IsLoopback()
	}
	return !strings.EqualFold(strings.TrimSuffix(name, "."), "localhost")
}
