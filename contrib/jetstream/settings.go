package almanacjetstream

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/almanac-go/almanac"
)

// Settings are what the dispatchers and the workers of one stream have in common. They
// must agree on everything but the connections, the registry and the log. A zero field
// takes its default.
type Settings struct {
	// JetStream is where messages go and come from. Its connection should reconnect for
	// ever: nats.MaxReconnects(-1).
	JetStream jetstream.JetStream
	// Repository keeps the events. It must not be bound to a transaction.
	Repository almanac.Repository
	// Registry has the handlers: a dispatcher publishes, and a worker takes, events of
	// its types. A type that is published and that no worker knows waits in the stream.
	Registry almanac.Registry
	// Stream is the name of the stream, default "ALMANAC". It is created when it is not
	// there, on files and for work to be done once. One that is there is used as it is, if
	// it is a work queue that drops no message by itself.
	Stream string
	// Prefix begins the subjects, which end with the event type; default
	// "almanac.events". The stream must not take anything else.
	Prefix string
	// Replicas is how many servers keep the stream, when it is created; default 1.
	Replicas int
	// Out is about how many messages may wait in the stream, 1 to 10,000; default 1,000.
	// When there are as many, nothing is claimed. What a dispatcher has in hand comes on
	// top, up to its [almanac.WithWorkers].
	Out int
	// Lease is how long an event is held before others may take it back; it is extended
	// while the event waits in the stream and while its work runs. It is also how long a
	// message is with a worker that has not accepted it before another worker gets it. It
	// takes the place of [almanac.WithLease]. It must be at least three seconds. The
	// default is a minute.
	Lease time.Duration
	// Log is where both write what they do, as [almanac.WithLogger] says, whose place it
	// takes. The default is [slog.Default].
	Log *slog.Logger
}

const (
	defaultOut = 1000
	maxOut     = 10_000 // each message is looked at by every dispatcher, three times in a lease
)

// checked returns s with its defaults, or every complaint about it. What a scheduler
// complains about is left to it.
func (s Settings) checked() (Settings, error) {
	if s.Stream == "" {
		s.Stream = "ALMANAC"
	}
	if s.Prefix == "" {
		s.Prefix = "almanac.events"
	}
	if s.Replicas == 0 {
		s.Replicas = 1
	}
	if s.Out == 0 {
		s.Out = defaultOut
	}
	if s.Lease == 0 {
		s.Lease = time.Minute
	}
	if s.Log == nil {
		s.Log = slog.Default()
	}
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("almanacjetstream: "+format, args...))
		}
	}
	bound, able := s.Repository.(almanac.Transactional)
	refuse(s.JetStream == nil, "JetStream is nil")
	refuse(able && bound.InTransaction(), "repository is bound to a transaction")
	refuse(strings.ContainsAny(s.Stream, " \t\r\n.*>/\\"), "stream %q is no name of a stream", s.Stream)
	refuse(badSubject(s.Prefix), "prefix %q is no subject", s.Prefix)
	refuse(s.Replicas < 1 || s.Replicas > 5, "%d replicas are not 1 to 5", s.Replicas)
	refuse(s.Out < 1 || s.Out > maxOut, "%d messages out are not 1 to %d", s.Out, maxOut)
	return s, errors.Join(errs...)
}

// badSubject reports whether a text is no subject without wildcards.
func badSubject(text string) bool {
	for token := range strings.SplitSeq(text, ".") {
		if token == "" || strings.ContainsAny(token, " \t\r\n*>") {
			return true
		}
	}
	return false
}

// subject is where events of a type are published.
func (s Settings) subject(eventType string) string { return s.Prefix + "." + token(eventType) }

// hint is the subject of the hints that something was published. No stream keeps it.
func (s Settings) hint() string { return "hint." + s.Prefix }

// token spells an event type, which may hold anything, as one token of a subject or
// the name of a consumer: what is neither a letter, a digit nor a hyphen becomes an
// underscore and two hexadecimal digits, so that no two types share a spelling.
func token(eventType string) string {
	var spelt strings.Builder
	for _, b := range []byte(eventType) {
		plain := b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z' || b >= '0' && b <= '9' || b == '-'
		if plain {
			spelt.WriteByte(b)
		} else {
			fmt.Fprintf(&spelt, "_%02X", b)
		}
	}
	return spelt.String()
}
