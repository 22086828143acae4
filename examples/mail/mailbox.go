package main

import (
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"sync"

	"github.com/emersion/go-smtp"
)

// mailbox is a mail server that prints what it gets. It delivers nothing.
type mailbox struct {
	address string
	server  *smtp.Server

	mu   sync.Mutex
	out  io.Writer
	left int // mails to come
	full func()
}

// openMailbox opens a mailbox for a number of mails. The last one calls full.
func openMailbox(out io.Writer, mails int, full func()) (*mailbox, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	box := &mailbox{address: listener.Addr().String(), out: out, left: mails, full: full}
	box.server = smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return session{box}, nil }))
	go func() { _ = box.server.Serve(listener) }() // until close
	return box, nil
}

func (box *mailbox) close() { _ = box.server.Close() }

// session is a client's connection. Every sender and every recipient is welcome.
type session struct{ box *mailbox }

func (session) Mail(string, *smtp.MailOptions) error { return nil }
func (session) Rcpt(string, *smtp.RcptOptions) error { return nil }
func (session) Reset()                               {}
func (session) Logout() error                        { return nil }

// Data prints a mail. An error would be a reply that refuses it.
func (s session) Data(r io.Reader) error {
	m, err := mail.ReadMessage(r)
	if err != nil {
		return err
	}
	text, err := plainText(m)
	if err != nil {
		return err
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if err != nil {
		return err
	}
	s.box.mu.Lock()
	defer s.box.mu.Unlock()
	fmt.Fprintf(s.box.out, "To: %s\nSubject: %s\nMessage-ID: %s\n\n%s\n----\n", m.Header.Get("To"), subject, m.Header.Get("Message-Id"), text)
	if s.box.left--; s.box.left == 0 {
		s.box.full()
	}
	return nil
}

// plainText returns the first part of a mail, which is the text.
func plainText(m *mail.Message) (string, error) {
	var body io.Reader = quotedprintable.NewReader(m.Body)
	kind, parameters, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		return "", err
	}
	if kind == "multipart/alternative" {
		part, err := multipart.NewReader(m.Body, parameters["boundary"]).NextPart()
		if err != nil {
			return "", err
		}
		body = part // NextPart decodes quoted-printable
	}
	text, err := io.ReadAll(body)
	return string(text), err
}
