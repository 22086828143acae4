package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/mail"
	"os"
	"slices"
	"strings"

	"github.com/almanac-go/almanac"
	almanacmail "github.com/almanac-go/almanac/contrib/mail"
)

// mailConfig is the configuration of the mails.
type mailConfig struct {
	server     string
	username   string
	password   string
	encryption string
	from       string
	templates  string // a directory
	locale     string
}

func (m *mailConfig) settings() []setting {
	return []setting{
		{name: "smtp", arg: "HOST:PORT", take: take(&m.server),
			usage: "the server that takes greetings by mail, beside or instead of webhooks"},
		{name: "smtp-username", arg: "NAME", take: take(&m.username),
			usage: "the login at that server; without one it asks for none"},
		{name: "smtp-password", arg: "PASSWORD", secret: true, take: take(&m.password),
			usage: "the password of that login"},
		{name: "smtp-encryption", arg: "KIND", take: take(&m.encryption),
			usage: "starttls, tls or plaintext; tls on port 465 and starttls on others, if not set"},
		{name: "mail-from", arg: "ADDRESS", take: take(&m.from),
			usage: `the sender of mails, as "Acme <birthdays@example.com>"`},
		{name: "mail-templates", arg: "DIR", take: take(&m.templates),
			usage: "templates of mails, in a directory for each locale"},
		{name: "mail-locale", arg: "LOCALE", take: take(&m.locale),
			usage: "locale of users without one, or with one that has no templates; en if not set"},
	}
}

// check returns what is wrong, when mails of the given event types are to be sent.
func (m mailConfig) check(types []string) error {
	if m.server == "" {
		if m != (mailConfig{}) {
			return errors.New("the flags -smtp-… and -mail-… are of no use without -smtp")
		}
		return nil
	}
	settings, err := m.deliverySettings()
	if err != nil {
		return err
	}
	if _, err := almanacmail.New(settings); err != nil {
		return fmt.Errorf("-smtp, -mail-from: %w", err)
	}
	for _, t := range types {
		if name := strings.TrimSuffix(t, mailSuffix); !slices.Contains(settings.Templates.Types(), name) {
			err = errors.Join(err, fmt.Errorf("-mail-templates: %s has no template %s.txt", m.templates, name))
		}
	}
	return err
}

func (m mailConfig) deliverySettings() (almanacmail.Settings, error) {
	from, err := mail.ParseAddress(m.from)
	if err != nil {
		err = fmt.Errorf("-mail-from: %q is not an address: %w", m.from, err)
	}
	if m.templates == "" {
		return almanacmail.Settings{}, errors.Join(err, errors.New("-mail-templates is required with -smtp"))
	}
	templates, bad := almanacmail.ParseTemplates(os.DirFS(m.templates), cmp.Or(m.locale, "en"))
	if bad != nil {
		bad = fmt.Errorf("-mail-templates: %w", bad)
	}
	if err = errors.Join(err, bad); err != nil {
		return almanacmail.Settings{}, err
	}
	return almanacmail.Settings{
		Server: almanacmail.Server{Address: m.server, Username: m.username, Password: m.password, Encryption: almanacmail.Encryption(m.encryption)},
		From:   *from, Templates: templates,
	}, nil
}

// mailSuffix ends the event types of mails that are sent beside webhooks, since each event is
// delivered by one channel.
const mailSuffix = "_MAIL"

// deliverer returns the deliverer of the mails, which have links unless links is nil.
// Templates are named without the suffix, and so are the types of links.
func (m mailConfig) deliverer(log *slog.Logger, with *links) (almanac.Deliverer, error) {
	settings, err := m.deliverySettings()
	if err != nil {
		return nil, err
	}
	settings.Log = log
	if with != nil {
		settings.Unsubscribe = with.unsubscribe
	}
	sender, err := almanacmail.New(settings)
	if err != nil {
		return nil, err
	}
	return almanac.DelivererFunc(func(ctx context.Context, d almanac.Delivery) error {
		d.Event.Type = strings.TrimSuffix(d.Event.Type, mailSuffix)
		return sender.Deliver(ctx, d)
	}), nil
}
