package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
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
		"firstName": &p.FirstName, "lastName": &p.LastName, "dateOfBirth": &p.DateOfBirth, "calendar": &p.Calendar, "timezone": &p.Timezone,
		"locale": &p.Locale, "email": &p.Email, "externalId": &p.ExternalID,
	}
}

// states reports whether a row has something for a field.
func (r *row) states(field string) bool {
	if field == "attributes" {
		return r.profile.Attributes != nil
	}
	text := r.fields()[field]
	return text != nil && *text != ""
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
	if errors.Is(err, almanac.ErrLocked) {
		return []problem{{Problem: "the user is locked by another transaction: import the row again"}}
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

// identity says who the users of a file are, so that stored users are recognised when the
// file is read again.
type identity struct {
	from  string    // the column that ids are made of, "" for none
	space uuid.UUID // the namespace that they are made in
	fresh bool      // a row without an id is a new user
	named bool      // a row without an id is for the user with its external id
}

func (c *importUsers) identity() (identity, error) {
	who := identity{from: c.IDFrom, fresh: c.NewIDs, named: c.Update && c.IDFrom == ""}
	var errSpace, errBoth error
	if space, ok := parseID(c.Namespace); ok {
		who.space = space
	} else {
		errSpace = fmt.Errorf("--namespace: %q is not a UUID", c.Namespace)
	}
	if c.IDFrom != "" && c.NewIDs {
		errBoth = errors.New("--new-ids: does not go with --id-from")
	}
	if c.Update && c.NewIDs {
		errBoth = errors.Join(errBoth, errors.New("--new-ids: does not go with --update"))
	}
	return who, errors.Join(errSpace, errBoth)
}

// ownColumn reports that ids are made of a column that is nothing else: no field of a
// profile and no attribute. It is stored as an attribute.
func (who identity) ownColumn() bool {
	switch {
	case who.from == "", who.from == "id", who.from == "attributes", strings.HasPrefix(who.from, attributePrefix):
		return false
	}
	return !slices.Contains(profileColumns(), who.from)
}

// parseID reads a UUID in the one form that is written.
func parseID(text string) (uuid.UUID, bool) {
	id, err := uuid.Parse(text)
	return id, err == nil && len(text) == len(id.String()) && id != uuid.Nil
}

// of returns the id of a row with the text of its id, if any, and of the column that
// ids are made of. The zero UUID is for a new user. A problem names a field.
func (who identity) of(given, source string) (id uuid.UUID, wrong problem) {
	id, ok := parseID(given)
	switch {
	case given != "" && !ok:
		return uuid.Nil, problem{"id", "is not a UUID"}
	case given != "" || who.fresh || who.named:
		return id, problem{}
	case who.from == "":
		return id, problem{"id", "is empty"}
	case source == "":
		return id, problem{who.from, "is empty, so that no id can be made of it"}
	}
	return uuid.NewSHA1(who.space, []byte(source)), problem{}
}
