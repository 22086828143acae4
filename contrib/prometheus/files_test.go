package almanacprom_test

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/almanac-go/almanac"
	almanacprom "github.com/almanac-go/almanac/contrib/prometheus"
	"github.com/almanac-go/almanac/ops"
)

// lines returns the metrics of a scrape, without comments.
func lines(t *testing.T, g prometheus.Gatherer) []string {
	t.Helper()
	families, err := g.Gather()
	require.NoError(t, err)
	var text bytes.Buffer
	for _, family := range families {
		_, err := expfmt.MetricFamilyToText(&text, family)
		require.NoError(t, err)
	}
	var shown []string
	for line := range strings.Lines(text.String()) {
		if !strings.HasPrefix(line, "#") {
			shown = append(shown, strings.TrimSpace(line))
		}
	}
	return shown
}

// everything returns a registry with all collectors of the package.
func everything(t *testing.T) *prometheus.Registry {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	events := almanacprom.NewEvents(registryOf(t, almanac.Birthday{}))
	registry.MustRegister(events, almanacprom.NewHealth(new(condition)), backlogOf(t, &store{
		loads: []ops.LaneLoad{{Lane: almanac.Lane{Name: "BIRTHDAY", Rate: 50, Burst: 2}}},
		book:  almanac.ZoneBook{Quarantines: []almanac.Quarantine{{Name: "Africa/Cairo", Release: "2026c", Events: 7, FirstAt: time.Unix(1, 0)}}},
	}))
	return registry
}

// described returns the type and labels of each metric by name, as the README has them.
func described(t *testing.T) map[string]string {
	t.Helper()
	families, err := everything(t).Gather()
	require.NoError(t, err)
	found := make(map[string]string)
	for _, family := range families {
		var labels []string
		for _, label := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, "`"+label.GetName()+"`")
		}
		slices.SortFunc(labels, func(a, b string) int { return strings.Compare(b, a) }) // type comes first
		found[family.GetName()] = strings.ToLower(family.GetType().String()) + " | " + strings.Join(labels, ", ")
	}
	return found
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return text
}

func TestNamesFollowTheConventions(t *testing.T) {
	t.Parallel()
	problems, err := testutil.GatherAndLint(everything(t))
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestTheTableHasEveryMetric(t *testing.T) {
	t.Parallel()
	rows := regexp.MustCompile("(?m)^\\| `(almanac_[a-z_]+)` \\| ([a-z]+) \\| (.*?) ?\\| [^|]+ \\|$").FindAllSubmatch(read(t, "README.md"), -1)
	table := make(map[string]string)
	for _, row := range rows {
		table[string(row[1])] = string(row[2]) + " | " + string(row[3])
	}
	require.Equal(t, described(t), table)
}

// known returns the types of all metrics.
func known(t *testing.T) metrics {
	t.Helper()
	types := make(metrics)
	for name, row := range described(t) {
		types[name], _, _ = strings.Cut(row, " ")
	}
	return types
}

func TestAlertsAreAboutMetricsThatExist(t *testing.T) {
	t.Parallel()
	decoder := yaml.NewDecoder(bytes.NewReader(read(t, "alerts.yml")))
	decoder.KnownFields(true)
	var file rules
	require.NoError(t, decoder.Decode(&file))
	known(t).checkAlerts(t, file, 25)
	file.checkLimits(t)
}

func TestTheDashboardShowsMetricsThatExist(t *testing.T) {
	t.Parallel()
	known(t).checkDashboard(t, "dashboards/almanac.json")
}
