package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// rows are the users of a file, one after the other. After the last one, next
// returns io.EOF; any other error means that the rest cannot be read.
type rows interface {
	next() (row, error)
}

// row is what a file says of a user.
type row struct {
	line     int // at which it begins, from 1
	profile  almanac.Profile
	problems []problem // that it could not be read for; the profile is not judged yet
}

// fields returns where the fields of the profile go, by the names of their columns.
func (r *row) fields() map[string]*string {
	p := &r.profile
	return map[string]*string{
		"firstName": &p.FirstName, "lastName": &p.LastName, "dateOfBirth": &p.DateOfBirth, "timezone": &p.Timezone,
		"locale": &p.Locale, "email": &p.Email, "externalId": &p.ExternalID,
	}
}

func (r *row) complain(field, format string, args ...any) {
	r.problems = append(r.problems, problem{field, fmt.Sprintf(format, args...)})
}

// problem says what is wrong with a field of a row, as a clause.
type problem struct {
	Field   string `json:"field,omitempty"` // empty where it is about all of it
	Problem string `json:"problem"`
}

func (p problem) String() string { return strings.TrimSpace(p.Field + " " + p.Problem) }

// problemsOf says what an error is about.
func problemsOf(err error) []problem {
	invalid, taken := (*almanac.ValidationError)(nil), (*almanac.ExternalIDTakenError)(nil)
	if errors.As(err, &taken) && taken.Holder != uuid.Nil {
		return []problem{{"externalId", "belongs to user " + taken.Holder.String()}}
	}
	if !errors.As(err, &invalid) {
		return []problem{{Problem: bare(err.Error())}}
	}
	return mapped(invalid.Fields, func(f almanac.FieldError) problem { return problem{f.Field, f.Problem} })
}

// maxRow is the longest row in bytes: what a user may have, and room to spare.
const maxRow = 1 << 20

// formatOf returns the format of a file by its name, "" if that does not say.
func formatOf(file string) string {
	switch strings.ToLower(filepath.Ext(file)) {
	case ".csv":
		return "csv"
	case ".jsonl", ".ndjson":
		return "jsonl"
	}
	return ""
}

// input is a file on its way, which knows how far it is.
type input struct {
	io.ReadCloser
	size int64        // 0 where it is not known
	read atomic.Int64 // bytes
}

// openInput opens a file, or standard input for "-".
func openInput(ctx context.Context, standard io.Reader, file string) (*input, error) {
	if file == "-" {
		return &input{ReadCloser: interruptible(ctx, standard)}, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	in := &input{ReadCloser: f}
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		in.size = info.Size()
	}
	return in, nil
}

// Read counts what it reads.
func (in *input) Read(p []byte) (int, error) {
	n, err := in.ReadCloser.Read(p)
	in.read.Add(int64(n))
	return n, err
}

// pipe is an input that an interruption ends, also while it waits for more.
type pipe struct {
	ctx    context.Context
	chunks chan chunk
	rest   chunk
}

type chunk struct {
	bytes []byte
	err   error
}

// interruptible reads from in until it ends or ctx does. In the latter case a
// goroutine is left until what it reads answers.
func interruptible(ctx context.Context, in io.Reader) *pipe {
	p := &pipe{ctx: ctx, chunks: make(chan chunk)}
	go func() {
		for {
			buffer := make([]byte, 64<<10)
			n, err := in.Read(buffer)
			select {
			case p.chunks <- chunk{buffer[:n], err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return p
}

// Read returns what has come, or waits.
func (p *pipe) Read(into []byte) (int, error) {
	for len(p.rest.bytes) == 0 {
		if p.rest.err != nil {
			return 0, p.rest.err
		}
		select {
		case p.rest = <-p.chunks:
		case <-p.ctx.Done():
			return 0, p.ctx.Err()
		}
	}
	n := copy(into, p.rest.bytes)
	p.rest.bytes = p.rest.bytes[n:]
	return n, nil
}

// Close does nothing: what is read belongs to others.
func (p *pipe) Close() error { return nil }
