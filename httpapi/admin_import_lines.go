package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/jsonb"
)

// importLine is one line of an import.
type importLine struct {
	number     int
	size       int       // in bytes
	id         uuid.UUID // zero if the line has none
	change     almanac.ProfileChange
	needed     almanac.ProfileChange // what is sent to the planner
	profile    almanac.Profile
	user       *almanac.User // stored; nil if there is none
	holder     *almanac.User // who has the external id; nil if no user has it
	incomplete bool          // the line does not make a user
	bad        complaints
	outcome    lineOutcome
	refusal    refusedLine
}

type lineOutcome int

const (
	notProcessed lineOutcome = iota
	wasBlank
	wasCreated
	wasEdited
	wasUnchanged
	wasRefused
)

// wholeLine is the field of a complaint about a line as a whole.
const wholeLine = "line"

// parse reads a line. It calls no code of the host.
func (i *importing) parse(text []byte, number int) *importLine {
	l := &importLine{number: number, size: len(text)}
	if len(bytes.TrimSpace(text)) == 0 {
		l.outcome = wasBlank
		return l
	}
	if complaint := complaintOfText(text); complaint != "" {
		l.bad.add(wholeLine, "%s", complaint)
		return l
	}
	take := replaceAttributes
	if i.edits {
		take = mergeAttributes
	}
	l.change = i.profileIn(text, &l.bad, take, takers{"id": func(m member, bad *complaints) {
		given := textOf(m, bad)
		if given == nil {
			return
		}
		if id, ok := parseID(*given); ok && id != uuid.Nil {
			l.id = id
		} else {
			bad.add(m.name, "is not a UUID")
		}
	}})
	if len(l.names()) == 0 && !l.bad.of["externalId"] {
		l.bad.add("id", "is required, unless there is an externalId")
	}
	return l
}

// names returns what the user of a line is known by, the id first.
func (l *importLine) names() (names []string) {
	if l.id != uuid.Nil {
		names = append(names, l.id.String())
	}
	if x := l.externalID(); x != "" {
		names = append(names, "externalId "+x)
	}
	return names
}

// externalID returns the external id of a line, or "".
func (l *importLine) externalID() string {
	if l.change.ExternalID == nil {
		return ""
	}
	return *l.change.ExternalID
}

// complain returns a problem with the complaints of a line, and those of the domain. A line that may be an
// edit gets none about missing fields.
func (l *importLine) complain(bad *complaints, now time.Time, rules []almanac.Option, edit bool) *problem {
	if !edit && !bad.of[wholeLine] {
		_, err := almanac.NewUser(l.profile, now, rules...)
		for _, f := range []struct {
			name  string
			given *string
		}{{"firstName", l.change.FirstName}, {"lastName", l.change.LastName}, {"dateOfBirth", l.change.DateOfBirth}, {"timezone", l.change.Timezone}} {
			if f.given == nil && complainsOf(err, f.name) {
				bad.add(f.name, "is required")
			}
		}
		bad.addAll(err)
	}
	return bad.problem()
}

// complainsOf reports whether a validation error is about a field.
func complainsOf(err error, field string) bool {
	invalid, ok := errors.AsType[*almanac.ValidationError](err)
	if !ok {
		return false
	}
	for _, f := range invalid.Fields {
		if f.Field == field {
			return true
		}
	}
	return false
}

func (l *importLine) refuse(p *problem) {
	l.outcome, l.refusal = wasRefused, refusedLine{l.number, p.Status, p.Detail, p.Errors}
}

// whole returns the change that makes the data of a user those of the line.
func (l *importLine) whole(u almanac.User) almanac.ProfileChange {
	p := &l.profile
	c := almanac.ProfileChange{
		FirstName: &p.FirstName, LastName: &p.LastName, DateOfBirth: &p.DateOfBirth, Calendar: &p.Calendar, Timezone: &p.Timezone,
		Attributes: p.Attributes, Locale: &p.Locale, Email: &p.Email, ExternalID: &p.ExternalID,
	}
	if c.Attributes == nil {
		c.Attributes = []byte("{}")
	}
	if p.Timezone == "" && u.ZoneSource != almanac.ZoneDeclared {
		c.Timezone = nil
	}
	return c
}

// differences names the fields in which two states of a user differ.
func differences(was, is almanac.User) (fields []fieldProblem) {
	for _, f := range []struct {
		name string
		same bool
	}{
		{"firstName", was.FirstName == is.FirstName}, {"lastName", was.LastName == is.LastName},
		{"dateOfBirth", was.DateOfBirth.String() == is.DateOfBirth.String()}, {"calendar", was.DateOfBirth.Calendar() == is.DateOfBirth.Calendar()},
		{"timezone", was.Timezone.String() == is.Timezone.String() && was.ZoneSource == is.ZoneSource},
		{"attributes", jsonb.Equal(was.Attributes, is.Attributes)},
		{"locale", was.Locale == is.Locale}, {"email", was.Email == is.Email}, {"externalId", was.ExternalID == is.ExternalID},
	} {
		if !f.same {
			fields = append(fields, fieldProblem{f.name, "differs from that of the user"})
		}
	}
	return fields
}

// A round is what one step of an import stores. The sizes bound the memory of a request.
const (
	roundLines = 4000
	roundBytes = 4 << 20
	roundWait  = time.Second // for further lines of a slow client
)

// importBody gives the lines of a body, which a goroutine reads.
type importBody struct {
	lines chan *importLine // closed at the end of the body
	err   error            // why the body could not be read to its end; set before lines is closed
	over  chan struct{}    // closed by stop
	cut   func()           // ends a read of the body that waits for the client
}

// read starts to read the body. The caller must call stop.
func (i *importing) read(first int) *importBody {
	b := &importBody{lines: make(chan *importLine), over: make(chan struct{})}
	setDeadline, _ := i.r.Context().Value(readDeadlineKey{}).(func(time.Time) error)
	b.cut = func() {
		if setDeadline != nil {
			_ = setDeadline(time.Unix(1, 0)) // if it is not supported, the server's limits end the read
		}
	}
	go func() {
		defer close(b.lines)
		in := bufio.NewReaderSize(i.r.Body, 64<<10)
		for number := first; ; number++ {
			text, err := lineOf(in)
			l := &importLine{number: number}
			switch {
			case errors.Is(err, errLongLine):
				l.bad.add(wholeLine, isTooLong)
			case errors.Is(err, io.EOF) && len(text) == 0:
				return
			case err != nil && !errors.Is(err, io.EOF):
				b.err = cutShort()
				return
			default:
				l = i.parse(text, number)
			}
			select {
			case b.lines <- l:
			case <-b.over:
				return
			}
		}
	}()
	return b
}

func cutShort() *problem {
	var bad complaints
	bad.add("body", isCutShort)
	p := bad.problem()
	p.Detail = "the body " + isCutShort
	return p
}

// stop ends the reading, and waits until it has ended.
func (b *importBody) stop() {
	close(b.over)
	select {
	case _, more := <-b.lines:
		if !more {
			return
		}
	default:
	}
	b.cut()
	for range b.lines {
	}
}

// round returns the next lines, and whether there may be more.
func (b *importBody) round(ctx context.Context) (round []*importLine, more bool) {
	var patience <-chan time.Time
	for size := 0; len(round) < roundLines && size < roundBytes; {
		select {
		case l, ok := <-b.lines:
			if !ok {
				return round, false
			}
			if len(round) == 0 {
				wait := time.NewTimer(roundWait)
				defer wait.Stop()
				patience = wait.C
			}
			round, size = append(round, l), size+l.size
		case <-patience:
			return round, true
		case <-ctx.Done():
			return round, false
		}
	}
	return round, true
}

var errLongLine = errors.New("httpapi: a line is too long")

// lineOf reads to the end of a line. It returns io.EOF with the last line, if that has no end, and otherwise
// after the last line. It keeps no more of a line than an object may have.
func lineOf(in *bufio.Reader) (line []byte, err error) {
	long := false
	for {
		part, err := in.ReadSlice('\n')
		if long = long || len(line)+len(part) > maxBody; !long {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case long && (err == nil || errors.Is(err, io.EOF)):
			return nil, errLongLine
		default:
			return line, err
		}
	}
}

// readDeadlineKey is the key of a function in the context of a request: it sets the deadline of reads of the body.
type readDeadlineKey struct{}
