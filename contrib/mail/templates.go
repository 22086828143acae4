package almanacmail

import (
	"bytes"
	"errors"
	"fmt"
	htmltemplate "html/template"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	texttemplate "text/template"

	"golang.org/x/text/language"

	"github.com/almanac-go/almanac"
)

// Templates are the texts of mails, by event type and locale. They are safe for concurrent use.
type Templates struct {
	shelves map[string]*shelf // by event type
}

// Data is what a template is executed with.
type Data struct {
	Payload any           // the event's payload, decoded; whole numbers are of type int64
	User    almanac.User  // as of the claim: an edit between two attempts shows in the second
	Event   almanac.Event // never changes between attempts, but for its counters
	Locale  string        // of the template, such as "pt-BR"
	// Unsubscribe is the link that opts the user out of the event type; "" without [Settings].Unsubscribe.
	Unsubscribe string
}

// Mail is a rendered mail.
type Mail struct {
	Locale  string // of the templates
	Subject string // one line
	Text    string // without empty lines at its ends
	HTML    string // "" if the locale has no HTML for the type
}

// shelf has the templates of an event type.
type shelf struct {
	pages   map[language.Tag]*page
	tags    []language.Tag // of the pages; the first is the fallback
	matcher language.Matcher
}

// page has the templates of an event type in one locale.
type page struct {
	locale        language.Tag
	subject, text *texttemplate.Template
	html          *htmltemplate.Template // nil if there is none
}

// ParseTemplates compiles the templates in files. There is a directory for each locale,
// named by a tag of BCP 47. These are its files:
//
//	BIRTHDAY.txt    the subject and the text of the event type BIRTHDAY
//	BIRTHDAY.html   the same as HTML; optional
//	messages.json   messages with plural forms, for the function plural; optional
//	footer.part.txt a part, which others include by {{template "footer" .}}; optional
//
// A .txt file begins with a line "Subject: …" and an empty line. Parts can also lie beside the
// directories, for all locales that have no part of that name. Templates are those of
// text/template and html/template, and are executed with a [Data]. They have four more functions:
//
//	{{plural "years" .Payload.years}} a message of messages.json in the form for a number
//	{{date .Event.Wall}}              a date: 30. Dezember 2026 in de, December 30, 2026 in en
//	{{weekday .Event.Wall}}           the weekday of a date: Mittwoch, Wednesday
//	{{dateBy .Event.KeyUnit.System .Event.Wall}} a date by another calendar: 8. Adar I 5787 in de
//
// The function dateBy takes the name of a calendar that the program has registered (see [calendar.RegisterSystems]).
// For "" and any other name it writes the Gregorian date. The last three take a [calendar.Date], a [calendar.WallTime]
// or a text YYYY-MM-DD. In a locale whose dates are not known, date and dateBy write YYYY-MM-DD, and weekday is an
// error.
//
// Users without a locale, or with one that nothing suits, get the templates of the locale fallback. It
// must have every event type. The error joins everything that is wrong, always in the same order: a
// template that cannot be compiled, HTML that cannot be escaped, a missing part, a missing message or
// plural form, and a field that [Data] or its User or Event does not have, such as {{.User.Nmae}}. A
// field that a payload lacks is found only when a mail is rendered; see [Templates.Render].
func ParseTemplates(files fs.FS, fallback string) (*Templates, error) {
	t := &Templates{shelves: make(map[string]*shelf)}
	err := t.parse(files)
	if err == nil && len(t.shelves) == 0 {
		err = errors.New("almanacmail: there are no templates")
	}
	errs := []error{err}
	preferred, err := language.Parse(fallback)
	if err != nil {
		errs = append(errs, fmt.Errorf("almanacmail: fallback locale %q: %w", fallback, err))
	} else {
		for _, eventType := range t.Types() {
			errs = append(errs, t.shelves[eventType].arrange(eventType, preferred))
		}
	}
	if err := distinct(errs); err != nil {
		return nil, err
	}
	return t, nil
}

// parse compiles the templates in files. With an error, t also has the pages that are wrong,
// so that their types do not count as missing.
func (t *Templates) parse(files fs.FS) error {
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		return fmt.Errorf("almanacmail: %w", err)
	}
	var errs []error
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		locale, err := language.Parse(entry.Name())
		if err != nil {
			errs = append(errs, fmt.Errorf("almanacmail: directory %q is not a locale: %w", entry.Name(), err))
			continue
		}
		pages, err := parseLocale(files, entry.Name(), locale)
		errs = append(errs, err)
		for _, eventType := range slices.Sorted(maps.Keys(pages)) {
			errs = append(errs, t.add(eventType, pages[eventType]))
		}
	}
	return errors.Join(errs...)
}

func (t *Templates) add(eventType string, one *page) error {
	if t.shelves[eventType] == nil {
		t.shelves[eventType] = &shelf{pages: make(map[language.Tag]*page)}
	}
	if t.shelves[eventType].pages[one.locale] != nil {
		return fmt.Errorf("almanacmail: two directories are the locale %s", one.locale)
	}
	t.shelves[eventType].pages[one.locale] = one
	return nil
}

// arrange orders the locales of an event type.
func (s *shelf) arrange(eventType string, fallback language.Tag) error {
	if s.pages[fallback] == nil {
		return fmt.Errorf("almanacmail: event type %q has no template in the fallback locale %s", eventType, fallback)
	}
	tags := slices.SortedFunc(maps.Keys(s.pages), func(a, b language.Tag) int { return strings.Compare(a.String(), b.String()) })
	tags = slices.DeleteFunc(tags, func(tag language.Tag) bool { return tag == fallback })
	s.tags = append([]language.Tag{fallback}, tags...)
	s.matcher = language.NewMatcher(s.tags)
	return nil
}

// page returns the templates for a user's locale: the locale itself, or else the nearest of
// those that contain it (pt for pt-AO), or else the best match if users of the locale
// understand it (pt-BR for pt), or else the fallback.
func (s *shelf) page(locale string) *page {
	wanted, err := language.Parse(locale)
	if err != nil { // none, or one that this program does not know
		return s.pages[s.tags[0]]
	}
	for tag := wanted; !tag.IsRoot(); tag = tag.Parent() {
		if p := s.pages[tag]; p != nil {
			return p
		}
	}
	_, i, confidence := s.matcher.Match(wanted)
	if confidence < language.High {
		i = 0
	}
	return s.pages[s.tags[i]]
}

// Types returns the event types that have templates, in alphabetical order. The caller may
// modify the slice.
func (t *Templates) Types() []string { return slices.Sorted(maps.Keys(t.shelves)) }

// locale returns the locale of the mail of a delivery, or "" if there are no templates for it.
func (t *Templates) locale(d almanac.Delivery) string {
	found := t.shelves[d.Event.Type]
	if found == nil {
		return ""
	}
	return found.page(d.User.Locale).locale.String()
}

// Render returns the mail of a delivery, with the given link for unsubscribing. Programs can
// call it in their tests, with the payloads that their handlers make.
func (t *Templates) Render(d almanac.Delivery, unsubscribe string) (Mail, error) {
	found := t.shelves[d.Event.Type]
	if found == nil {
		return Mail{}, fmt.Errorf("almanacmail: no template for event type %q", d.Event.Type)
	}
	p := found.page(d.User.Locale)
	payload, err := decode(d.Event.Payload)
	if err != nil {
		return Mail{}, fmt.Errorf("almanacmail: payload: %w", err)
	}
	data := Data{Payload: payload, User: d.User, Event: d.Event, Locale: p.locale.String(), Unsubscribe: unsubscribe}
	var subject, text, html bytes.Buffer
	err = errors.Join(p.subject.Execute(&subject, data), p.text.Execute(&text, data))
	if p.html != nil {
		err = errors.Join(err, p.html.Execute(&html, data))
	}
	if err != nil {
		return Mail{}, fmt.Errorf("almanacmail: %w", err)
	}
	return Mail{Locale: data.Locale, Subject: singleLine(subject.String()), Text: strings.Trim(text.String(), "\n"), HTML: html.String()}, nil
}

// parseLocale compiles the files of a locale, by event type. With an error, it also returns
// the pages that are wrong.
func parseLocale(files fs.FS, dir string, locale language.Tag) (map[string]*page, error) {
	texts, err := readSources(files, dir, ".txt")
	if err != nil {
		return nil, err
	}
	htmls, err := readSources(files, dir, ".html")
	if err != nil {
		return nil, err
	}
	counted, err := parseMessages(files, path.Join(dir, "messages.json"), locale)
	errs := []error{err}
	pages := make(map[string]*page)
	for _, name := range slices.Sorted(maps.Keys(texts.pages)) {
		one, err := compilePage(name, texts, htmls, counted)
		errs = append(errs, err)
		pages[strings.TrimSuffix(path.Base(name), ".txt")] = one
	}
	for _, name := range slices.Sorted(maps.Keys(htmls.pages)) {
		eventType := strings.TrimSuffix(path.Base(name), ".html")
		if pages[eventType] == nil {
			_, err := htmls.compileHTML(htmls.pages[name], counted)
			errs = append(errs, fmt.Errorf("almanacmail: %s has no %s.txt beside it", name, eventType), err)
			pages[eventType] = &page{locale: locale}
		}
	}
	return pages, errors.Join(errs...)
}

// distinct joins errors, and leaves out repetitions: many mails share a part.
func distinct(errs []error) error {
	var all []error
	known := make(map[string]bool)
	var add func(error)
	add = func(err error) {
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, one := range joined.Unwrap() {
				add(one)
			}
		} else if err != nil && !known[err.Error()] {
			known[err.Error()] = true
			all = append(all, err)
		}
	}
	add(errors.Join(errs...))
	return errors.Join(all...)
}
