package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/almanac-go/almanac"
	almanacmail "github.com/almanac-go/almanac/contrib/mail"
	"github.com/almanac-go/almanac/webhook"
)

// byWebhook reports whether webhooks are sent.
func (c config) byWebhook() bool { return c.demo || c.hook.url != "" || len(c.receivers) > 0 }

// checkDelivery validates the settings of deliveries.
func (c config) checkDelivery() error {
	if !c.byWebhook() && c.mail.server == "" {
		return errors.New("-webhook-url is required, except with -demo or -smtp")
	}
	var webhooks, mails []string
	for _, h := range c.handlers() {
		if h.Channel(almanac.Event{}) == almanacmail.Channel {
			mails = append(mails, h.EventType())
		} else {
			webhooks = append(webhooks, h.EventType())
		}
	}
	errs := []error{c.mail.check(mails)}
	for _, t := range slices.Sorted(maps.Keys(c.receivers)) {
		if !slices.Contains(webhooks, t) {
			errs = append(errs, fmt.Errorf("%s.%s: there is no event type %q with webhooks; there are %q", receiversKey, t, t, webhooks))
		}
	}
	if c.hook.url != "" {
		if err := c.hook.check("-" + hookPrefix); err != nil {
			errs = append(errs, fmt.Errorf("-webhook-url, -webhook-secret, -webhook-template, -webhook-cloudevents: %w", err))
		}
		return errors.Join(errs...)
	}
	if c.hook != (hookConfig{attributes: c.hook.attributes}) {
		errs = append(errs, errors.New("-webhook-url is required with other -webhook flags"))
	}
	for _, t := range webhooks {
		if _, own := c.receivers[t]; !own {
			errs = append(errs, fmt.Errorf("-webhook-url is required: event type %s has no receiver of its own", t))
		}
	}
	return errors.Join(errs...)
}

// deliverers returns the deliverer of each channel that is used.
func (c config) deliverers(log *slog.Logger) (map[almanac.Channel]almanac.Deliverer, error) {
	all := make(map[almanac.Channel]almanac.Deliverer)
	if c.byWebhook() {
		r, err := c.receiversOf(log)
		if err != nil {
			return nil, err
		}
		all[almanac.ChannelWebhook] = r
	}
	if c.mail.server != "" {
		links, err := c.links.links()
		if err != nil {
			return nil, err
		}
		d, err := c.mail.deliverer(log, links)
		if err != nil {
			return nil, err
		}
		all[almanacmail.Channel] = d
	}
	return all, nil
}

// receivers delivers events to the receiver of their type, or else to that of all types.
type receivers struct {
	all   almanac.Deliverer
	types map[string]almanac.Deliverer
}

// Deliver makes one attempt.
func (r receivers) Deliver(ctx context.Context, d almanac.Delivery) error {
	if own := r.types[d.Event.Type]; own != nil {
		return own.Deliver(ctx, d)
	}
	return r.all.Deliver(ctx, d)
}

// receiversOf returns the receivers of webhooks, and warns if some webhooks are not signed.
func (c config) receiversOf(log *slog.Logger) (receivers, error) {
	r := receivers{types: make(map[string]almanac.Deliverer)}
	unsigned := c.hook.url != "" && c.hook.secret == ""
	var err error
	if c.hook.url != "" {
		if r.all, err = c.hook.deliverer(webhook.WithLogger(log)); err != nil {
			return r, err
		}
	}
	for t, h := range c.receivers {
		unsigned = unsigned || h.secret == ""
		if r.types[t], err = h.deliverer(webhook.WithLogger(log)); err != nil {
			return r, err
		}
	}
	if unsigned {
		log.Warn("webhooks are not signed, so receivers cannot tell them from forgeries; set -webhook-secret")
	}
	return r, nil
}
