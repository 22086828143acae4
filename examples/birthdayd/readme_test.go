package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	return string(text)
}

func TestTheManualHasEveryFlagWithItsDefault(t *testing.T) {
	t.Parallel()
	text := readme(t)
	for _, s := range (&config{}).settings() {
		row := regexp.MustCompile("(?m)^\\| `-" + s.name + "`.*$").FindString(text)
		require.NotEmpty(t, row, "-%s has no row", s.name)
		if s.preset != "" && s.name != "data-dir" && s.name != "version" {
			require.Contains(t, row, "| `"+s.preset+"` |")
		}
	}
}

func TestTheFileOfTheManualIsAccepted(t *testing.T) {
	t.Parallel()
	found := regexp.MustCompile("(?s)```json\n(.*?)```").FindStringSubmatch(readme(t))
	require.NotNil(t, found)
	c, err := parse([]string{"-config", written(t, found[1], 0o600)}, environment())
	require.NoError(t, err)
	require.Len(t, c.handlers(), 2)
	require.Equal(t, "https://hr.example.com/hook", c.receivers["ANNIVERSARY"].url)
}

// The commands of the manual have flags that exist, and settings that are accepted.
func TestTheCommandsOfTheManualAreAccepted(t *testing.T) {
	t.Parallel()
	text := strings.ReplaceAll(readme(t), "\\\n", "")
	commands := regexp.MustCompile(`(?m)^    \./birthdayd (.*)$`).FindAllStringSubmatch(text, -1)
	require.Greater(t, len(commands), 6)
	template := written(t, `{"text": "{{.Payload.message}}"}`, 0o600)
	file := written(t, `{"webhook-url": "https://example.com/"}`, 0o600)
	for _, c := range commands {
		line := strings.NewReplacer("'Acme <birthdays@example.com>'", "birthdays@example.com", "examples/mail/templates", "../mail/templates",
			"chat.json", template, "/etc/birthdayd.json", file).Replace(c[1])
		_, err := parse(strings.Fields(line), environment("BIRTHDAYD_API_TOKEN=0123456789abcdef", "BIRTHDAYD_WEBHOOK_SECRET="+secret, "BIRTHDAYD_DATA_DIR=/x"))
		if strings.Contains(line, "-smtp ") { // the secret of a webhook is of no use there
			_, err = parse(strings.Fields(line), environment("BIRTHDAYD_SMTP_PASSWORD=hunter2"))
		}
		if strings.Contains(line, "-public-url ") {
			_, err = parse(strings.Fields(line), environment("BIRTHDAYD_LINK_SECRET="+linkSecret))
		}
		require.NoError(t, err, line)
	}
}

func TestTheScrapesOfTheManualAreYAML(t *testing.T) {
	t.Parallel()
	_, rest, found := strings.Cut(readme(t), "    scrape_configs:\n")
	require.True(t, found)
	block, _, _ := strings.Cut("    scrape_configs:\n"+rest, "\n\n")
	var config struct {
		Scrapes []struct {
			Name          string `yaml:"job_name"`
			Authorization struct {
				File string `yaml:"credentials_file"`
			}
		} `yaml:"scrape_configs"`
	}
	require.NoError(t, yaml.Unmarshal([]byte(block), &config))
	require.Len(t, config.Scrapes, 1)
	require.Equal(t, "birthdayd", config.Scrapes[0].Name)
	require.Equal(t, "/etc/prometheus/birthdayd-token", config.Scrapes[0].Authorization.File)
}
