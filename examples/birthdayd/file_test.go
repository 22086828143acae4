package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// written writes a file of settings and returns its path.
func written(t *testing.T, text string, mode fs.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "birthdayd.json")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	require.NoError(t, os.Chmod(path, mode)) // whatever the umask
	return path
}

func TestTheFileYieldsToVariablesAndFlags(t *testing.T) {
	t.Parallel()
	path := written(t, `{
		"webhook-url": "https://example.com/file", "webhook-secret": "`+secret+`",
		"workers": 5, "attempts": 6, "patient-retry": false, "retry-first": "1m", "metrics": false,
		"receivers": {"BIRTHDAY": {"url": "https://example.com/own", "cloudevents": "/greetings", "cloudevents-type": "com.example."}}
	}`, 0o640)
	c, err := parse([]string{"-config", path, "-workers", "7"}, environment("BIRTHDAYD_WORKERS=8", "BIRTHDAYD_ATTEMPTS=9"))
	require.NoError(t, err)
	require.Equal(t, 7, c.greeting.workers)
	require.Equal(t, 9, c.greeting.attempts)
	require.Equal(t, time.Minute, c.greeting.retryFirst)
	require.False(t, c.metrics.on)
	require.Equal(t, hookConfig{url: "https://example.com/file", secret: secret}, c.hook)
	require.Equal(t, map[string]hookConfig{"BIRTHDAY": {url: "https://example.com/own", source: "/greetings", typePrefix: "com.example."}}, c.receivers)

	c, err = parse(nil, environment("BIRTHDAYD_CONFIG="+path))
	require.NoError(t, err)
	require.Equal(t, 5, c.greeting.workers)
}

func TestEveryBadEntryOfTheFileIsNamedWithItsPlace(t *testing.T) {
	t.Parallel()
	path := written(t, `{
		"workers": "none",
		"wrokers": 3,
		"once": true,
		"config": "other.json",
		"attempts": {"most": 3},
		"lease": 60,
		"webhook-url": "http://example.com/",
		"receivers": {
			"BIRTHDAY": {"url": "https://example.com/",
				"template": "none.json", "colour": "red",
				"allow-private": "perhaps"},
			"WEDDING": {"url": "http://example.com/", "cloudevents-type": "x"},
			"ANNIVERSARY": "https://example.com/"
		}
	}`, 0o600)
	_, err := parse([]string{"-config", path}, environment("BIRTHDAYD_LOG_LEVEL=loud"))
	require.Error(t, err)
	for _, want := range []string{
		`:2: workers: "none" is not a whole number`,
		`:3: wrokers: there is no such setting`,
		`:4: once: there is no such setting`,
		`:5: config: there is no such setting`,
		`:6: attempts: is an object`,
		`:7: lease: "60" is not a duration`,
		`plain http is sent only with -webhook-allow-private`,
		`:10: receivers.BIRTHDAY: template: open none.json`,
		`:11: receivers.BIRTHDAY.colour: there is no such setting`,
		`:12: receivers.BIRTHDAY.allow-private: "perhaps" is neither true nor false`,
		`:13: receivers.WEDDING: plain http is sent only with allow-private`,
		`:13: receivers.WEDDING: cloudevents-type is of no use without cloudevents`,
		`receivers.WEDDING: there is no event type "WEDDING" with webhooks; there are ["BIRTHDAY"]`,
		`:14: receivers.ANNIVERSARY: is not an object`,
		`BIRTHDAYD_LOG_LEVEL: "loud"`,
	} {
		require.ErrorContains(t, err, want)
	}
	require.Equal(t, 1, strings.Count(err.Error(), ":6: attempts"), "one complaint about one entry: %v", err)
}

func TestAFileThatIsNoSettingsIsRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                        ":1: the file ends before the object does",
		"[]":                      ":1: there is a list",
		"3":                       ":1: there is no object",
		`{"workers": 3`:           ":1: the file ends before the object does",
		"{\n\"workers\": [3]}":    ":2: there is a list",
		"{\n\"workers\": null}":   ":2: there is null",
		"{\n\"a\": 1,\n\"a\": 2}": `:3: the key "a" is there twice`,
		"{}\n{}":                  ":2: something follows the object",
		"workers: 3":              ":1: invalid character 'w'",
		`{"a": "` + strings.Repeat("x", maxFile) + `"}`: "is longer than 1048576 bytes",
	} {
		_, err := parse([]string{"-config", written(t, text, 0o600)}, environment())
		require.ErrorContains(t, err, "-config: ")
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "is required", "its settings are not known")
	}
	_, err := parse(nil, environment("BIRTHDAYD_CONFIG=/none/birthdayd.json"))
	require.ErrorContains(t, err, "BIRTHDAYD_CONFIG: ")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestAFileWithSecretsIsNotForEverybody(t *testing.T) {
	t.Parallel()
	const url = `"webhook-url": "https://example.com/"`
	const own = `"receivers": {"BIRTHDAY": {"url": "https://example.com/", "secret": "` + secret + `"}}`
	for text, want := range map[string]string{
		`{` + url + `, "webhook-secret": "` + secret + `"}`:                   ":1: webhook-secret: is a secret, and every user of this machine can read the file: chmod o-r ",
		`{` + url + `, ` + own + `}`:                                          ":1: receivers.BIRTHDAY.secret: is a secret",
		`{` + url + `, "database-url": "postgres://a:hunter2@example.com/x"}`: ":1: database-url: is a secret",
		`{` + url + `, "api-token": "0123456789abcdef"}`:                      ":1: api-token: is a secret",
		`{` + url + `, "metrics-token": "0123456789abcdef"}`:                  ":1: metrics-token: is a secret",
		`{` + url + `, "smtp-password": "hunter2"}`:                           ":1: smtp-password: is a secret",
		`{` + url + `, "link-secret": "hunter2"}`:                             ":1: link-secret: is a secret",
		`{` + url + `}`: "",
	} {
		_, err := parse([]string{"-config", written(t, text, 0o644)}, environment())
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "hunter2")
		_, err = parse([]string{"-config", written(t, text, 0o640)}, environment())
		if !strings.Contains(text, "smtp-password") && !strings.Contains(text, "link-secret") { // which need other settings
			require.NoError(t, err)
		}
	}
}

func TestEachTypeNeedsAReceiver(t *testing.T) {
	t.Parallel()
	const birthday, anniversary = `"BIRTHDAY": {"url": "https://example.com/a"}`, `"ANNIVERSARY": {"url": "https://example.com/b"}`
	_, err := parse([]string{"-anniversary", "hired", "-config", written(t, `{"receivers": {`+birthday+`}}`, 0o600)}, environment())
	require.ErrorContains(t, err, "-webhook-url is required: event type ANNIVERSARY has no receiver of its own")
	_, err = parse([]string{"-anniversary", "hired", "-config", written(t, `{"receivers": {`+birthday+`, `+anniversary+`}}`, 0o600)}, environment())
	require.NoError(t, err)
}
