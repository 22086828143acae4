package main

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/almanac-go/almanac/calendar"
)

// take stores a value in a field unchanged.
func take(field *string) func(string) error {
	return func(text string) error {
		*field = text
		return nil
	}
}

func takeSwitch(field *bool) func(string) error {
	return func(text string) (err error) {
		if *field, err = strconv.ParseBool(text); err != nil {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		return nil
	}
}

func takeCount(field *int) func(string) error {
	return func(text string) (err error) {
		if *field, err = strconv.Atoi(text); err != nil || *field < 1 {
			return fmt.Errorf("%q is not a whole number of at least 1", text)
		}
		return nil
	}
}

func takeNumber(field *int, least, most int) func(string) error {
	return func(text string) (err error) {
		if *field, err = strconv.Atoi(text); err != nil || *field < least || *field > most {
			return fmt.Errorf("%q is not a whole number from %d to %d", text, least, most)
		}
		return nil
	}
}

func takeDuration(field *time.Duration, least time.Duration) func(string) error {
	return func(text string) (err error) {
		if *field, err = time.ParseDuration(text); err != nil || *field < least {
			return fmt.Errorf("%q is not a duration of at least %v, such as 10s", text, least)
		}
		return nil
	}
}

func (c *config) takeAddr(text string) error {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return fmt.Errorf("%q is not of the form host:port", text)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%q is not a port", port)
	}
	c.api.addr = text
	return nil
}

// onLoopback reports whether only this machine can reach the address. The only accepted
// name is localhost, because other names may resolve to any address.
func onLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

func (g *greetingConfig) takeAt(text string) error {
	at, err := calendar.ParseClock(text)
	if err != nil {
		return fmt.Errorf("%q is not a time of day of the form HH:MM or HH:MM:SS", text)
	}
	g.at = at
	return nil
}

func (g *greetingConfig) takeQuiet(text string) error {
	g.quiet = calendar.QuietHours{}
	if text == "" {
		return nil
	}
	var err error
	if g.quiet, err = calendar.ParseQuietHours(text); err != nil {
		return fmt.Errorf("%q is not of the form HH:MM-HH:MM, with two different times of day", text)
	}
	return nil
}

func (g *greetingConfig) takeAnniversary(text string) error {
	if text == deliverAt {
		return fmt.Errorf("%q has the time of day", text)
	}
	g.anniversary = text
	return nil
}

func (l *logConfig) takeFormat(text string) error {
	if text != "text" && text != "json" {
		return fmt.Errorf("%q is neither text nor json", text)
	}
	l.json = text == "json"
	return nil
}

// takeLogLevel must follow the switch -demo, which changes the default: the demo shows the
// greetings themselves.
func (c *config) takeLogLevel(text string) error {
	if text == "" {
		c.log.level = slog.LevelInfo
		if c.demo {
			c.log.level = slog.LevelWarn
		}
		return nil
	}
	if err := c.log.level.UnmarshalText([]byte(text)); err != nil {
		return fmt.Errorf("%q is not debug, info, warn or error", text)
	}
	return nil
}

// defaultDataDir returns the system's directory for data of services for root, and
// otherwise the user's data directory. It returns "" when that is unknown.
func defaultDataDir() string {
	const ours = "almanac/birthdayd"
	if os.Geteuid() == 0 {
		return filepath.Join("/var/lib", ours)
	}
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, ours)
	}
	if runtime.GOOS == "darwin" || runtime.GOOS == "windows" {
		dir, err := os.UserConfigDir()
		if err != nil {
			return ""
		}
		return filepath.Join(dir, ours)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".local/share", ours)
}
