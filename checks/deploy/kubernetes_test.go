package deploy_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// manifests are the objects of all files, by their type.
type manifests struct {
	deployment *apps.Deployment
	service    *core.Service
	budget     *policy.PodDisruptionBudget
	job        *batch.Job
}

// read decodes each file into the types of the API. A field that the API does not have, or a value
// of another type, fails the test.
func read(t *testing.T) manifests {
	t.Helper()
	m := manifests{new(apps.Deployment), new(core.Service), new(policy.PodDisruptionBudget), new(batch.Job)}
	kinds := map[meta.TypeMeta]any{
		{APIVersion: "apps/v1", Kind: "Deployment"}:            m.deployment,
		{APIVersion: "v1", Kind: "Service"}:                    m.service,
		{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"}: m.budget,
		{APIVersion: "batch/v1", Kind: "Job"}:                  m.job,
	}
	files, err := filepath.Glob("kubernetes/*.yaml")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, document := range bytes.Split(text, []byte("\n---\n")) {
			var kind meta.TypeMeta
			require.NoError(t, yaml.Unmarshal(document, &kind), file)
			into, ok := kinds[kind]
			require.True(t, ok, "%s: no schema for %v, or two objects of it", file, kind)
			delete(kinds, kind)
			require.NoError(t, yaml.UnmarshalStrict(document, into), "%s: %s", file, kind.Kind)
		}
	}
	require.Empty(t, kinds, "objects that no file has")
	return m
}

// What the API server refuses although each field has the right type.
func TestManifestsFitEachOther(t *testing.T) {
	t.Parallel()
	m := read(t)
	pods := m.deployment.Spec.Template.Labels
	for name, selector := range map[string]*meta.LabelSelector{
		"Deployment":          m.deployment.Spec.Selector,
		"PodDisruptionBudget": m.budget.Spec.Selector,
		"Service":             {MatchLabels: m.service.Spec.Selector},
		"spread":              m.deployment.Spec.Template.Spec.TopologySpreadConstraints[0].LabelSelector,
	} {
		s, err := meta.LabelSelectorAsSelector(selector)
		require.NoError(t, err)
		require.False(t, s.Empty(), name)
		require.True(t, s.Matches(labels.Set(pods)), "%s selects %s, the pods are %v", name, s, pods)
		require.False(t, s.Matches(labels.Set(m.job.Spec.Template.Labels)), "%s selects the pods of the migration too", name)
	}
	for _, name := range []string{m.deployment.Name, m.service.Name, m.budget.Name} {
		require.Equal(t, "birthdayd", name)
	}
	require.Equal(t, core.RestartPolicyNever, m.job.Spec.Template.Spec.RestartPolicy)
	require.Empty(t, m.deployment.Spec.Template.Spec.RestartPolicy, "a Deployment's pods always restart")
	require.NotEmpty(t, m.job.GenerateName, "a job cannot be applied twice under one name")
}

// The budget lets a node be drained, and one pod serves meanwhile.
func TestTheBudgetKeepsAPodAndLetsNodesDrain(t *testing.T) {
	t.Parallel()
	m := read(t)
	require.Greater(t, *m.deployment.Spec.Replicas, int32(1))
	require.Nil(t, m.budget.Spec.MinAvailable)
	away := m.budget.Spec.MaxUnavailable.IntValue()
	require.Positive(t, away)
	require.Less(t, away, int(*m.deployment.Spec.Replicas))
	require.Equal(t, apps.RollingUpdateDeploymentStrategyType, m.deployment.Spec.Strategy.Type)
	require.Zero(t, m.deployment.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue())
}

func TestPodsHaveNoRights(t *testing.T) {
	t.Parallel()
	m := read(t)
	for name, pod := range map[string]core.PodSpec{"Deployment": m.deployment.Spec.Template.Spec, "Job": m.job.Spec.Template.Spec} {
		require.True(t, *pod.SecurityContext.RunAsNonRoot, name)
		require.Positive(t, *pod.SecurityContext.RunAsUser, name)
		require.Positive(t, *pod.SecurityContext.RunAsGroup, name)
		require.Equal(t, core.SeccompProfileTypeRuntimeDefault, pod.SecurityContext.SeccompProfile.Type, name)
		require.False(t, *pod.AutomountServiceAccountToken, name)
		require.False(t, pod.HostNetwork || pod.HostPID || pod.HostIPC, name)
		for _, c := range pod.Containers {
			require.False(t, *c.SecurityContext.AllowPrivilegeEscalation, name)
			require.True(t, *c.SecurityContext.ReadOnlyRootFilesystem, name)
			require.Equal(t, []core.Capability{"ALL"}, c.SecurityContext.Capabilities.Drop, name)
			require.Empty(t, c.SecurityContext.Capabilities.Add, name)
			require.False(t, c.Resources.Requests.Cpu().IsZero(), name)
			require.False(t, c.Resources.Requests.Memory().IsZero(), name)
			require.False(t, c.Resources.Limits.Memory().IsZero(), name)
			require.LessOrEqual(t, c.Resources.Requests.Memory().Value(), c.Resources.Limits.Memory().Value(), name)
			for _, e := range c.Env {
				secret := strings.Contains(e.Name, "TOKEN") || strings.Contains(e.Name, "SECRET") || strings.Contains(e.Name, "DATABASE_URL")
				require.Equal(t, secret, e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil, "%s: %s", name, e.Name)
			}
		}
	}
}

func TestManifestsUseSettingsThatExist(t *testing.T) {
	t.Parallel()
	m := read(t)
	c := m.deployment.Spec.Template.Spec.Containers[0]
	require.Empty(t, c.Command, "the image's entry point is birthdayd")
	help(t).check(t, "Deployment", c.Args, names(c.Env))
	migration := m.job.Spec.Template.Spec.Containers[0]
	checkMigration(t, "Job", migration.Command)
	require.Equal(t, []string{"DATABASE_URL"}, names(migration.Env))
	require.Equal(t, c.Image, migration.Image)
}

func names(env []core.EnvVar) (all []string) {
	for _, e := range env {
		all = append(all, e.Name)
	}
	return all
}

func TestPodsStopInTime(t *testing.T) {
	t.Parallel()
	m := read(t)
	c := m.deployment.Spec.Template.Spec.Containers[0]
	delay, err := time.ParseDuration(value(t, c.Args, "-shutdown-delay"))
	require.NoError(t, err)
	require.Positive(t, delay, "a load balancer needs a moment")
	grace := time.Duration(*m.deployment.Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second
	require.GreaterOrEqual(t, grace, delay+stopping(t))
}

// value returns the value of a flag in args.
func value(t *testing.T, args []string, flag string) string {
	t.Helper()
	for i, arg := range args {
		if arg == flag {
			return args[i+1]
		}
	}
	t.Fatalf("%s is not among %q", flag, args)
	return ""
}

// birthdayd runs with the Deployment's arguments and variables, serves each probe without a token,
// and ends with 0 on SIGTERM.
func TestEveryProbeIsServed(t *testing.T) {
	t.Parallel()
	m := read(t)
	c := m.deployment.Spec.Template.Spec.Containers[0]
	secrets := map[string]string{
		"BIRTHDAYD_DATABASE_URL":   "", // as if it were not set: birthdayd starts its own
		"BIRTHDAYD_API_TOKEN":      "0123456789abcdef",
		"BIRTHDAYD_METRICS_TOKEN":  "fedcba9876543210",
		"BIRTHDAYD_WEBHOOK_SECRET": "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
	}
	var env []string
	for _, e := range c.Env {
		if e.ValueFrom != nil {
			secret, ok := secrets[e.Name]
			require.True(t, ok, e.Name)
			e.Value = secret
		}
		env = append(env, e.Name+"="+e.Value)
	}
	server := start(t, c.Args, env)
	for name, probe := range map[string]*core.Probe{"startup": c.StartupProbe, "liveness": c.LivenessProbe, "readiness": c.ReadinessProbe} {
		require.Eventually(t, func() bool { return server.status(t, probe.HTTPGet.Path) == http.StatusOK },
			30*time.Second, 100*time.Millisecond, "%s: %s", name, probe.HTTPGet.Path)
		require.Equal(t, c.Ports[0].Name, probe.HTTPGet.Port.String(), name)
	}
	require.Equal(t, "/readyz", c.ReadinessProbe.HTTPGet.Path)
	require.Equal(t, "/healthz", c.LivenessProbe.HTTPGet.Path, "a restart mends no database")
	require.Equal(t, http.StatusUnauthorized, server.status(t, "/metrics"))
	require.Zero(t, server.stop(t), "%s", server.log.text.String())
}

func TestThePortsOfTheManifestsAgree(t *testing.T) {
	t.Parallel()
	m := read(t)
	c := m.deployment.Spec.Template.Spec.Containers[0]
	require.Len(t, c.Ports, 1)
	require.Equal(t, port(t, value(t, c.Args, "-addr")), int(c.Ports[0].ContainerPort))
	require.Equal(t, intstr.FromString(c.Ports[0].Name), m.service.Spec.Ports[0].TargetPort)
	require.Equal(t, exposed(t), int(c.Ports[0].ContainerPort), "the port of the image")
}
