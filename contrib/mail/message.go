package almanacmail

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/emersion/go-msgauth/dkim"
	gomail "github.com/wneessen/go-mail"

	"github.com/almanac-go/almanac"
)

// message is a mail on its way.
type message struct {
	from, to string // in angle brackets
	ascii    bool   // whether both are in ASCII
	text     []byte // headers and body
}

// compose returns the mail of a delivery to an address without a name.
func (s Settings) compose(d almanac.Delivery, to *mail.Address) (message, error) {
	m, err := s.write(d, to)
	if err != nil {
		return message{}, err
	}
	var text bytes.Buffer
	if _, err := m.WriteTo(&text); err != nil {
		return message{}, err
	}
	if s.DKIM != nil {
		// go-mail's own signatures do not verify when they name as many headers as these: it
		// breaks a line within a word after it has signed the word.
		var signed bytes.Buffer
		if err := dkim.Sign(&signed, &text, s.DKIM.options()); err != nil {
			return message{}, fmt.Errorf("almanacmail: DKIM: %w", err)
		}
		text = signed
	}
	return message{"<" + s.ReturnPath + ">", to.String(), isASCII(to.Address + s.ReturnPath), text.Bytes()}, nil
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf })
}

// write returns the mail for go-mail. What it takes from the event never changes; what
// templates take from the user may differ between attempts.
func (s Settings) write(d almanac.Delivery, to *mail.Address) (*gomail.Msg, error) {
	link := ""
	if s.Unsubscribe != nil {
		link = s.Unsubscribe.url(subject{d.Event.UserID, d.Event.Type, s.Templates.locale(d)})
	}
	content, err := s.Templates.Render(d, link)
	if err != nil {
		return nil, err
	}
	key := d.Event.IdempotencyKey.String()
	m := gomail.NewMsg(gomail.WithBoundary(boundary(key)), gomail.WithNoDefaultUserAgent())
	m.SetGenHeader(gomail.Header(gomail.HeaderFrom), addressText(s.From))
	m.ToMailAddress(to)
	if s.ReplyTo.Address != "" {
		m.SetGenHeader(gomail.Header(gomail.HeaderReplyTo), addressText(s.ReplyTo))
	}
	m.Subject(plain(content.Subject))
	m.SetMessageIDWithValue(key + "@" + s.Domain)
	m.SetDateWithValue(d.Event.Due.UTC().Truncate(time.Second))
	m.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834: no automatic reply, such as of absence
	m.SetGenHeader("Content-Language", content.Locale)
	if link != "" {
		m.SetGenHeader(gomail.HeaderListUnsubscribe, "<"+link+">")
		m.SetGenHeader(gomail.HeaderListUnsubscribePost, "List-Unsubscribe=One-Click")
	}
	m.SetBodyString(gomail.TypeTextPlain, content.Text)
	if content.HTML != "" {
		m.AddAlternativeString(gomail.TypeTextHTML, content.HTML)
	}
	return m, nil
}

// boundary returns the boundary of MIME parts for an idempotency key.
func boundary(key string) string {
	sum := sha256.Sum256([]byte("boundary " + key))
	return "almanac-" + hex.EncodeToString(sum[:16])
}

// addressText returns an address with its name as a header has it.
func addressText(a mail.Address) string {
	name := plain(a.Name)
	if name == a.Name {
		return a.String()
	}
	return name + " " + (&mail.Address{Address: a.Address}).String()
}

// plain returns text for a header in which it shall be read as it is. Text in ASCII that has
// the beginning of an encoded word (RFC 2047) would be decoded by the reader's program, so it
// is encoded itself. All other text is returned unchanged: go-mail encodes what is not ASCII.
func plain(text string) string {
	if !isASCII(text) || !strings.Contains(text, "=?") {
		return text
	}
	const most = 45 // bytes in a word of at most 75, in base64
	var words []string
	for chunk := range slices.Chunk([]byte(text), most) {
		words = append(words, "=?utf-8?b?"+base64.StdEncoding.EncodeToString(chunk)+"?=")
	}
	return strings.Join(words, " ")
}

// singleLine returns text without line breaks, for a header.
func singleLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// noDial is for clients of go-mail that only check their options.
func noDial(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("almanacmail: not to be dialled")
}
