package main

import (
	"bytes"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/almanac-go/almanac/calendar"
)

// environment returns an environment of NAME=value entries.
func environment(entries ...string) lookupEnv {
	return func(name string) (string, bool) {
		for _, entry := range entries {
			if value, ok := strings.CutPrefix(entry, name+"="); ok {
				return value, true
			}
		}
		return "", false
	}
}

func TestSettingsComeFromFlagsThenEnvironmentThenPresets(t *testing.T) {
	t.Parallel()
	c, err := parse([]string{"-webhook-url", "https://example.com/hook", "-workers=7", "-database-url", "postgres://flag/db"},
		environment("BIRTHDAYD_WORKERS=9", "BIRTHDAYD_DELIVER_AT=07:30:15", "DATABASE_URL=postgres://env/db",
			"BIRTHDAYD_LOG_FORMAT=json", "BIRTHDAYD_ATTEMPTS=", "BIRTHDAYD_WEBHOOK_ALLOW_PRIVATE=true"))
	if err != nil {
		t.Fatal(err)
	}
	want := config{
		api:         apiConfig{addr: "127.0.0.1:8080", rate: 1000, dashboard: dashboardConfig{on: true}},
		databaseURL: "postgres://flag/db",
		dataDir:     defaultDataDir(),
		metrics:     metricsConfig{on: true},
		hook:        hookConfig{url: "https://example.com/hook", allowPrivate: true},
		greeting: greetingConfig{
			at: calendar.Clock{Hour: 7, Minute: 30, Second: 15}, workers: 7, attempts: 3,
			retryFirst: 10 * time.Second, lease: time.Minute,
		},
		log: logConfig{json: true, level: slog.LevelInfo},
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("parse = %+v\nwant    %+v", c, want)
	}
}

func TestDatabaseVariablesHaveAPrecedence(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		args, env []string
		want      string
	}{
		"its own variable wins over the common one": {nil, []string{"DATABASE_URL=postgres://b", "BIRTHDAYD_DATABASE_URL=postgres://a"}, "postgres://a"},
		"the common one serves":                     {nil, []string{"DATABASE_URL=postgres://b"}, "postgres://b"},
		"an empty flag refuses both":                {[]string{"-database-url="}, []string{"DATABASE_URL=postgres://b"}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := parse(append(tt.args, "-demo"), environment(tt.env...))
			if err != nil || c.databaseURL != tt.want {
				t.Errorf("parse(%q, %q) = %q, %v; want %q", tt.args, tt.env, c.databaseURL, err, tt.want)
			}
		})
	}
}

func TestTheDemoLogsNothingByDefault(t *testing.T) {
	t.Parallel()
	for level, args := range map[slog.Level][]string{
		slog.LevelWarn:  {"-demo"},
		slog.LevelDebug: {"-log-level", "debug", "-demo"},
	} {
		if c, err := parse(args, environment()); err != nil || c.log.level != level {
			t.Errorf("parse(%q) logs from %v, %v; want %v", args, c.log.level, err, level)
		}
	}
}

func TestEveryBadSettingIsNamed(t *testing.T) {
	t.Parallel()
	const hook = "-webhook-url=https://example.com/"
	tests := map[string]struct {
		args, env []string
		want      []string
	}{
		"no settings": {nil, nil, []string{"-webhook-url is required, except with -demo or -smtp"}},
		"everything is wrong": {
			[]string{"-addr", "8080", "-deliver-at", "9am", "-log-format", "xml", "-log-level", "loud", "-demo=perhaps", "-lease", "1s", "left"},
			[]string{"BIRTHDAYD_WORKERS=none", "BIRTHDAYD_ATTEMPTS=0", "BIRTHDAYD_API_RATE=-1", "BIRTHDAYD_RETRY_FIRST=soon"},
			[]string{
				`-addr: "8080" is not of the form host:port`, `-deliver-at: "9am" is not a time of day`, `-log-format: "xml"`,
				`-log-level: "loud"`, `-demo: "perhaps" is neither true nor false`, `-lease: "1s" is not a duration of at least 3s`,
				`unexpected argument "left"`, `BIRTHDAYD_WORKERS: "none"`, `BIRTHDAYD_ATTEMPTS: "0"`, `BIRTHDAYD_API_RATE: "-1" is not a whole number from 0 to 1000000`, `BIRTHDAYD_RETRY_FIRST: "soon"`,
				"-webhook-url is required",
			},
		},
		"an unknown flag":              {[]string{"-webhok-url", "x"}, nil, []string{"-webhok-url"}},
		"a port that is none":          {[]string{hook, "-addr", "127.0.0.1:http"}, nil, []string{`-addr: "http" is not a port`}},
		"no token for all addresses":   {[]string{hook, "-addr", ":8080"}, nil, []string{"-api-token is required on :8080"}},
		"no token for another machine": {[]string{hook, "-addr", "192.0.2.1:80"}, nil, []string{"-api-token is required"}},
		"no token for a name":          {[]string{hook, "-addr", "localhost.example.com:80"}, nil, []string{"-api-token is required"}},
		"no URL of a receiver":         {[]string{"-webhook-url", "example.com"}, nil, []string{"-webhook-url, -webhook-secret, -webhook-template, -webhook-cloudevents: webhook:"}},
		"no secret":                    {[]string{hook, "-webhook-secret", "whsec_§"}, nil, []string{"-webhook-url, -webhook-secret, -webhook-template, -webhook-cloudevents: webhook:"}},
		"no URL of a database":         {[]string{hook, "-database-url", "postgres://u:hunter2@h:port/"}, nil, []string{"-database-url: "}},
		"no place for data":            {[]string{hook, "-data-dir="}, nil, []string{"-data-dir is empty"}},
		"a short token for others":     {[]string{hook, "-addr", ":80", "-api-token", "0123456789abcde"}, nil, []string{"-api-token has 15 bytes; on :80, which others can reach, it needs at least 16"}},
		"a short token for metrics":    {[]string{hook, "-addr", "192.0.2.1:80", "-api-token", "0123456789abcdef", "-metrics-token", "short"}, nil, []string{"-metrics-token has 5 bytes"}},
		"no place for a demo's data":   {[]string{"-demo", "-data-dir="}, nil, []string{"-data-dir is empty: name a directory for the data of birthdayd's own PostgreSQL, or another PostgreSQL by -database-url"}},
		"plain http":                   {[]string{"-webhook-url", "http://example.com/"}, nil, []string{"plain http is sent only with -webhook-allow-private"}},
		"two policies of retries":      {[]string{hook, "-patient-retry", "-attempts", "5"}, nil, []string{"-patient-retry has attempts and waits of its own"}},
		"attributes without a name":    {[]string{hook, "-webhook-attributes", "a,,b"}, nil, []string{`-webhook-attributes: "a,,b" is not a list`}},
		"attributes named twice":       {[]string{hook, "-webhook-attributes", "a,a"}, nil, []string{`-webhook-attributes: "a,a" is not a list`}},
		"a source missing":             {[]string{hook, "-webhook-cloudevents-type", "x."}, nil, []string{"-webhook-cloudevents-type is of no use without -webhook-cloudevents"}},
		"two forms":                    {[]string{hook, "-webhook-cloudevents", "/x", "-webhook-template", "testdata/chat.json"}, nil, []string{"more than one of WithTemplate and WithCloudEvents"}},
		"a template that is missing":   {[]string{hook, "-webhook-template", "testdata/none"}, nil, []string{"template: open testdata/none"}},
		"mail without a server":        {[]string{hook, "-mail-from", "a@example.com"}, nil, []string{"of no use without -smtp"}},
		"mail without what it needs":   {[]string{"-smtp", "mail.example.com:587"}, nil, []string{`-mail-from: "" is not an address`, "-mail-templates is required with -smtp"}},
		"templates of one type":        {[]string{"-smtp", "mail.example.com:587", "-mail-from", "a@example.com", "-mail-templates", "../mail/templates", "-anniversary", "hired"}, nil, []string{"has no template ANNIVERSARY.txt"}},
		"no server of mail":            {[]string{"-smtp", "example.com", "-mail-from", "a@example.com", "-mail-templates", "../mail/templates", "-smtp-encryption", "rot13"}, nil, []string{`-smtp, -mail-from: almanacmail: server "example.com" is not host:port`}},
		"a demo with mail":             {[]string{"-demo", "-smtp", "mail.example.com:587"}, nil, []string{"-demo sends no mails"}},
		"an anniversary of the hour":   {[]string{hook, "-anniversary", "deliverAt"}, nil, []string{`-anniversary: "deliverAt" has the time of day`}},
		"quiet hours without an end":   {[]string{hook, "-quiet-hours", "22:00"}, nil, []string{`-quiet-hours: "22:00" is not of the form HH:MM-HH:MM`}},
		"quiet hours of a clock's":     {[]string{hook, "-quiet-hours", "22:00-25:00"}, nil, []string{`-quiet-hours: "22:00-25:00" is not`}},
		"empty quiet hours":            {[]string{hook, "-quiet-hours", "07:00-07:00"}, nil, []string{"with two different times of day"}},
		"a demo with quiet hours":      {[]string{"-demo", "-quiet-hours", "22:00-07:00"}, nil, []string{"-demo greets at every hour"}},
		"a demo with hours":            {[]string{"-demo", "-hours", "Mo-Fr 09:00-18:00"}, nil, []string{"-demo greets at every hour"}},
		"two windows":                  {[]string{hook, "-hours", "Mo-Fr 09:00-18:00", "-quiet-hours", "22:00-07:00"}, nil, []string{"-quiet-hours and -hours do not go together"}},
		"hours of no day":              {[]string{hook, "-hours", "Mo-Fr 09:00-18:00; Xx 10:00-14:00"}, nil, []string{`-hours: calendar: rule 2`}},
		"a default zone that is none":  {[]string{hook, "-default-zone", "PST"}, nil, []string{`-default-zone: calendar: "PST" is not a known time zone; did you mean "America/Los_Angeles"?`}},
		"two ends":                     {[]string{hook, "-once", "-backfill"}, nil, []string{"-once and -backfill do not go together"}},
		"a receiver without a URL":     {[]string{"-webhook-secret", secret, "-smtp", "mail.example.com:587", "-mail-from", "a@example.com", "-mail-templates", "../mail/templates"}, nil, []string{"-webhook-url is required with other -webhook flags"}},
		"two receivers":                {[]string{"-demo", hook}, nil, []string{"-demo has a receiver of its own"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parse(tt.args, environment(tt.env...))
			if err == nil {
				t.Fatalf("parse(%q) has no complaint", tt.args)
			}
			for _, complaint := range tt.want {
				if !strings.Contains(err.Error(), complaint) {
					t.Errorf("parse(%q) does not complain %q:\n%v", tt.args, complaint, err)
				}
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("parse(%q) tells the password:\n%v", tt.args, err)
			}
		})
	}
}

func TestTheReceiverMayListenAtAnyPort(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"-webhook-url", "https://example.com/"},
		{"-webhook-url", "https://example.com:8443/"},
		{"-webhook-url", "https://93.184.216.34:8443/"},
		{"-webhook-url", "http://localhost/", "-webhook-allow-private"},
		{"-webhook-url", "http://localhost:9000/", "-webhook-allow-private"},
	} {
		if _, err := parse(args, environment()); err != nil {
			t.Errorf("parse(%q): %v", args, err)
		}
	}
	for _, url := range []string{"https://example.com:0/", "https://example.com:65536/"} {
		if _, err := parse([]string{"-webhook-url", url}, environment()); err == nil {
			t.Errorf("%s is accepted", url)
		}
	}
}

func TestBadSettingsExitWithTheUsageCode(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"-workers", "0"}, environment(), streams{&out, &errs})
	if code != exitUsage || out.Len() > 0 || !strings.HasPrefix(errs.String(), "birthdayd: -workers: ") {
		t.Errorf("run = %d, printed %q and %q; want %d and a complaint", code, &out, &errs, exitUsage)
	}
}

func TestLoopbackNeedsNoToken(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"127.0.0.1:80", "127.8.9.1:0", "[::1]:8080", "localhost:8080"} {
		if _, err := parse([]string{"-demo", "-addr", addr}, environment()); err != nil {
			t.Errorf("-addr %s: %v", addr, err)
		}
	}
	if _, err := parse([]string{"-demo", "-addr", ":80"}, environment("BIRTHDAYD_API_TOKEN=0123456789abcdef")); err != nil {
		t.Errorf("-addr :80 with a token: %v", err)
	}
}

func TestHelpListsEveryFlagWithItsVariable(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"-h"}, environment(), streams{&out, &errs}); code != exitOK || errs.Len() > 0 {
		t.Fatalf("run(-h) = %d: %s", code, &errs)
	}
	flags := []string{"addr", "anniversary", "api-rate", "api-token", "attempts", "backfill", "config", "dashboard", "dashboard-names", "data-dir", "database-url", "default-zone", "deliver-at", "demo", "hours", "lease", "link-secret", "log-format", "log-level",
		"mail-from", "mail-locale", "mail-templates", "metrics", "metrics-token", "once", "patient-retry", "public-url", "quiet-hours", "retry-first", "shutdown-delay",
		"smtp", "smtp-encryption", "smtp-password", "smtp-username", "version", "webhook-allow-private", "webhook-attributes", "webhook-cloudevents",
		"webhook-cloudevents-type", "webhook-secret", "webhook-template", "webhook-url", "workers"}
	for _, flag := range flags {
		variable := "BIRTHDAYD_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
		named := flag == "version" || flag == "once" || flag == "backfill" || strings.Contains(out.String(), " "+variable)
		if !strings.Contains(out.String(), "\n  -"+flag+" ") || !named {
			t.Errorf("-h does not tell of -%s and %s", flag, variable)
		}
	}
	if got, want := len((&config{}).settings()), len(flags); got != want {
		t.Errorf("%d flags, but %d are looked for", got, want)
	}
	// The length of a home directory's name varies between machines.
	for line := range strings.Lines(strings.ReplaceAll(out.String(), defaultDataDir(), "")) {
		if len(line) > 120 {
			t.Errorf("a line of %d characters: %s", len(line), line)
		}
	}
}

func TestVersionIsPrinted(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if code := run(t.Context(), []string{"-version"}, environment(), streams{&out, &out}); code != exitOK || !strings.HasPrefix(out.String(), "birthdayd ") {
		t.Errorf("run(-version) = %d, %q", code, &out)
	}
}

func TestMisspeltVariablesAreRefused(t *testing.T) {
	t.Parallel()
	good := []string{"BIRTHDAYD_WEBHOOK_URL=x", "DATABASE_URL=y", "PATH=/bin", "birthdayd_x=1", "BIRTHDAYD_SERVICE_HOST=10.0.0.1", "BIRTHDAYD_PORT_8080_TCP=x"}
	if err := misspelt(good); err != nil {
		t.Error(err)
	}
	const want = "BIRTHDAYD_WEBHOOK_SECRT: there is no such setting\nBIRTHDAYD_ONCE: there is no such setting"
	if err := misspelt(append(good, "BIRTHDAYD_WEBHOOK_SECRT=x", "BIRTHDAYD_ONCE=true")); err == nil || err.Error() != want {
		t.Errorf("%v; want %s", err, want)
	}
}

func TestAnUnknownFlagIsTheOnlyComplaint(t *testing.T) {
	t.Parallel()
	_, err := parse([]string{"-adr", "x"}, func(string) (string, bool) { return "", false })
	if want := "flag provided but not defined: -adr"; err == nil || err.Error() != want {
		t.Errorf("%v; want %s", err, want)
	}
}
