package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
)

// configFlag is the flag that names the file of settings.
const configFlag = "config"

// receiversKey is the only key of the file that is no flag: the receivers of single event
// types, each with the settings of a webhook.
const receiversKey = "receivers"

// maxFile is the greatest size of the file, in bytes.
const maxFile = 1 << 20

// errFile marks an error of the file as a whole. Its settings are unknown then.
var errFile = errors.New("the file of settings cannot be used")

// configFile is a file of settings: a JSON object whose keys are the names of the flags.
type configFile struct {
	path   string
	public bool // other users of the machine can read it
	entry
}

// entry is a value of the file.
type entry struct {
	line    int
	text    string           // of a string, a number, true or false
	members map[string]entry // of an object; nil for others
}

// readConfig reads a file. Without a path it returns an empty one.
func readConfig(path string) (configFile, error) {
	if path == "" {
		return configFile{}, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return configFile{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return configFile{}, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return configFile{}, err
	}
	if len(text) > maxFile {
		return configFile{}, fmt.Errorf("%s is longer than %d bytes", path, maxFile)
	}
	c := configFile{path: path, public: info.Mode().Perm()&othersRead != 0}
	r := fileReader{json.NewDecoder(bytes.NewReader(text)), text}
	r.UseNumber()
	c.entry, err = r.value()
	if err == nil {
		err = r.end(c.entry)
	}
	if err != nil {
		return configFile{}, fmt.Errorf("%s:%d: %w", path, r.line(), err)
	}
	return c, nil
}

// othersRead is the permission of users other than the owner and the group.
const othersRead fs.FileMode = 0o004

// fileReader reads JSON with the numbers of lines.
type fileReader struct {
	*json.Decoder
	text []byte
}

// line returns the line of what was read last.
func (r fileReader) line() int { return 1 + bytes.Count(r.text[:r.InputOffset()], []byte("\n")) }

func (r fileReader) value() (entry, error) {
	token, err := r.Token()
	if err != nil {
		return entry{}, notJSON(err)
	}
	e := entry{line: r.line()}
	switch token := token.(type) {
	case json.Delim:
		if token != '{' {
			return e, errors.New("there is a list, where a text, a number, true, false or an object must be")
		}
		e.members, err = r.object()
	case nil:
		err = errors.New("there is null: leave the key out instead")
	default:
		e.text = fmt.Sprint(token)
	}
	return e, err
}

// object reads the members of an object, and its end.
func (r fileReader) object() (map[string]entry, error) {
	members := make(map[string]entry)
	for r.More() {
		token, err := r.Token()
		if err != nil {
			return nil, notJSON(err)
		}
		name := fmt.Sprint(token)
		if _, twice := members[name]; twice {
			return nil, fmt.Errorf("the key %q is there twice", name)
		}
		if members[name], err = r.value(); err != nil {
			return nil, err
		}
	}
	_, err := r.Token()
	return members, notJSON(err)
}

// end checks that the file is one object.
func (r fileReader) end(e entry) error {
	if e.members == nil {
		return errors.New("there is no object")
	}
	if _, err := r.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the object")
	}
	return nil
}

// notJSON says what is wrong in the words of package json, without its own position.
func notJSON(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New("the file ends before the object does")
	}
	return err
}

// place returns where an entry of the file is.
func (c configFile) place(e entry, keys ...string) string {
	return fmt.Sprintf("%s:%d: %s", c.path, e.line, strings.Join(keys, "."))
}

// value returns the text of a setting in the file, and its place.
func (c configFile) value(name string) (text, place string, ok bool) {
	e, ok := c.members[name]
	return e.text, c.place(e, name), ok && e.members == nil // check complains of an object
}

// check returns the complaints about the keys of an object of the file: those that no setting
// has, those that are objects, and secrets that other users can read.
func (c configFile) check(e entry, settings []setting, within ...string) error {
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(e.members)) {
		value := e.members[key]
		at := c.place(value, append(slices.Clone(within), key)...)
		i := slices.IndexFunc(settings, func(s setting) bool { return s.name == key && !s.once && key != configFlag })
		switch {
		case key == receiversKey && len(within) == 0:
			if value.members == nil {
				errs = append(errs, fmt.Errorf("%s: is not an object", at))
			}
		case i < 0:
			errs = append(errs, fmt.Errorf("%s: there is no such setting", at))
		case value.members != nil:
			errs = append(errs, fmt.Errorf("%s: is an object", at))
		case settings[i].secret && c.public:
			errs = append(errs, fmt.Errorf("%s: is a secret, and every user of this machine can read the file: chmod o-r %s", at, c.path))
		}
	}
	return errors.Join(errs...)
}

// takeReceivers takes the receivers of single event types from the file.
func (c *config) takeReceivers(file configFile) error {
	var errs []error
	c.receivers = nil
	for eventType, e := range file.members[receiversKey].members {
		if e.members == nil {
			errs = append(errs, fmt.Errorf("%s: is not an object", file.place(e, receiversKey, eventType)))
			continue
		}
		var h hookConfig
		settings := h.receiverSettings()
		errs = append(errs, file.check(e, settings, receiversKey, eventType))
		for _, s := range settings {
			value, given := e.members[s.name]
			if !given || value.members != nil {
				value = entry{line: e.line, text: s.preset}
			}
			if err := s.take(value.text); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", file.place(value, receiversKey, eventType, s.name), err))
			}
		}
		if err := h.check(""); err != nil {
			for complaint := range strings.SplitSeq(err.Error(), "\n") {
				errs = append(errs, fmt.Errorf("%s: %s", file.place(e, receiversKey, eventType), complaint))
			}
		}
		if c.receivers == nil {
			c.receivers = make(map[string]hookConfig)
		}
		c.receivers[eventType] = h
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return errors.Join(errs...)
}
