package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/almanac-go/almanac/webhook"
)

// hookConfig is the configuration of the webhooks to one receiver.
type hookConfig struct {
	url          string
	secret       string
	allowPrivate bool
	attributes   string // names of attributes, separated by commas
	template     string // a file
	source       string // of CloudEvents
	typePrefix   string // of CloudEvents
}

const hookPrefix = "webhook-"

// settings returns the flags of the receiver of all event types.
func (h *hookConfig) settings() []setting {
	all := h.receiverSettings()
	for i := range all {
		all[i].name = hookPrefix + all[i].name
	}
	return append(all, setting{name: "webhook-attributes", arg: "A,B", take: h.takeAttributes,
		usage: "attributes of the user that webhooks carry, beside the user's id"})
}

// receiverSettings returns what each receiver has of its own.
func (h *hookConfig) receiverSettings() []setting {
	return []setting{
		{name: "url", arg: "URL", take: take(&h.url),
			usage: "the URL that receives birthdays; required, except with -demo or -smtp"},
		{name: "secret", arg: "SECRET", secret: true, take: take(&h.secret),
			usage: "what webhooks are signed with, as whsec_…; without one they are not signed"},
		{name: "allow-private", preset: "false", take: takeSwitch(&h.allowPrivate),
			usage: "allow a receiver on this machine or in its network, and plain http"},
		{name: "template", arg: "FILE", take: take(&h.template),
			usage: "a template of text/template that makes the bodies of webhooks"},
		{name: "cloudevents", arg: "SOURCE", take: take(&h.source),
			usage: "make webhooks CloudEvents from this source, a URI"},
		{name: "cloudevents-type", arg: "PREFIX", take: take(&h.typePrefix),
			usage: "what precedes the event type in the type of CloudEvents, such as com.example."},
	}
}

// check returns what is wrong with the receiver, whose settings have names with the prefix.
func (h hookConfig) check(prefix string) error {
	var errs []error
	if to, err := url.Parse(h.url); err == nil && to.Scheme == "http" && !h.allowPrivate {
		errs = append(errs, errors.New("plain http is sent only with "+prefix+"allow-private"))
	} else if _, err := h.deliverer(); err != nil {
		errs = append(errs, err)
	}
	if h.typePrefix != "" && h.source == "" {
		errs = append(errs, errors.New(prefix+"cloudevents-type is of no use without "+prefix+"cloudevents"))
	}
	return errors.Join(errs...)
}

// deliverer returns the deliverer of the webhooks. The operator chose the receiver, so
// every port is allowed.
func (h hookConfig) deliverer(options ...webhook.Option) (*webhook.Deliverer, error) {
	if h.secret != "" {
		options = append(options, webhook.WithSecrets(h.secret))
	}
	if h.allowPrivate {
		options = append(options, webhook.AllowPrivate())
	}
	if to, err := url.Parse(h.url); err == nil {
		if port, err := strconv.ParseUint(to.Port(), 10, 16); err == nil {
			options = append(options, webhook.AllowPorts(uint16(port)))
		}
	}
	if h.template != "" {
		text, err := os.ReadFile(h.template)
		if err != nil {
			return nil, fmt.Errorf("template: %w", err)
		}
		options = append(options, webhook.WithTemplate(string(text)))
	}
	if h.source != "" {
		options = append(options, webhook.WithCloudEvents(h.source, h.typePrefix))
	}
	return webhook.New(h.url, options...)
}

func (h *hookConfig) takeAttributes(text string) error {
	h.attributes = text
	seen := make(map[string]bool)
	for _, name := range h.names() {
		if name == "" || name != strings.TrimSpace(name) || seen[name] {
			return fmt.Errorf("%q is not a list of names of attributes, each once, with commas and no blanks between", text)
		}
		seen[name] = true
	}
	if len(seen) > maxAttributes {
		return fmt.Errorf("%q names more than %d attributes", text, maxAttributes)
	}
	return nil
}

// names returns the attributes in the webhooks.
func (h hookConfig) names() []string {
	if h.attributes == "" {
		return nil
	}
	return strings.Split(h.attributes, ",")
}
