package almanacprom

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/almanac-go/almanac"
)

// quarantine returns the reading of the releases that wait for an operator.
func (b *Backlog) quarantine() reading {
	labels := []string{"release", "name", "kind"}
	events := prometheus.NewDesc("almanac_quarantine_events",
		"Pending events that a release of zone rules or of a calendar would change, which waits for an operator.", labels, nil)
	first := prometheus.NewDesc("almanac_quarantine_first_timestamp_seconds",
		"When the first event starts at a wrong time, if the release is right and still waits then.", labels, nil)
	return reading{"quarantine", []*prometheus.Desc{events, first}, func(ctx context.Context) (metrics []prometheus.Metric, err error) {
		book, err := b.store.ZoneRules(ctx)
		for _, q := range book.Quarantines {
			if !q.Waits() {
				continue
			}
			metrics = append(metrics, gaugeOf(events, float64(q.Events), q.Release, q.Name, kindOf(q)))
			if !q.FirstAt.IsZero() {
				metrics = append(metrics, gaugeOf(first, float64(q.FirstAt.Unix()), q.Release, q.Name, kindOf(q)))
			}
		}
		return metrics, err
	}}
}

func kindOf(q almanac.Quarantine) string {
	if q.Calendar {
		return "calendar"
	}
	return "zone"
}
