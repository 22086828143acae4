package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// AllowsHost reports whether a request with the given Host header is accepted. It allows
// localhost and loopback addresses, with any port, and the names of Hosts.
func (n NoAuthentication) AllowsHost(host string) bool {
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

// misdirected refuses a request for an unknown host without authentication. Otherwise a web
// page whose host name resolves to this machine could read and write everything (DNS
// rebinding): a browser takes both for one origin.
func (a *api) misdirected(r *http.Request) error {
	if none, ok := a.auth.(NoAuthentication); ok && !none.AllowsHost(r.Host) {
		return newProblem(http.StatusMisdirectedRequest, "without authentication only localhost and loopback addresses are answered")
	}
	return nil
}
