package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"
	"time"

	"github.com/almanac-go/almanac"
)

// content makes the bodies of a deliverer.
type content struct {
	mediaType string
	body      func(almanac.Event) ([]byte, error)
}

// Message is what a template of [WithTemplate] is executed with. It is the same on every attempt.
type Message struct {
	EventID        string
	EventType      string
	UserID         string
	IdempotencyKey string
	OccurrenceKey  string
	Due            time.Time // the instant, UTC
	Wall           string    // the instant as clocks in Zone show it, as 2026-03-15T09:00:00
	Zone           string    // the IANA name of the zone
	Payload        any       // the payload, decoded; a number is a [json.Number]
}

// WithTemplate makes the body by a template of text/template, which is executed with a
// [Message]. The default is the body that the package documentation describes.
//
//	{"text": "{{.Payload.message}}", "id": {{json .EventID}}, "all": {{json .Payload}}}
//
// The template must write JSON. What an action writes is escaped as a part of a JSON string, so no name of
// a user can change the structure of the body. The function json writes any value as JSON, with the quotes
// of a string. A payload without a member that the template names, and a body that is not JSON, is an error
// that matches [almanac.ErrPermanent]. New returns an error for a template that cannot be parsed.
func WithTemplate(text string) Option {
	return func(s *settings) { s.templates = append(s.templates, text) }
}

// WithCloudEvents makes the body a CloudEvent 1.0 in JSON (structured mode), as
// application/cloudevents+json. Its data is the body that the package documentation describes. Its id is
// the idempotency key, its time the instant Due, and its type typePrefix and the event type, such as
// "com.example." and "BIRTHDAY". The source is a URI reference that identifies the sender, such as
// https://example.com/greetings. A receiver may take events with equal source and id for repeats.
func WithCloudEvents(source, typePrefix string) Option {
	return func(s *settings) { s.clouds = append(s.clouds, cloud{source, typePrefix}) }
}

// content returns what makes the bodies.
func (s settings) content() (content, error) {
	switch {
	case len(s.templates)+len(s.clouds) > 1:
		return content{}, errors.New("webhook: more than one of WithTemplate and WithCloudEvents")
	case len(s.templates) == 1:
		return fromTemplate(s.templates[0])
	case len(s.clouds) == 1:
		return s.clouds[0].content()
	}
	return content{"application/json", bodyOf}, nil
}

// cloudType is the media type of one CloudEvent.
const cloudType = "application/cloudevents+json"

// cloud has the attributes of CloudEvents that the host chooses.
type cloud struct{ source, typePrefix string }

func (c cloud) content() (content, error) {
	if u, err := url.Parse(c.source); err != nil || u.String() == "" {
		return content{}, fmt.Errorf("webhook: the source %q of CloudEvents is not a URI reference", c.source)
	}
	return content{cloudType, c.body}, nil
}

func (c cloud) body(e almanac.Event) ([]byte, error) {
	data, err := bodyOf(e)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err = encoder.Encode(struct {
		SpecVersion     string          `json:"specversion"`
		ID              string          `json:"id"`
		Source          string          `json:"source"`
		Type            string          `json:"type"`
		Time            time.Time       `json:"time"`
		DataContentType string          `json:"datacontenttype"`
		Data            json.RawMessage `json:"data"`
	}{"1.0", e.IdempotencyKey.String(), c.source, c.typePrefix + e.Type, e.Due.UTC(), "application/json", data})
	return bytes.TrimSpace(b.Bytes()), err
}

// encoded is JSON, as the function json of templates returns it.
type encoded string

// functions are the functions of templates.
var functions = template.FuncMap{
	"json":     func(value any) (encoded, error) { text, err := marshal(value); return encoded(text), err },
	escapeName: escape,
}

// escapeName is the function that ends each pipeline. Its name is not one that is written by accident.
const escapeName = "_almanac_escape"

// escape returns a value as a part of a JSON string, unless the function json wrote it.
func escape(value any) (string, error) {
	if text, ok := value.(encoded); ok {
		return string(text), nil
	}
	text, err := marshal(value)
	if inner, ok := strings.CutPrefix(text, `"`); ok {
		return strings.TrimSuffix(inner, `"`), err
	}
	return text, err
}

func marshal(value any) (string, error) {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return strings.TrimSuffix(b.String(), "\n"), err
}

func fromTemplate(text string) (content, error) {
	t, err := template.New("body").Option("missingkey=error").Funcs(functions).Parse(text)
	if err != nil {
		return content{}, fmt.Errorf("webhook: %w", err)
	}
	for _, one := range t.Templates() {
		escapeAll(one.Root)
	}
	return content{"application/json", func(e almanac.Event) ([]byte, error) { return execute(t, e) }}, nil
}

func execute(t *template.Template, e almanac.Event) ([]byte, error) {
	m := Message{
		EventID: e.ID.String(), EventType: e.Type, UserID: e.UserID.String(), IdempotencyKey: e.IdempotencyKey.String(),
		OccurrenceKey: e.OccurrenceKey, Due: e.Due.UTC(), Wall: e.Wall.String(), Zone: e.Zone,
	}
	decoder := json.NewDecoder(bytes.NewReader(e.Payload))
	decoder.UseNumber()
	if err := decoder.Decode(&m.Payload); err != nil {
		return nil, err
	}
	var written, body bytes.Buffer
	if err := t.Execute(&written, m); err != nil {
		return nil, err
	}
	if err := json.Compact(&body, written.Bytes()); err != nil {
		return nil, fmt.Errorf("the template wrote what is not JSON: %w", err)
	}
	return body.Bytes(), nil
}

// escapeAll adds the function escape to every action below a node that writes something.
func escapeAll(node parse.Node) {
	switch node := node.(type) {
	case *parse.ListNode:
		if node != nil {
			for _, child := range node.Nodes {
				escapeAll(child)
			}
		}
	case *parse.IfNode:
		escapeAll(node.List)
		escapeAll(node.ElseList)
	case *parse.RangeNode:
		escapeAll(node.List)
		escapeAll(node.ElseList)
	case *parse.WithNode:
		escapeAll(node.List)
		escapeAll(node.ElseList)
	case *parse.ActionNode:
		if len(node.Pipe.Decl) == 0 { // an assignment writes nothing
			node.Pipe.Cmds = append(slices.Clone(node.Pipe.Cmds), &parse.CommandNode{NodeType: parse.NodeCommand, Pos: node.Pos,
				Args: []parse.Node{parse.NewIdentifier(escapeName).SetPos(node.Pos)}})
		}
	}
}

// bodyOf returns the body that is posted for an event. It depends only on data that is frozen at the
// first claim, and its members are in a fixed order. Every attempt therefore sends the same bytes.
func bodyOf(e almanac.Event) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(`{"eventId":`)
	writeString(&b, e.ID.String())
	b.WriteString(`,"eventType":`)
	writeString(&b, e.Type)
	if err := writePayload(&b, e.Payload); err != nil {
		return nil, err
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// writePayload adds the members of the payload, or the whole payload as the member
// "payload" when it is not an object. It skips payload members named eventId and eventType,
// in any case, because many receivers ignore the case of names.
func writePayload(b *bytes.Buffer, payload json.RawMessage) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(payload, &members); err != nil || members == nil {
		members = map[string]json.RawMessage{"payload": payload}
	}
	names := make([]string, 0, len(members))
	for name := range members {
		if !strings.EqualFold(name, "eventId") && !strings.EqualFold(name, "eventType") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		b.WriteByte(',')
		writeString(b, name)
		b.WriteByte(':')
		if err := json.Compact(b, members[name]); err != nil {
			return err
		}
	}
	return nil
}

// writeString writes s as a JSON string without the escapes that only HTML needs, so that
// apostrophes and ampersands stay readable.
func writeString(b *bytes.Buffer, s string) {
	encoder := json.NewEncoder(b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(s) // a string always encodes, and a buffer accepts every write
	b.Truncate(b.Len() - 1)
}
