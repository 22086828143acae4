package webhook

import (
	"net"
	"net/http"
)

// Transport returns the transport of d, for tests that redirect it.
func (d *Deliverer) Transport() *http.Transport { return d.transport }

// NewDialer returns the dialer of a deliverer with some options.
func NewDialer(options ...Option) *net.Dialer {
	var s settings
	for _, option := range options {
		option(&s)
	}
	return newDialer(s.guard())
}

// Remembered returns how many receivers an option of WithConcurrency stores data for.
func Remembered(option Option) int {
	var s settings
	option(&s)
	s.bulkhead.mu.Lock()
	defer s.bulkhead.mu.Unlock()
	return len(s.bulkhead.receivers)
}
