package almanacjetstream

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/almanac-go/almanac"
)

// Settings are the settings of the dispatchers and the workers of one stream. They must agree
// on everything but the connections, the registry and the log. A zero field takes its default.
type Settings struct {
	// JetStream is the connection for messages. It should reconnect without limit: nats.MaxReconnects(-1).
	JetStream jetstream.JetStream
	// Repository stores the events. It must not be bound to a transaction.
	Repository almanac.Repository
	// Registry has the handlers. A dispatcher publishes, and a worker takes, events of its
	// types. Events of a type that no worker has wait in the stream.
	Registry almanac.Registry
	// Stream is the name of the stream, default "ALMANAC". If it does not exist, it is
	// created with file storage and the work-queue retention policy. An existing stream is
	// used unchanged, if it is a work queue that drops no messages by itself.
	Stream string
	// Prefix is the start of the subjects, which end with the event type; default
	// "almanac.events". The stream must have no other subjects.
	Prefix string
	// Replicas is how many servers store the stream when it is created; default 1.
	Replicas int
	// MaxWaiting is the number of messages that may wait in the stream, 1 to 10,000; the default is
	// 1,000. At that number dispatchers claim nothing. The number can be exceeded by the events that
	// each dispatcher has claimed and not yet published, which are at most its [almanac.WithWorkers].
	MaxWaiting int
	// Lease is how long an event is held before other processes may release it. It is extended
	// while the event waits in the stream and while it is delivered. It is also how long a worker
	// may keep a message without accepting it, before another worker gets it. Lease replaces
	// [almanac.WithLease]. It must be at least three seconds. The default is a minute.
	Lease time.Duration
	// Log is the logger of dispatchers and workers. It replaces [almanac.WithLogger]. The
	// default is [slog.Default].
	Log *slog.Logger
}

const (
	defaultMaxWaiting = 1000
	limitOfMaxWaiting = 10_000 // each dispatcher reads each message three times in a lease
)

// checked returns s with its defaults, and every complaint about it. The scheduler makes
// its own complaints.
func (s Settings) checked() (Settings, error) {
	s.Stream = cmp.Or(s.Stream, "ALMANAC")
	s.Prefix = cmp.Or(s.Prefix, "almanac.events")
	s.Replicas = cmp.Or(s.Replicas, 1)
	s.MaxWaiting = cmp.Or(s.MaxWaiting, defaultMaxWaiting)
	s.Lease = cmp.Or(s.Lease, time.Minute)
	s.Log = cmp.Or(s.Log, slog.Default())
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("almanacjetstream: "+format, args...))
		}
	}
	refuse(s.JetStream == nil, "JetStream is nil")
	refuse(s.Repository != nil && s.Repository.InTransaction(), "repository is bound to a transaction")
	refuse(strings.ContainsAny(s.Stream, " \t\r\n.*>/\\"), "%q is not a stream name", s.Stream)
	refuse(badSubject(s.Prefix), "prefix %q is not a subject", s.Prefix)
	refuse(s.Replicas < 1 || s.Replicas > 5, "%d replicas are not 1 to 5", s.Replicas)
	refuse(s.MaxWaiting < 1 || s.MaxWaiting > limitOfMaxWaiting, "%d waiting messages are not 1 to %d", s.MaxWaiting, limitOfMaxWaiting)
	return s, errors.Join(errs...)
}

// badSubject reports whether a text is not a subject without wildcards.
func badSubject(text string) bool {
	for token := range strings.SplitSeq(text, ".") {
		if token == "" || strings.ContainsAny(token, " \t\r\n*>") {
			return true
		}
	}
	return false
}

// subject returns the subject for events of a type.
func (s Settings) subject(eventType string) string { return s.Prefix + "." + token(eventType) }

// hint returns the subject of the hints that something was published. No stream stores it.
func (s Settings) hint() string { return "hint." + s.Prefix }

// token encodes an event type, which may contain any character, as one token of a subject
// or the name of a consumer. Every byte other than a letter, a digit or a hyphen becomes an
// underscore and two hexadecimal digits. Different types therefore have different tokens.
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
