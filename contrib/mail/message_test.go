package almanacmail_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-msgauth/dkim"
	"github.com/stretchr/testify/require"
	gomail "github.com/wneessen/go-mail"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	almanacmail "github.com/almanac-go/almanac/contrib/mail"
	"github.com/almanac-go/almanac/signedlink"
)

// links are links of example.com.
func links(t testing.TB, keys ...signedlink.Key) *almanacmail.Links {
	t.Helper()
	if keys == nil {
		keys = []signedlink.Key{{ID: "2027", Secret: bytes.Repeat([]byte("k"), 32)}}
	}
	l, err := almanacmail.NewLinks("https://example.com/unsubscribe?from=mail", keys...)
	require.NoError(t, err)
	return l
}

// sent delivers and returns the mail as the server got it.
func sent(t *testing.T, greet almanac.Delivery, change func(*almanacmail.Settings)) received {
	t.Helper()
	s := serve(t, nil)
	settings := s.settings(t)
	if change != nil {
		change(&settings)
	}
	d, _ := deliverer(t, settings)
	require.NoError(t, d.Deliver(t.Context(), greet))
	require.Len(t, s.received(), 1)
	return s.received()[0]
}

func TestAMailSaysWhatItIs(t *testing.T) {
	t.Parallel()
	greet := greeting(ada(almanactest.WithLocale("en-GB")))
	is := sent(t, greet, func(s *almanacmail.Settings) {
		s.ReturnPath, s.ReplyTo = "bounces@example.net", mail.Address{Name: "Staff", Address: "staff@example.com"}
		s.Unsubscribe = links(t)
	})
	require.Equal(t, "bounces@example.net", is.from)
	require.Equal(t, "ada@example.org", is.to)
	header := is.header(t)
	link := strings.Trim(header.Get("List-Unsubscribe"), "<>")
	require.Regexp(t, `^https://example\.com/unsubscribe\?from=mail&token=2027\.[\w-]+\.[\w-]+$`, link)
	for name, want := range map[string]string{
		"From":                  `"Almanac" <hello@example.com>`,
		"To":                    "<ada@example.org>",
		"Reply-To":              `"Staff" <staff@example.com>`,
		"Subject":               "Happy birthday, Ada!",
		"Message-Id":            "<" + greet.Event.IdempotencyKey.String() + "@example.com>",
		"Date":                  greet.Event.Due.UTC().Format(time.RFC1123Z),
		"Auto-Submitted":        "auto-generated",
		"Content-Language":      "en",
		"List-Unsubscribe":      "<" + link + ">",
		"List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
		"Mime-Version":          "1.0",
	} {
		require.Equal(t, want, header.Get(name), name)
	}
	require.NotContains(t, header, "User-Agent")

	text, html := parts(t, is)
	require.Equal(t, "Hey, Ada & co", text)
	require.Contains(t, html, "<p>Hey, Ada &amp; co</p>")
	require.Contains(t, html, `<a href="`+strings.ReplaceAll(link, "&", "&amp;")+`">`)
}

// parts returns the text and the HTML of a mail.
func parts(t *testing.T, r received) (text, html string) {
	t.Helper()
	m, err := mail.ReadMessage(strings.NewReader(r.text))
	require.NoError(t, err)
	kind, parameters, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	require.NoError(t, err)
	require.Equal(t, "multipart/alternative", kind)
	reader := multipart.NewReader(m.Body, parameters["boundary"])
	var bodies []string
	for _, want := range []string{"text/plain; charset=UTF-8", "text/html; charset=UTF-8"} {
		part, err := reader.NextRawPart()
		require.NoError(t, err)
		require.Equal(t, want, part.Header.Get("Content-Type"))
		require.Equal(t, "quoted-printable", part.Header.Get("Content-Transfer-Encoding"))
		body, err := io.ReadAll(quotedprintable.NewReader(part))
		require.NoError(t, err)
		bodies = append(bodies, string(body))
	}
	return bodies[0], bodies[1]
}

// A user's name cannot add a header.
func TestASubjectStaysOneLine(t *testing.T) {
	t.Parallel()
	u := ada()
	u.FirstName = "Zoë\r\nBcc: everybody@example.org\r\n"
	subject, err := new(mime.WordDecoder).DecodeHeader(sent(t, greeting(u), nil).header(t).Get("Subject"))
	require.NoError(t, err)
	require.Equal(t, "Happy birthday, Zoë Bcc: everybody@example.org !", subject)
}

// Text that looks like an encoded word arrives as it was written.
func TestTextThatLooksEncodedIsNotDecoded(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"one word":           "=?utf-8?q?Free=20money?=",
		"in the middle":      "a =?utf-8?B?RnJlZSBtb25leQ==?= b",
		"two, which join":    "=?utf-8?q?a?= =?utf-8?q?b?=",
		"longer than a line": strings.Repeat("=?iso-8859-1?q?x?= and ", 20) + "end",
		"the beginning only": "is 1=?",
		"beside other text":  "Zoë =?utf-8?q?x?=",
		"with quotes":        `"=?utf-8?q?x?=" \ (y)`,
		"none":               "a?=b, c = ?",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := ada()
			u.FirstName = text
			is := sent(t, greeting(u), func(s *almanacmail.Settings) {
				s.From.Name, s.ReplyTo = text, mail.Address{Name: text, Address: "staff@example.com"}
			})

			header := is.header(t)
			decode := new(mime.WordDecoder).DecodeHeader
			subject, err := decode(header.Get("Subject"))
			require.NoError(t, err)
			require.Equal(t, "Happy birthday, "+text+"!", subject)
			for _, field := range []string{"From", "Reply-To"} {
				list, err := header.AddressList(field)
				require.NoError(t, err)
				require.Equal(t, text, list[0].Name, field)
				if strings.HasPrefix(header.Get(field), `"`) { // many programs decode within quotes, too
					require.NotContains(t, header.Get(field), "=?", field)
				}
			}
			for line := range strings.Lines(is.text) {
				require.LessOrEqual(t, len(line), 100)
			}
		})
	}
}

// What is the same on every attempt: receivers recognise a repeat by Message-ID, some by Date
// too.
func TestARepeatIsTheSameByteByByte(t *testing.T) {
	t.Parallel()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	signed := func(s *almanacmail.Settings) {
		s.Unsubscribe, s.DKIM = links(t), &almanacmail.DKIM{Domain: "example.com", Selector: "a", Key: key}
	}
	greet := greeting(ada())
	once := sent(t, greet, signed)
	greet.Attempt, greet.At = 2, greet.At.Add(26*time.Hour)
	greet.Event.RetryCount, greet.Event.Version, greet.Event.ClaimCount = 1, 7, 2
	twice := sent(t, greet, signed)
	require.Equal(t, unsigned(once), unsigned(twice))
	require.NotEqual(t, once.text, unsigned(once).text)

	other := greeting(ada())
	require.NotEqual(t, once.header(t).Get("Content-Type"), sent(t, other, signed).header(t).Get("Content-Type"))
}

// unsigned returns a mail without its signature, which has the time of the attempt.
func unsigned(r received) received {
	signature := regexp.MustCompile(`(?s)^DKIM-Signature:.*?\r\n(\S)`)
	r.text = signature.ReplaceAllString(r.text, "$1")
	return r
}

// The default headers of go-mail's signer lack those of unsubscribing.
func TestDKIMCoversTheHeadersOfUnsubscribing(t *testing.T) {
	t.Parallel()
	big, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	_, small, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	for name, key := range map[string]crypto.Signer{"rsa": big, "ed25519": small} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := sent(t, greeting(ada()), func(s *almanacmail.Settings) {
				s.Unsubscribe, s.DKIM = links(t), &almanacmail.DKIM{Domain: "example.com", Selector: "2027", Key: key}
			})
			verify := func(text string) (*dkim.Verification, error) {
				found, err := dkim.VerifyWithOptions(strings.NewReader(text), &dkim.VerifyOptions{
					LookupTXT: func(name string) ([]string, error) {
						require.Equal(t, "2027._domainkey.example.com", name)
						return []string{record(t, key)}, nil
					},
				})
				require.NoError(t, err)
				require.Len(t, found, 1)
				return found[0], found[0].Err
			}
			v, err := verify(is.text)
			require.NoError(t, err)
			require.Subset(t, v.HeaderKeys, []string{"From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "List-Unsubscribe", "List-Unsubscribe-Post"})
			for _, forged := range [][2]string{{"List-Unsubscribe=One-Click", "List-Unsubscribe=Two-Clicks"}, {"example.com/unsubscribe", "example.net/unsubscribe"}, {"Happy", "Unhappy"}} {
				require.Contains(t, is.text, forged[0])
				_, err := verify(strings.Replace(is.text, forged[0], forged[1], 1))
				require.Error(t, err, forged)
			}
		})
	}
}

// record is the TXT record of a key.
func record(t *testing.T, key crypto.Signer) string {
	t.Helper()
	if public, ok := key.Public().(ed25519.PublicKey); ok {
		return "v=DKIM1; k=ed25519; p=" + base64.StdEncoding.EncodeToString(public)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	require.NoError(t, err)
	return "v=DKIM1; k=rsa; p=" + base64.StdEncoding.EncodeToString(der)
}

func TestNewNamesEveryWrongSetting(t *testing.T) {
	t.Parallel()
	_, err := almanacmail.New(almanacmail.Settings{
		Server:     almanacmail.Server{Address: "smtp.example.com", Password: "secret", Encryption: "rot13", Connections: -1},
		From:       mail.Address{Address: "hello"},
		ReplyTo:    mail.Address{Name: "Ada"},
		ReturnPath: "<>",
		Domain:     "example com",
		DKIM:       &almanacmail.DKIM{Domain: "example.com"},
	})
	for _, want := range []string{`server "smtp.example.com" is not host:port`, `From "hello"`, `ReplyTo ""`, `ReturnPath "<>"`, `"example com" is not a domain`, "Templates is required", `"rot13" is not an encryption`, "-1 connections", "DKIM: there is no key"} {
		require.ErrorContains(t, err, want)
	}
	require.NotContains(t, err.Error(), "secret")
}

// The domain and the return path follow from the sender, and so do mistakes in them.
func TestNewNamesOnlyCauses(t *testing.T) {
	t.Parallel()
	_, err := almanacmail.New(almanacmail.Settings{})
	require.EqualError(t, err, "almanacmail: Server.Address is required\nalmanacmail: From is required\nalmanacmail: Templates is required")
	settings := almanacmail.Settings{Server: almanacmail.Server{Address: "smtp.example.com:587"}, Templates: templates(t)}
	settings.From.Address = "hello"
	_, err = almanacmail.New(settings)
	require.EqualError(t, err, `almanacmail: From "hello" is not an e-mail address`)
	settings.From.Address = `"hello@example"@example.com`
	_, err = almanacmail.New(settings)
	require.NoError(t, err, "the last @ begins the domain")
}

// Every login would fail, and every mail be postponed.
func TestNewRefusesAPasswordWithoutEncryption(t *testing.T) {
	t.Parallel()
	settings := almanacmail.Settings{From: mail.Address{Address: "a@example.com"}, Templates: templates(t)}
	settings.Server = almanacmail.Server{Encryption: almanacmail.Unencrypted, Username: "almanac", Password: "secret"}
	for address, allowed := range map[string]bool{
		"localhost:25": true, "127.0.0.1:25": true, "[::1]:25": true,
		"smtp.example.com:25": false, "127.0.0.2:25": false, "localhost.example.com:25": false,
	} {
		settings.Server.Address = address
		_, err := almanacmail.New(settings)
		require.Equal(t, allowed, err == nil, "%s: %v", address, err)
		if !allowed {
			for _, want := range []string{"Server.Encryption", "Server.Username", "Server.Password"} {
				require.ErrorContains(t, err, want)
			}
			require.NotContains(t, err.Error(), "secret")
		}
	}
	settings.Server.Options = []gomail.Option{gomail.WithSMTPAuth(gomail.SMTPAuthCramMD5)}
	_, err := almanacmail.New(settings)
	require.NoError(t, err, "another way to log in, which sends no password")
	settings.Server.Options, settings.Server.Username = nil, ""
	_, err = almanacmail.New(settings)
	require.NoError(t, err, "no login")
	settings.Server.Encryption, settings.Server.Username = almanacmail.StartTLS, "almanac"
	_, err = almanacmail.New(settings)
	require.NoError(t, err)
}

func TestTheUsersAddressIsTakenAtEachAttempt(t *testing.T) {
	t.Parallel()
	is := sent(t, greeting(ada()), func(s *almanacmail.Settings) {
		s.Address = func(_ context.Context, d almanac.Delivery) (string, error) { return "new-" + d.User.Email, nil }
	})
	require.Equal(t, "new-ada@example.org", is.to)
}

func TestAQuotedAddressStaysQuoted(t *testing.T) {
	t.Parallel()
	is := sent(t, greeting(ada(almanactest.WithEmail(`"ada lovelace"@example.org`))), nil)
	require.Equal(t, "ada lovelace@example.org", is.to, "as the server parses it")
	require.Equal(t, `<"ada lovelace"@example.org>`, is.header(t).Get("To"))
}
