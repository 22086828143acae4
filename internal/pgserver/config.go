package pgserver

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Config is the configuration of the server that [Start] starts.
type Config struct {
	// Binaries are the programs to run. For the zero Binaries, Start uses those of [Find],
	// preferring a version that fits an existing cluster.
	Binaries Binaries
	// Dir is the directory of the cluster and its files. It is created if missing. Empty
	// means a new temporary directory that is removed at Stop: under TMPDIR if that is set,
	// else in memory if the cluster need not be durable and the system has room there, else
	// where the system keeps temporary files.
	Dir string
	// Durable makes commits survive a crash of the machine. Without it the server is
	// faster, and a crash of the machine may damage the cluster.
	Durable bool
	// MaxConnections is how many clients may be connected; 0 means 100.
	MaxConnections int
	// Settings are further server settings by name. Start refuses the settings that this
	// package sets: where the server listens and what it serves.
	Settings map[string]string
	// Log receives joined servers at Info, and started and stopped servers at Debug. Nil
	// discards them.
	Log *slog.Logger
}

// check refuses settings that this package must control.
func (c Config) check() error {
	var errs []error
	if c.MaxConnections < 0 {
		errs = append(errs, fmt.Errorf("pgserver: %d connections", c.MaxConnections))
	}
	ours := []string{"data_directory", "hba_file", "ident_file", "listen_addresses", "logging_collector",
		"max_connections", "port", "unix_socket_directories"}
	for name := range c.Settings {
		if slices.Contains(ours, strings.ToLower(name)) {
			errs = append(errs, fmt.Errorf("pgserver: setting %q cannot be chosen", name))
		}
	}
	return errors.Join(errs...)
}

// settings are all settings of the server, the caller's last.
func (c Config) settings(port int) map[string]string {
	settings := map[string]string{
		"listen_addresses":        "127.0.0.1",
		"port":                    strconv.Itoa(port),
		"unix_socket_directories": "",
		"max_connections":         "100",
		"timezone":                "UTC",
		"log_timezone":            "UTC",
	}
	if c.MaxConnections > 0 {
		settings["max_connections"] = strconv.Itoa(c.MaxConnections)
	}
	if !c.Durable {
		maps.Copy(settings, map[string]string{
			"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off",
		})
	}
	for name, value := range c.Settings {
		settings[strings.ToLower(name)] = value
	}
	return settings
}
