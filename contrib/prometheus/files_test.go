package almanacprom_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/almanac-go/almanac"
	almanacprom "github.com/almanac-go/almanac/contrib/prometheus"
)

// lines are what a scrape shows, without comments.
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

// everything is a registry with all collectors of the package.
func everything(t *testing.T) *prometheus.Registry {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	events := almanacprom.NewEvents(registryOf(t, almanac.Birthday{}))
	registry.MustRegister(events, almanacprom.NewHealth(new(condition)), backlogOf(t, new(store)))
	return registry
}

// described are all metrics by name, each as the README has it: its type, and its
// labels.
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

// named are the metrics that an expression names. Label values have been taken out,
// where anything may stand.
func named(expression string) []string {
	bare := regexp.MustCompile(`"[^"]*"`).ReplaceAllString(expression, "")
	return regexp.MustCompile(`\balmanac_[a-z_]+`).FindAllString(bare, -1)
}

// checkExpression wants every metric that an expression names to exist, and at least
// one.
func checkExpression(t *testing.T, expression string, exist map[string]string) {
	t.Helper()
	names := named(expression)
	require.NotEmpty(t, names, expression)
	for _, name := range names {
		if of, part := strings.CutSuffix(name, "_bucket"); part {
			require.True(t, strings.HasPrefix(exist[of], "histogram"), "%s in %s", name, expression)
			continue
		}
		if of, part := strings.CutSuffix(name, "_count"); part && exist[name] == "" {
			require.True(t, strings.HasPrefix(exist[of], "histogram"), "%s in %s", name, expression)
			continue
		}
		require.Contains(t, exist, name, expression)
	}
	for _, pair := range []string{"()", "[]", "{}"} {
		require.Equal(t, strings.Count(expression, pair[:1]), strings.Count(expression, pair[1:]), "%s in %s", pair, expression)
	}
}

// rules is the form of a file of rules.
type rules struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr, For    string
			KeepFiringFor       string `yaml:"keep_firing_for"`
			Labels, Annotations map[string]string
		}
	}
}

func TestAlertsAreAboutMetricsThatExist(t *testing.T) {
	t.Parallel()
	decoder := yaml.NewDecoder(bytes.NewReader(read(t, "alerts.yml")))
	decoder.KnownFields(true)
	var file rules
	require.NoError(t, decoder.Decode(&file))
	exist, alerts := described(t), make(map[string]bool)
	for _, group := range file.Groups {
		require.NotEmpty(t, group.Name)
		for _, rule := range group.Rules {
			require.Regexp(t, `^Almanac[A-Za-z]+$`, rule.Alert)
			require.False(t, alerts[rule.Alert], "%s is there twice", rule.Alert)
			alerts[rule.Alert] = true
			checkExpression(t, rule.Expr, exist)
			require.Contains(t, []string{"critical", "warning"}, rule.Labels["severity"], rule.Alert)
			require.Equal(t, []string{"description", "runbook", "summary"}, slices.Sorted(maps.Keys(rule.Annotations)), rule.Alert)
			for name, text := range rule.Annotations {
				require.Greater(t, len(text), 10, "%s of %s", name, rule.Alert)
			}
		}
	}
	require.Len(t, alerts, 10)
}

// panel is a part of a dashboard, or a row of them.
type panel struct {
	Type, Title, Description string
	GridPos                  struct{ X, Y, W, H int }
	Targets                  []struct{ Expr, LegendFormat string }
}

func TestTheDashboardShowsMetricsThatExist(t *testing.T) {
	t.Parallel()
	var dashboard struct {
		Title, UID string
		Panels     []panel
	}
	require.NoError(t, json.Unmarshal(read(t, "dashboards/almanac.json"), &dashboard))
	require.NotEmpty(t, dashboard.Title)
	exist, shown, taken := described(t), make(map[string]bool), make(map[[2]int]string)
	for _, p := range dashboard.Panels {
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				require.Empty(t, taken[[2]int{x, y}], "%s lies on another", p.Title)
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		require.NotEmpty(t, p.Targets, p.Title)
		require.NotEmpty(t, p.Description, p.Title)
		for _, target := range p.Targets {
			checkExpression(t, target.Expr, exist)
			for _, name := range named(target.Expr) {
				shown[strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count")] = true
			}
		}
	}
	for name := range exist {
		require.True(t, shown[name], "%s is on no panel", name)
	}
}
