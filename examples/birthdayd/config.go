package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/httpapi"
	"github.com/almanac-go/almanac/webhook"
)

// config is the whole configuration.
type config struct {
	addr        string
	apiToken    string
	apiRate     int
	databaseURL string
	dataDir     string
	delay       time.Duration // between reporting that it is not ready and closing the listener
	metrics     metricsConfig
	hook        hookConfig
	greeting    greetingConfig
	log         logConfig
	demo        bool
	version     bool
}

// hookConfig is the configuration of the webhooks.
type hookConfig struct {
	url          string
	secret       string
	allowPrivate bool
	attributes   string // names of attributes, separated by commas
}

// greetingConfig says when and how users are greeted.
type greetingConfig struct {
	at         calendar.Clock
	workers    int
	attempts   int
	retryFirst time.Duration
	patient    bool // instead of attempts and retryFirst
	lease      time.Duration
	once       bool // one pass instead of a service
}

// logConfig says what is logged, and how.
type logConfig struct {
	json  bool
	level slog.Level
}

// settings returns the flags in the order of the help, each with its field.
func (c *config) settings() []setting {
	return []setting{
		{name: "demo", preset: "false", take: takeSwitch(&c.demo),
			usage: "greet a few hundred made-up users within seconds, and go on serving"},
		{name: "addr", arg: "HOST:PORT", preset: "127.0.0.1:8080", take: c.takeAddr,
			usage: "where the HTTP API listens; port 0 takes a free one"},
		{name: "api-token", arg: "TOKEN", take: take(&c.apiToken),
			usage: "bearer token that the API asks for; without one it answers loopback only"},
		{name: "api-rate", arg: "N", preset: "1000", take: takeNumber(&c.apiRate, 0, 1_000_000),
			usage: "requests a second that the API answers, a tenth more at once; 0 sets no limit"},
		{name: "metrics", preset: "true", take: takeSwitch(&c.metrics.on),
			usage: "serve metrics for Prometheus at /metrics, beside the API"},
		{name: "metrics-token", arg: "TOKEN", take: take(&c.metrics.token),
			usage: "bearer token that opens /metrics and nothing else; that of the API opens it too"},
		{name: "shutdown-delay", arg: "DURATION", preset: "0s", take: takeDuration(&c.delay, 0),
			usage: "how long /readyz says no before the API stops listening, for a load balancer to notice"},
		{name: "database-url", arg: "URL", also: "DATABASE_URL", take: take(&c.databaseURL),
			usage: "PostgreSQL 13 or later; without one birthdayd finds or starts its own"},
		{name: "data-dir", arg: "DIR", preset: defaultDataDir(), take: take(&c.dataDir),
			usage: "where birthdayd's own PostgreSQL keeps its data between runs"},
		{name: "webhook-url", arg: "URL", take: take(&c.hook.url),
			usage: "who is told of birthdays; required, except with -demo"},
		{name: "webhook-secret", arg: "SECRET", take: take(&c.hook.secret),
			usage: "what webhooks are signed with, as whsec_…; without one they are not signed"},
		{name: "webhook-allow-private", preset: "false", take: takeSwitch(&c.hook.allowPrivate),
			usage: "allow a receiver on this machine or in its network, and plain http"},
		{name: "webhook-attributes", arg: "A,B", take: c.hook.takeAttributes,
			usage: "attributes of the user that webhooks carry, beside the user's id"},
		{name: "deliver-at", arg: "HH:MM[:SS]", preset: "09:00", take: c.greeting.takeAt,
			usage: "time of day of the greeting, where each user lives"},
		{name: "workers", arg: "N", preset: "100", take: takeCount(&c.greeting.workers),
			usage: "deliveries at once"},
		{name: "attempts", arg: "N", preset: strconv.Itoa(presetAttempts), take: takeCount(&c.greeting.attempts),
			usage: "attempts at a delivery, in all"},
		{name: "retry-first", arg: "DURATION", preset: presetRetryFirst.String(), take: takeDuration(&c.greeting.retryFirst, time.Millisecond),
			usage: "wait before the second attempt; the wait before the third is 30 times as long"},
		{name: "patient-retry", preset: "false", take: takeSwitch(&c.greeting.patient),
			usage: "twelve attempts within three to four days, instead of -attempts and -retry-first"},
		{name: "lease", arg: "DURATION", preset: "1m", take: takeDuration(&c.greeting.lease, 3*time.Second),
			usage: "how long a dead process keeps its events from the others"},
		{name: "log-format", arg: "text|json", preset: "text", take: c.log.takeFormat,
			usage: "form of the log on standard error"},
		{name: "log-level", arg: "LEVEL", take: c.takeLogLevel,
			usage: "debug, info, warn or error; info, or warn with -demo, if not set"},
		{name: "once", preset: "false", once: true, take: takeSwitch(&c.greeting.once),
			usage: "greet who is due and end, as from a cron; without the API, on two connections"},
		{name: "version", preset: "false", once: true, take: takeSwitch(&c.version),
			usage: "print the version"},
	}
}

// minToken is the minimum length of a token, in bytes, when others can reach the API.
const minToken = 16

// The flags that -patient-retry replaces.
const (
	presetAttempts   = 3
	presetRetryFirst = 10 * time.Second
)

// parse returns the configuration from arguments and environment. The error contains every
// complaint, one per line. It is flag.ErrHelp when help was requested.
func parse(args []string, lookup lookupEnv) (config, error) {
	var c config
	errs := resolve(c.settings(), args, lookup)
	if errors.Is(errs, flag.ErrHelp) || c.version {
		return c, errs
	}
	return c, errors.Join(errs, c.check())
}

// check validates the settings that depend on each other.
func (c *config) check() error {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse(c.apiToken == "" && c.addr != "" && !onLoopback(c.addr),
		"-api-token is required on %s, which others can reach", c.addr)
	for _, token := range []struct{ flag, text string }{{"-api-token", c.apiToken}, {"-metrics-token", c.metrics.token}} {
		refuse(token.text != "" && len(token.text) < minToken && c.addr != "" && !onLoopback(c.addr),
			"%s has %d bytes; on %s, which others can reach, it needs at least %d", token.flag, len(token.text), c.addr, minToken)
	}
	refuse(c.greeting.patient && (c.greeting.attempts != presetAttempts || c.greeting.retryFirst != presetRetryFirst),
		"-patient-retry has attempts and waits of its own and takes neither -attempts nor -retry-first")
	if c.databaseURL != "" {
		_, err := pgxpool.ParseConfig(c.databaseURL)
		refuse(err != nil, "-database-url: %w", err)
	}
	refuse(c.databaseURL == "" && c.dataDir == "",
		"-data-dir is empty: name a directory for the data of birthdayd's own PostgreSQL, or another PostgreSQL by -database-url")
	refuse(c.demo && c.greeting.once, "-once ends, and -demo goes on: they do not go together")
	refuse(c.demo && c.hook != hookConfig{}, "-demo has a receiver of its own and takes no -webhook flags")
	refuse(!c.demo && c.hook.url == "", "-webhook-url is required, except with -demo")
	if !c.demo && c.hook.url != "" {
		_, err := c.hook.deliverer()
		if to, bad := url.Parse(c.hook.url); bad == nil && to.Scheme == "http" && !c.hook.allowPrivate {
			err = errors.New("plain http is sent only with -webhook-allow-private")
		}
		refuse(err != nil, "-webhook-url, -webhook-secret: %w", err)
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
	return webhook.New(h.url, options...)
}

// authenticator lets in requests with the token. Without a token it lets in every request,
// and only this machine reaches the API.
func (c *config) authenticator() httpapi.Authenticator {
	if c.apiToken == "" {
		return httpapi.NoAuthentication{}
	}
	return httpapi.BearerToken(c.apiToken)
}

// logger returns the configured logger.
func (l logConfig) logger(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: l.level}
	if l.json {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
