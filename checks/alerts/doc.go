// Package alerts has no code of its own: its tests give the alerting rules of
// contrib/prometheus to Prometheus, whose programs prometheus and promtool
// must be installed.
package alerts
