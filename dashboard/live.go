package dashboard

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

const (
	// streamLimit is how long a stream lasts. The browser connects again, so access is checked again.
	streamLimit = 5 * time.Minute
	// streamPace is how often a stream looks for something new.
	streamPace = time.Second
	// heartbeat is how often a stream without news sends a comment, so that proxies keep it.
	heartbeat = 15 * time.Second
	// maxStreams is how many streams one dashboard serves.
	maxStreams = 64
	// sendLimit is how long one message may take to be sent.
	sendLimit = 10 * time.Second
)

// streams counts the streams that are open.
type streams struct {
	mu   sync.Mutex
	open int
}

// enter reports whether one more stream may begin. Then call leave at its end.
func (s *streams) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open >= maxStreams {
		return false
	}
	s.open++
	return true
}

func (s *streams) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
}

// livePages are the pages that a stream keeps up to date, by name. Each renders the
// template "live" of its page. Only pages right below the first page can be here: the links of a region
// are relative to the address of the stream.
func (d *dashboard) livePages() map[string]page {
	return map[string]page{
		"broadcasts": look(d.broadcastsPage),
		"map":        look(d.mapPage),
		"now":        look(d.nowPage),
		"lanes":      look(d.lanesPage),
		"leases":     look(d.leasesPage),
		"pauses":     look(d.pausesPage),
	}
}

// live streams the live region of a page, as server-sent events, whenever it changes. The
// stream ends when the viewer leaves, when the server shuts down, after streamLimit, and
// when the viewer loses access.
func (d *dashboard) live(w http.ResponseWriter, raw *http.Request) {
	principal, ok := d.authenticate(raw)
	r := d.requestOf(raw, principal)
	do := d.livePages()[raw.URL.Query().Get("page")]
	switch {
	case !ok:
		d.fail(w, r, refused(http.StatusUnauthorized, "Log in to see this dashboard."))
		return
	case do == nil || raw.Method != http.MethodGet: // HEAD would hold a stream that is not read
		d.fail(w, r, notFound)
		return
	case !d.streams.enter():
		w.Header().Set("Retry-After", "30")
		d.fail(w, r, refused(http.StatusServiceUnavailable, "Too many pages are live. This one shows what was true when it was loaded."))
		return
	}
	defer d.streams.leave()
	ctx, cancel := context.WithTimeout(raw.Context(), streamLimit)
	defer cancel()
	defer context.AfterFunc(d.ctx, cancel)()
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Accel-Buffering", "no") // nginx would hold messages back
	s := stream{w: w, control: http.NewResponseController(w)}
	defer s.end()
	for {
		if _, ok := d.authenticate(raw); !ok {
			return
		}
		if err := d.push(ctx, &s, raw, principal, do); err != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(streamPace):
		}
	}
}

// push sends the live region of a page, if it has changed. The error means that the stream is at its end.
func (d *dashboard) push(ctx context.Context, s *stream, raw *http.Request, principal string, do page) error {
	pageCtx, cancel := context.WithTimeout(ctx, pageLimit)
	defer cancel()
	r := d.requestOf(raw.WithContext(pageCtx), principal)
	a, err := do(r)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		p, complete := problemOf(r, err)
		if p.status < 500 {
			return err // the viewer may not look any more
		}
		if !complete && !s.offline { // once for each time that it begins
			d.log.ErrorContext(ctx, "Dashboard stream failed", slog.String("page", raw.URL.Query().Get("page")), slog.Any("error", err))
		}
		s.offline = true
		return s.send("offline", []byte(causeOf(err)))
	}
	s.offline = false
	body, err := d.render(r, a, "live")
	if err != nil {
		d.log.ErrorContext(ctx, "Dashboard stream failed", slog.String("page", raw.URL.Query().Get("page")), slog.Any("error", err))
		return err
	}
	return s.send("page", body)
}

// stream is a connection to which messages are sent.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	last    string    // the last message
	offline bool      // whether the last page could not be made
	sent    time.Time // when something was sent last
}

// send sends an event, unless it is the same as the last one.
func (s *stream) send(event string, data []byte) error {
	var message bytes.Buffer
	fmt.Fprintf(&message, "event: %s\n", event)
	for line := range bytes.Lines(data) {
		fmt.Fprintf(&message, "data: %s\n", bytes.TrimRight(line, "\r\n"))
	}
	message.WriteString("\n")
	if message.String() == s.last {
		if time.Since(s.sent) < heartbeat {
			return nil
		}
		return s.write([]byte(": still here\n\n"))
	}
	s.last = message.String()
	return s.write(message.Bytes())
}

// write sends bytes, and lets the connection live for longer than the server's limit. Between
// messages there is no limit: HTTP/2 would end the stream when it passes.
func (s *stream) write(text []byte) error {
	s.sent = time.Now()
	if err := s.control.SetWriteDeadline(s.sent.Add(sendLimit)); err != nil {
		return err
	}
	if _, err := s.w.Write(text); err != nil {
		return err
	}
	if err := s.control.Flush(); err != nil {
		return err
	}
	return s.control.SetWriteDeadline(time.Time{})
}

// end bounds what the server sends after the last message.
func (s *stream) end() { _ = s.control.SetWriteDeadline(time.Now().Add(sendLimit)) }
