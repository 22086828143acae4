package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/httpapi"
)

// config is the whole configuration.
type config struct {
	api         apiConfig
	databaseURL string
	dataDir     string
	metrics     metricsConfig
	hook        hookConfig
	receivers   map[string]hookConfig // of event types that do not go to hook, from the file
	mail        mailConfig
	links       linksConfig
	greeting    greetingConfig
	log         logConfig
	demo        bool
	version     bool
}

// apiConfig is the configuration of the HTTP API.
type apiConfig struct {
	addr      string
	token     string
	rate      int
	dashboard dashboardConfig
	delay     time.Duration // between reporting that it is not ready and closing the listener
}

// greetingConfig says when and how users are greeted.
type greetingConfig struct {
	at          calendar.Clock
	quiet       calendar.Window // the time outside of the quiet hours
	hours       calendar.Window // instead of quiet
	zone        string          // of users without one; "" means that each user needs one
	anniversary string          // the attribute with the date; "" means no anniversaries
	workers     int
	attempts    int
	retryFirst  time.Duration
	patient     bool // instead of attempts and retryFirst
	lease       time.Duration
	once        bool // one pass instead of a service
	backfill    bool // events for existing users instead of a service
}

// logConfig says what is logged, and how.
type logConfig struct {
	json  bool
	level slog.Level
}

// settings returns the flags in the order of the help, each with its field.
func (c *config) settings() []setting {
	return slices.Concat(c.serviceSettings(), c.api.dashboard.settings(), c.hook.settings(), c.mail.settings(), c.links.settings(), c.greetingSettings())
}

func (c *config) serviceSettings() []setting {
	return []setting{
		{name: "demo", preset: "false", take: takeSwitch(&c.demo),
			usage: "greet a few hundred made-up users within seconds, and go on serving"},
		{name: configFlag, arg: "FILE", take: func(string) error { return nil }, // read before all others
			usage: "a file of JSON with further settings; flags and variables win"},
		{name: "addr", arg: "HOST:PORT", preset: "127.0.0.1:8080", take: c.takeAddr,
			usage: "where the HTTP API listens; port 0 takes a free one"},
		{name: "api-token", arg: "TOKEN", secret: true, take: take(&c.api.token),
			usage: "bearer token that the API asks for; without one it answers loopback only"},
		{name: "api-rate", arg: "N", preset: "1000", take: takeNumber(&c.api.rate, 0, 1_000_000),
			usage: "requests a second that the API answers, a tenth more at once; 0 sets no limit"},
		{name: "metrics", preset: "true", take: takeSwitch(&c.metrics.on),
			usage: "serve metrics for Prometheus at /metrics, beside the API"},
		{name: "metrics-token", arg: "TOKEN", secret: true, take: take(&c.metrics.token),
			usage: "bearer token that opens /metrics and nothing else; that of the API opens it too"},
		{name: "shutdown-delay", arg: "DURATION", preset: "0s", take: takeDuration(&c.api.delay, 0),
			usage: "how long /readyz says no before the API stops listening, for a load balancer to notice"},
		{name: "database-url", arg: "URL", also: "DATABASE_URL", secret: true, take: take(&c.databaseURL),
			usage: "PostgreSQL 13 or later; without one birthdayd finds or starts its own"},
		{name: "data-dir", arg: "DIR", preset: defaultDataDir(), take: take(&c.dataDir),
			usage: "where birthdayd's own PostgreSQL keeps its data between runs"},
	}
}

func (c *config) greetingSettings() []setting {
	return []setting{
		{name: "deliver-at", arg: "HH:MM[:SS]", preset: "09:00", take: c.greeting.takeAt,
			usage: "time of day of the greeting, where each user lives"},
		{name: "quiet-hours", arg: "FROM-UNTIL", take: c.greeting.takeQuiet,
			usage: "no greetings at night, as 22:00-07:00, where each user lives: neither planned nor late ones"},
		{name: "hours", arg: "WINDOW", take: c.greeting.takeHours,
			usage: "the hours of greetings, as 'Mo-Fr 09:00-18:00; Sa 10:00-14:00', instead of -quiet-hours"},
		{name: "default-zone", arg: "ZONE", take: c.greeting.takeZone,
			usage: "the zone of imported users without one, unless the attribute country says more"},
		{name: "anniversary", arg: "ATTRIBUTE", take: c.greeting.takeAnniversary,
			usage: "greet users on the anniversaries of a date too, which is an attribute of the user"},
		{name: "workers", arg: "N", preset: "100", take: takeCount(&c.greeting.workers),
			usage: "deliveries at once"},
		{name: "attempts", arg: "N", preset: strconv.Itoa(presetAttempts), take: takeCount(&c.greeting.attempts),
			usage: "attempts at a webhook, in all"},
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
		{name: "backfill", preset: "false", once: true, take: takeSwitch(&c.greeting.backfill),
			usage: "store the events that existing users lack, as of types switched on later, and end"},
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
	file, errs := resolve(c.settings(), args, lookup)
	if errors.Is(errs, flag.ErrHelp) || errors.Is(errs, errFile) || errors.Is(errs, errFlag) || c.version {
		return c, errs
	}
	return c, errors.Join(errs, c.takeReceivers(file), c.check())
}

// check validates the settings that depend on each other.
func (c *config) check() error {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse(c.api.token == "" && c.api.addr != "" && !onLoopback(c.api.addr),
		"-api-token is required on %s, which others can reach", c.api.addr)
	for _, token := range []struct{ flag, text string }{{"-api-token", c.api.token}, {"-metrics-token", c.metrics.token}} {
		refuse(token.text != "" && len(token.text) < minToken && c.api.addr != "" && !onLoopback(c.api.addr),
			"%s has %d bytes; on %s, which others can reach, it needs at least %d", token.flag, len(token.text), c.api.addr, minToken)
	}
	refuse(c.greeting.patient && (c.greeting.attempts != presetAttempts || c.greeting.retryFirst != presetRetryFirst),
		"-patient-retry has attempts and waits of its own and takes neither -attempts nor -retry-first")
	if c.databaseURL != "" {
		_, err := pgxpool.ParseConfig(c.databaseURL)
		refuse(err != nil, "-database-url: %w", err)
	}
	refuse(c.databaseURL == "" && c.dataDir == "",
		"-data-dir is empty: name a directory for the data of birthdayd's own PostgreSQL, or another PostgreSQL by -database-url")
	refuse(c.demo && (c.greeting.once || c.greeting.backfill), "-once and -backfill end, and -demo goes on: they do not go together")
	refuse(c.greeting.once && c.greeting.backfill, "-once and -backfill do not go together")
	refuse(c.demo && (c.hook != hookConfig{} || len(c.receivers) > 0), "-demo has a receiver of its own and takes no -webhook flags")
	unlimited := calendar.Window{}
	refuse(c.demo && (c.greeting.quiet != unlimited || c.greeting.hours != unlimited), "-demo greets at every hour and takes neither -quiet-hours nor -hours")
	refuse(c.greeting.quiet != unlimited && c.greeting.hours != unlimited, "-quiet-hours and -hours do not go together")
	refuse(c.demo && c.mail != mailConfig{}, "-demo sends no mails and takes no -smtp and -mail flags")
	errs = append(errs, c.links.check(c.mail.server != ""))
	if !c.demo {
		errs = append(errs, c.checkDelivery())
	}
	return errors.Join(errs...)
}

// authenticator lets in requests with one of the tokens. Without a token it lets in every request,
// and only this machine reaches the API.
func authenticator(tokens ...string) httpapi.Authenticator {
	if strings.Join(tokens, "") == "" {
		return httpapi.NoAuthentication{}
	}
	return httpapi.BearerToken(tokens...)
}

// logger returns the configured logger.
func (l logConfig) logger(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: l.level}
	if l.json {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
