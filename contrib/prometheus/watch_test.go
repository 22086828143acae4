package almanacprom_test

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// metrics has the type of each metric by name: counter, gauge or histogram.
type metrics map[string]string

// rules is the format of a rules file.
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

// checkAlerts checks that there are count alerts. Each must use existing metrics and have a
// severity, a summary, a description, and instructions for when it fires.
func (m metrics) checkAlerts(t *testing.T, file rules, count int) {
	t.Helper()
	alerts := make(map[string]bool)
	for _, group := range file.Groups {
		require.NotEmpty(t, group.Name)
		for _, rule := range group.Rules {
			require.Regexp(t, `^Almanac[A-Za-z]+$`, rule.Alert)
			require.False(t, alerts[rule.Alert], "%s is there twice", rule.Alert)
			alerts[rule.Alert] = true
			m.checkExpression(t, rule.Expr)
			require.Contains(t, []string{"critical", "warning"}, rule.Labels["severity"], rule.Alert)
			require.Equal(t, []string{"description", "runbook", "summary"}, slices.Sorted(maps.Keys(rule.Annotations)), rule.Alert)
			for name, text := range rule.Annotations {
				require.Greater(t, len(text), 10, "%s of %s", name, rule.Alert)
				for _, known := range names(text) {
					require.True(t, m.exists(known), "%s in %s of %s", known, name, rule.Alert)
				}
			}
		}
	}
	require.Len(t, alerts, count)
}

// limit is the metric of a rule, its threshold and its severity.
type limit struct{ of, above, severity string }

// checkLimits checks the thresholds of the rules about claims and conflicts. They are 100
// and 200 ms for the p95 of a claim's statement, and a second for that of the whole claim.
// For the share of conflicts they are 1 and 5 %.
func (r rules) checkLimits(t *testing.T) {
	t.Helper()
	p95 := func(metric string) string {
		return `^histogram_quantile\(0\.95, sum by \(job, le\) \(rate\(` + metric + `_bucket\[10m\]\)\)\)$`
	}
	share := `^sum by \(job\) \(rate\(almanac_versioned_updates_total\{[a-z_]*result="conflict"\}\[15m\]\)\) ` +
		`/ sum by \(job\) \(rate\(almanac_versioned_updates_total\[15m\]\)\)$`
	limits := map[string]limit{
		"AlmanacClaimQuerySlow":     {p95("almanac_claim_query_duration_seconds"), "0.1", "warning"},
		"AlmanacClaimQueryVerySlow": {p95("almanac_claim_query_duration_seconds"), "0.2", "critical"},
		"AlmanacClaimSlow":          {p95("almanac_claim_duration_seconds"), "1", "critical"},
		"AlmanacConflicts":          {share, "0.01", "warning"},
		"AlmanacManyConflicts":      {share, "0.05", "critical"},
	}
	for _, group := range r.Groups {
		for _, rule := range group.Rules {
			want, ok := limits[rule.Alert]
			if !ok {
				continue
			}
			of, above, _ := strings.Cut(rule.Expr, " > ")
			require.Regexp(t, want.of, of, rule.Alert)
			require.Equal(t, want.above, above, rule.Alert)
			require.Equal(t, want.severity, rule.Labels["severity"], rule.Alert)
			delete(limits, rule.Alert)
		}
	}
	require.Empty(t, limits, "rules that are missing")
}

// checkDashboard checks that the panels show every metric and no others.
func (m metrics) checkDashboard(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var dashboard struct {
		Title  string
		Panels []struct {
			Type, Title, Description string
			GridPos                  struct{ X, Y, W, H int }
			Targets                  []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &dashboard))
	require.NotEmpty(t, dashboard.Title)
	shown, taken := make(map[string]bool), make(map[[2]int]string)
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
			m.checkExpression(t, target.Expr)
			for _, name := range names(target.Expr) {
				shown[strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count")] = true
			}
		}
	}
	for name := range m {
		require.True(t, shown[name], "%s is on no panel", name)
	}
}

// checkExpression checks that every name in an expression exists, that there is one, and
// that brackets are balanced.
func (m metrics) checkExpression(t *testing.T, expression string) {
	t.Helper()
	names := names(expression)
	require.NotEmpty(t, names, expression)
	for _, name := range names {
		require.True(t, m.exists(name), "%s in %s", name, expression)
	}
	for _, pair := range []string{"()", "[]", "{}"} {
		require.Equal(t, strings.Count(expression, pair[:1]), strings.Count(expression, pair[1:]), "%s in %s", pair, expression)
	}
}

// names returns everything that looks like a metric name in a text. It ignores the values
// of labels, which may contain anything.
func names(text string) []string {
	bare := regexp.MustCompile(`"[^"]*"`).ReplaceAllString(text, "")
	return regexp.MustCompile(`\balmanac_[a-z_]+`).FindAllString(bare, -1)
}

// exists reports whether a name is a metric, or a series of a histogram.
func (m metrics) exists(name string) bool {
	for _, series := range []string{"_bucket", "_count"} {
		if of, part := strings.CutSuffix(name, series); part && m[of] == "histogram" {
			return true
		}
	}
	return m[name] != ""
}
