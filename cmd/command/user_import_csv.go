package command

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// csvRows reads users from comma-separated values (RFC 4180) with a header.
type csvRows struct {
	reader  *csv.Reader
	bound   *bounded
	columns []string
	who     identity
	needs   []string // the columns that must be there
}

// attributePrefix begins the name of a column that holds one attribute.
const attributePrefix = "attributes."

// profileColumns are the columns of a profile. Those of requiredColumns must be there.
func profileColumns() []string {
	return append(requiredColumns(false), "calendar", "locale", "email", "externalId")
}

func requiredColumns(optionalProfile bool) []string {
	if optionalProfile {
		return []string{"timezone"}
	}
	return []string{"firstName", "lastName", "dateOfBirth", "timezone"}
}

// readCSV returns the users of a file, whose header it judges.
func readCSV(in io.Reader, who identity, needs []string) (*csvRows, error) {
	buffered := bufio.NewReader(in)
	const mark = "\ufeff" // that spreadsheets begin a file with
	if begin, _ := buffered.Peek(len(mark)); string(begin) == mark {
		_, _ = buffered.Discard(len(mark)) // it is in the buffer
	}
	r := &csvRows{bound: &bounded{in: buffered}, who: who, needs: needs}
	r.reader = csv.NewReader(r.bound)
	r.reader.ReuseRecord = true
	header, err := r.record()
	switch {
	case errors.Is(err, io.EOF):
		return nil, errors.New("is empty: the first line names the columns")
	case err != nil:
		return nil, fmt.Errorf("the header cannot be read: %w", err)
	}
	r.columns = slices.Clone(header)
	return r, r.validateHeader()
}

func (r *csvRows) validateHeader() error {
	var errs []error
	seen := make(map[string]bool)
	for _, name := range r.columns {
		switch known := slices.Contains(profileColumns(), name) || name == "id" || name == "attributes" || name == r.who.from; {
		case !known && (!strings.HasPrefix(name, attributePrefix) || name == attributePrefix):
			errs = append(errs, fmt.Errorf("column %q is not known", name))
		case seen[name]:
			errs = append(errs, fmt.Errorf("column %q is there twice", name))
		}
		seen[name] = true
	}
	for _, name := range r.needs {
		switch {
		case !seen[name] && !slices.Contains(requiredColumns(true), name):
			errs = append(errs, fmt.Errorf("there is no column %q; --optional-profile does without it", name))
		case !seen[name]:
			errs = append(errs, fmt.Errorf("there is no column %q; --default-zone does without it", name))
		}
	}
	switch {
	case r.who.from != "" && !seen[r.who.from]:
		errs = append(errs, fmt.Errorf("there is no column %q to make ids of", r.who.from))
	case r.who.named && !seen["id"] && !seen["externalId"]:
		errs = append(errs, errors.New(`there is no column "id" or "externalId" by which users are known: give --id-from`))
	case !seen["id"] && r.who.from == "" && !r.who.fresh && !r.who.named:
		errs = append(errs, errors.New(`there is no column "id", by which users are known when this is run again: give --id-from or --new-ids`))
	}
	return errors.Join(errs...)
}

// record reads a record, unless it is endless.
func (r *csvRows) record() ([]string, error) {
	r.bound.limit = r.reader.InputOffset() + maxRow
	return r.reader.Read()
}

func (r *csvRows) next() (row, error) {
	cells, err := r.record()
	malformed := (*csv.ParseError)(nil)
	if errors.As(err, &malformed) {
		bad := row{line: malformed.StartLine}
		if errors.Is(err, csv.ErrFieldCount) {
			bad.complain("", "has %s, not %d", counted(len(cells), "field"), len(r.columns))
		} else {
			bad.complain("", "is not CSV: %v", malformed.Err)
		}
		return bad, nil
	}
	if err != nil {
		return row{}, err
	}
	line, _ := r.reader.FieldPos(0)
	return r.rowOf(line, cells), nil
}

func (r *csvRows) rowOf(line int, cells []string) row {
	read := row{line: line}
	fields := read.fields()
	var id, source string
	var object json.RawMessage
	single := make(map[string]string) // attributes that have a column each
	for i, name := range r.columns {
		cell := cells[i]
		if name == r.who.from {
			source = cell
		}
		if field, ok := fields[name]; ok {
			*field = cell
			continue
		}
		switch name {
		case "id":
			id = cell
		case "attributes":
			if cell != "" {
				object = json.RawMessage(cell)
			}
		default:
			if attribute, ok := strings.CutPrefix(name, attributePrefix); ok && cell != "" {
				single[attribute] = cell
			}
		}
	}
	read.identify(r.who, id, source)
	read.profile.Attributes = read.attributes(object, single)
	if r.who.ownColumn() && source != "" {
		if !utf8.ValidString(source) {
			read.complain(r.who.from, "is not valid UTF-8")
		}
		value, _ := json.Marshal(source) // a string never fails
		read.keep(r.who.from, value)
	}
	return read
}

// identify gives the user their id.
func (r *row) identify(who identity, given, source string) {
	id, wrong := who.of(given, source)
	if wrong != (problem{}) {
		r.problems = append(r.problems, wrong)
	}
	r.profile.ID = id
}

// attributes adds attributes of a column each to those of an object.
func (r *row) attributes(object json.RawMessage, single map[string]string) json.RawMessage {
	if len(single) == 0 {
		return object
	}
	all := make(map[string]json.RawMessage)
	if object != nil {
		if err := json.Unmarshal(object, &all); err != nil || all == nil {
			return object // which is judged with the rest of the profile
		}
	}
	for name, text := range single {
		if all[name] != nil {
			r.complain(attributePrefix+name, "is among the attributes, too")
		}
		if !utf8.ValidString(text) {
			r.complain(attributePrefix+name, "is not valid UTF-8")
		}
		all[name], _ = json.Marshal(text) // a string never fails
	}
	joined, _ := json.Marshal(all) // of what was JSON already
	return joined
}

// keep adds an attribute, unless there is one of that name.
func (r *row) keep(name string, value json.RawMessage) {
	all := make(map[string]json.RawMessage)
	if r.profile.Attributes != nil {
		if err := json.Unmarshal(r.profile.Attributes, &all); err != nil || all == nil {
			return // which is judged with the rest of the profile
		}
	}
	if all[name] == nil {
		all[name] = value
		r.profile.Attributes, _ = json.Marshal(all) // of what was JSON already
	}
}

// bounded refuses to read beyond a limit: a quote that is never closed would have
// all of a file in one field.
type bounded struct {
	in          io.Reader
	read, limit int64
}

var errEndless = fmt.Errorf("a row is longer than %d bytes; is a quote left open?", maxRow)

func (b *bounded) Read(p []byte) (int, error) {
	if b.read >= b.limit {
		return 0, errEndless
	}
	n, err := b.in.Read(p[:min(int64(len(p)), b.limit-b.read)])
	b.read += int64(n)
	return n, err
}
