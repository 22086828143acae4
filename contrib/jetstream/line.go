package almanacjetstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/almanac-go/almanac"
)

const (
	publishTries   = 2 // the second finds out whether the first succeeded
	publishTimeout = 4 * time.Second
	duplicates     = 2 * time.Minute // much longer than all tries
)

// line is the stream and its consumers, for one process. After any error it forgets the
// looked-up objects, so that a lost stream is created again. It is safe for concurrent use.
type line struct {
	Settings

	mu        sync.Mutex
	stream    jetstream.Stream
	consumers map[string]jetstream.Consumer // by event type
}

func newLine(s Settings) *line {
	return &line{Settings: s, consumers: make(map[string]jetstream.Consumer)}
}

// known returns the stream, and creates it if it does not exist.
func (l *line) known(ctx context.Context) (jetstream.Stream, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stream != nil {
		return l.stream, nil
	}
	s, err := l.JetStream.Stream(ctx, l.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s, err = l.JetStream.CreateStream(ctx, jetstream.StreamConfig{
			Name: l.Stream, Subjects: []string{l.Prefix + ".*"}, Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage,
			Replicas: l.Replicas, Duplicates: duplicates, Description: "claimed events of Almanac, until a worker accepts them",
		})
	}
	if err != nil {
		return nil, fmt.Errorf("almanacjetstream: stream %s: %w", l.Stream, err)
	}
	if err := checkStream(s.CachedInfo().Config); err != nil {
		return nil, err
	}
	l.stream = s
	return s, nil
}

// checkStream returns an error that lists every setting with which a stream drops messages. Each dropped
// message would count as a crash of its event, and the fifth crash would fail the event undelivered.
func checkStream(c jetstream.StreamConfig) error {
	var problems []string
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			problems = append(problems, fmt.Sprintf(format, args...))
		}
	}
	old := c.Discard == jetstream.DiscardOld
	refuse(c.Retention != jetstream.WorkQueuePolicy, "retention is %s, not %s", c.Retention, jetstream.WorkQueuePolicy)
	refuse(c.MaxAge > 0, "MaxAge of %s drops waiting messages", c.MaxAge)
	refuse(c.MaxMsgs > 0 && old, "MaxMsgs of %d drops old messages: discard new ones", c.MaxMsgs)
	refuse(c.MaxBytes > 0 && old, "MaxBytes of %d drops old messages: discard new ones", c.MaxBytes)
	refuse(c.MaxMsgsPerSubject > 0 && (old || !c.DiscardNewPerSubject),
		"MaxMsgsPerSubject of %d drops old messages: discard new ones, per subject", c.MaxMsgsPerSubject)
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("almanacjetstream: stream %s cannot be used: %s", c.Name, strings.Join(problems, "; "))
}

// consumer returns the consumer of a type, which all workers share, and creates it if it
// does not exist. The consumer does not limit how often a message is delivered.
func (l *line) consumer(ctx context.Context, eventType string) (jetstream.Consumer, error) {
	s, err := l.known(ctx)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if c, ok := l.consumers[eventType]; ok {
		return c, nil
	}
	c, err := s.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: "almanac-" + token(eventType), FilterSubject: l.subject(eventType), AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: l.Lease, MaxDeliver: -1, MaxAckPending: -1,
	})
	if err != nil {
		return nil, fmt.Errorf("almanacjetstream: consumer of %q: %w", eventType, err)
	}
	l.consumers[eventType] = c
	return c, nil
}

// forget makes the next calls look everything up again.
func (l *line) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stream = nil
	clear(l.consumers)
}

// space returns how many more messages may be published.
func (l *line) space(ctx context.Context) (int, error) {
	s, err := l.known(ctx)
	if err != nil {
		return 0, err
	}
	info, err := s.Info(ctx)
	if err != nil {
		l.forget()
		return 0, fmt.Errorf("almanacjetstream: stream %s: %w", l.Stream, err)
	}
	if err := checkStream(info.Config); err != nil { // it may have been changed
		return 0, err
	}
	return l.MaxWaiting - int(min(info.State.Msgs, limitOfMaxWaiting)), nil
}

// publish stores a claimed event in the stream.
func (l *line) publish(ctx context.Context, e almanac.Event, limited bool) error {
	m, err := encode(l.subject(e.Type), e, limited)
	if err != nil {
		return errors.Join(errEncoding, err)
	}
	for try := 1; ; try++ {
		err = l.publishOnce(ctx, m, messageID(e))
		if err == nil || try == publishTries || ctx.Err() != nil || unpublishable(err) {
			return err
		}
	}
}

// The error codes with which a stream refuses a message because of the message (errors.json of nats-server).
const (
	messageTooLarge jetstream.ErrorCode = 10054
	headersTooLarge jetstream.ErrorCode = 10097
)

// errEncoding is the error of a message that could not be made.
var errEncoding = errors.New("almanacjetstream: event has no message")

// unpublishable reports whether publishing the same message again fails again, as long as
// the settings of the server and the stream stay.
func unpublishable(err error) bool {
	if refused, ok := errors.AsType[*jetstream.APIError](err); ok {
		return refused.ErrorCode == messageTooLarge || refused.ErrorCode == headersTooLarge
	}
	return errors.Is(err, errEncoding) || errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrBadSubject) || errors.Is(err, nats.ErrBadHeaderMsg)
}

func (l *line) publishOnce(ctx context.Context, m *nats.Msg, id string) error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	_, err := l.JetStream.PublishMsg(ctx, m, jetstream.WithMsgID(id), jetstream.WithExpectStream(l.Stream))
	return err
}

// fetch takes at most n available messages of a type, without waiting.
func (l *line) fetch(ctx context.Context, eventType string, n int) ([]jetstream.Msg, error) {
	c, err := l.consumer(ctx, eventType)
	if err != nil {
		return nil, err
	}
	var messages []jetstream.Msg
	batch, err := c.FetchNoWait(n)
	if err == nil {
		messages, err = all(ctx, batch)
	}
	if err != nil {
		l.forget()
		err = fmt.Errorf("almanacjetstream: messages of %q: %w", eventType, err)
	}
	return messages, err
}

// all returns the messages of a batch when it has ended, or when ctx has.
func all(ctx context.Context, batch jetstream.MessageBatch) ([]jetstream.Msg, error) {
	var messages []jetstream.Msg
	for {
		select {
		case m, ok := <-batch.Messages():
			if !ok {
				return messages, batch.Error()
			}
			messages = append(messages, m)
		case <-ctx.Done():
			return messages, ctx.Err()
		}
	}
}

// tokens returns the lease tokens of all messages in the stream.
func (l *line) tokens(ctx context.Context) (found []uuid.UUID, err error) {
	s, err := l.known(ctx)
	if err != nil {
		return nil, err
	}
	for next := uint64(1); ; {
		m, err := s.GetMsg(ctx, next, jetstream.WithGetMsgSubject(l.Prefix+".*"))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return found, nil
		}
		if err != nil {
			l.forget()
			return nil, fmt.Errorf("almanacjetstream: stream %s: %w", l.Stream, err)
		}
		if lease, err := uuid.Parse(m.Header.Get(headerToken)); err == nil {
			found = append(found, lease)
		}
		next = m.Sequence + 1
	}
}
