package deploy_test

import (
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"
)

// port returns the port of an address such as ":8080".
func port(t *testing.T, addr string) int {
	t.Helper()
	_, text, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	number, err := strconv.Atoi(text)
	require.NoError(t, err)
	return number
}

// instruction returns the arguments of the last such instruction of the Dockerfile.
func instruction(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("Dockerfile")
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^`+name+` (.*)$`).FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, found, "Dockerfile: no %s", name)
	return found[len(found)-1][1]
}

func exposed(t *testing.T) int {
	t.Helper()
	number, err := strconv.Atoi(instruction(t, "EXPOSE"))
	require.NoError(t, err)
	return number
}

func TestTheImageIsNotRoot(t *testing.T) {
	t.Parallel()
	user, group, _ := strings.Cut(instruction(t, "USER"), ":")
	for _, id := range []string{user, group} {
		number, err := strconv.Atoi(id)
		require.NoError(t, err, "Kubernetes checks numbers only")
		require.Positive(t, number)
	}
	pod := read(t).deployment.Spec.Template.Spec.SecurityContext
	require.Equal(t, user, strconv.FormatInt(*pod.RunAsUser, 10), "the user of the manifest")
}

func TestTheImageServesThePortThatItExposes(t *testing.T) {
	t.Parallel()
	name, addr, _ := strings.Cut(instruction(t, "ENV"), "=")
	help(t).check(t, "Dockerfile", nil, []string{name})
	require.Equal(t, "BIRTHDAYD_ADDR", name)
	require.Equal(t, exposed(t), port(t, addr))
	require.Equal(t, `["/usr/local/bin/birthdayd"]`, instruction(t, "ENTRYPOINT"))
}

// The compiler of the image is that of go.mod at least.
func TestTheImageHasTheGoOfTheModule(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../go.mod")
	require.NoError(t, err)
	release := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(text)
	require.Equal(t, "golang:"+string(release[1]), regexp.MustCompile(`GO_IMAGE=(\S+)`).FindStringSubmatch(dockerfile(t))[1])
}

func dockerfile(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("Dockerfile")
	require.NoError(t, err)
	return string(text)
}

// variables are those that the compose file requires.
func variables() types.Mapping {
	return types.Mapping{
		"POSTGRES_PASSWORD":        "secret",
		"BIRTHDAYD_API_TOKEN":      "0123456789abcdef",
		"BIRTHDAYD_WEBHOOK_URL":    "https://example.com/birthdays",
		"BIRTHDAYD_WEBHOOK_SECRET": "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
	}
}

// load loads the compose file by the specification's own loader, which knows its schema.
func load(t *testing.T, environment types.Mapping) (*types.Project, error) {
	t.Helper()
	return loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir: ".", ConfigFiles: []types.ConfigFile{{Filename: "compose.yaml"}}, Environment: environment,
	})
}

func compose(t *testing.T) *types.Project {
	t.Helper()
	project, err := load(t, variables())
	require.NoError(t, err)
	return project
}

// Without one of its variables the compose file starts nothing.
func TestComposeRequiresItsVariables(t *testing.T) {
	t.Parallel()
	for name := range variables() {
		fewer := variables()
		delete(fewer, name)
		_, err := load(t, fewer)
		require.ErrorContains(t, err, name)
	}
}

func TestComposeStartsInOrder(t *testing.T) {
	t.Parallel()
	p := compose(t)
	require.NotEmpty(t, p.Services["database"].HealthCheck.Test)
	require.Equal(t, "pg_isready", p.Services["database"].HealthCheck.Test[1])
	require.Equal(t, types.ServiceConditionHealthy, p.Services["migrate"].DependsOn["database"].Condition)
	require.Equal(t, types.ServiceConditionCompletedSuccessfully, p.Services["birthdayd"].DependsOn["migrate"].Condition)
}

func TestComposeUsesSettingsThatExist(t *testing.T) {
	t.Parallel()
	p := compose(t)
	service := p.Services["birthdayd"]
	var names []string
	for name, value := range service.Environment {
		require.NotNil(t, value, name)
		require.NotEmpty(t, *value, name)
		names = append(names, name)
	}
	help(t).check(t, "compose.yaml", service.Command, names)
	checkMigration(t, "compose.yaml", p.Services["migrate"].Entrypoint)
	for _, name := range []string{"migrate", "birthdayd"} {
		require.FileExists(t, p.Services[name].Build.Context+"/"+p.Services[name].Build.Dockerfile, name)
	}
}

func TestComposePublishesThePortOfTheImageOnLoopback(t *testing.T) {
	t.Parallel()
	p := compose(t)
	require.Empty(t, p.Services["database"].Ports)
	ports := p.Services["birthdayd"].Ports
	require.Len(t, ports, 1)
	require.Equal(t, exposed(t), int(ports[0].Target))
	require.Equal(t, "127.0.0.1", ports[0].HostIP)
}

func TestComposeLetsBirthdaydStop(t *testing.T) {
	t.Parallel()
	service := compose(t).Services["birthdayd"]
	require.GreaterOrEqual(t, time.Duration(*service.StopGracePeriod), stopping(t))
	require.True(t, service.ReadOnly)
	require.Equal(t, []string{"ALL"}, service.CapDrop)
}
