package almanacmail

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"

	"github.com/nicksnyder/go-i18n/v2/i18n"
	"golang.org/x/text/language"
)

// messages are the messages with plural forms of a locale. They are safe for concurrent use.
type messages struct {
	locale language.Tag
	file   string
	known  map[string]bool // nil if the file cannot be read
	bundle *i18n.Bundle
}

// mostTried is up to which number each message must have a form. All forms of whole numbers
// occur below, except that of round millions, for which "other" is used if it is missing.
const mostTried = 200

// parseMessages reads a file of messages, if there is one, and tries each message with many
// numbers. The messages that could be read are returned with the error.
func parseMessages(files fs.FS, name string, locale language.Tag) (*messages, error) {
	m := &messages{locale: locale, file: name, bundle: i18n.NewBundle(locale)}
	text, err := fs.ReadFile(files, name)
	if errors.Is(err, fs.ErrNotExist) {
		m.known = make(map[string]bool)
		return m, nil
	}
	if err != nil {
		return m, fmt.Errorf("almanacmail: %w", err)
	}
	file, err := i18n.ParseMessageFileBytes(text, locale.String()+".json", nil)
	if err == nil {
		err = m.bundle.AddMessages(locale, file.Messages...)
	}
	if err != nil {
		return m, fmt.Errorf("almanacmail: %s: %w", name, err)
	}
	m.known = make(map[string]bool)
	for _, message := range file.Messages {
		m.known[message.ID] = true
	}
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(m.known)) {
		errs = append(errs, m.try(id))
	}
	return m, errors.Join(errs...)
}

// try returns an error for each form that a message lacks.
func (m *messages) try(id string) error {
	var errs []error
	known := make(map[string]bool)
	for n := range int64(mostTried + 1) {
		if _, err := m.localize(id, n); err != nil && !known[err.Error()] {
			known[err.Error()] = true
			errs = append(errs, fmt.Errorf("almanacmail: %s: %q for the number %d: %w", m.file, id, n, err))
		}
	}
	return errors.Join(errs...)
}

// has reports whether there is a message. If the file cannot be read, any message may be in it.
func (m *messages) has(id string) bool { return m.known == nil || m.known[id] }

// functions are the functions of templates. Text and HTML templates take the same type.
func (m *messages) functions() map[string]any {
	return map[string]any{"plural": m.plural, "date": m.date, "dateBy": m.dateBy, "weekday": m.weekday}
}

// plural returns a message in the form for a number.
func (m *messages) plural(id string, n int64) (string, error) {
	text, err := m.localize(id, n)
	if text != "" { // the form "other" stands in for one that is missing
		return text, nil
	}
	return "", err
}

func (m *messages) localize(id string, n int64) (string, error) {
	return i18n.NewLocalizer(m.bundle, m.locale.String()).Localize(&i18n.LocalizeConfig{MessageID: id, PluralCount: n})
}

// decode decodes a payload for templates. Whole numbers become int64, so that templates can
// compare and count with them, and other numbers float64.
func decode(payload json.RawMessage) (any, error) {
	if len(payload) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(payload))
	d.UseNumber()
	var value any
	err := d.Decode(&value)
	return numbers(value), err
}

func numbers(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, member := range value {
			value[key] = numbers(member)
		}
	case []any:
		for i, element := range value {
			value[i] = numbers(element)
		}
	case json.Number:
		if whole, err := value.Int64(); err == nil {
			return whole
		}
		if n, err := value.Float64(); err == nil {
			return n
		}
		return math.NaN() // JSON has larger numbers than Go; no template counts with them
	}
	return value
}
