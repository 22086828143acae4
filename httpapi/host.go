package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Answers reports whether a request for the host, as its Host header names it, is
// answered: localhost and loopback addresses, with any port, and the names of Hosts.
func (n NoAuthentication) Answers(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	} else {
		name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	}
	if ip, err := netip.ParseAddr(name); err == nil && ip.Unmap().IsLoopback() {
		return true
	}
	name = strings.TrimSuffix(name, ".")
	is := func(known string) bool { return strings.EqualFold(name, known) }
	return is("localhost") || name != "" && slices.ContainsFunc(n.Hosts, is)
}

// misdirected refuses a request for a host that is not answered without
// authentication. Otherwise a page whose own name leads to this machine could read
// and write everything (DNS rebinding): to a browser both are of one origin.
func (a *api) misdirected(r *http.Request) error {
	if none, ok := a.auth.(NoAuthentication); ok && !none.Answers(r.Host) {
		return newProblem(http.StatusMisdirectedRequest, "without authentication only localhost and loopback addresses are answered")
	}
	return nil
}
