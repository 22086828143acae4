package webhook

import (
	"net"
	"net/http"
)

// Transport is what d sends by, for tests that lead it elsewhere.
func (d *Deliverer) Transport() *http.Transport { return d.transport }

// NewDialer returns the dialer of a deliverer.
func NewDialer(private bool) *net.Dialer { return newDialer(guard(private)) }
