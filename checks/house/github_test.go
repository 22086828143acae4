package house_test

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// strictly decodes a file of YAML. A key that into does not have fails the test.
func strictly(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(moduleRoot(t), name))
	if err != nil {
		t.Fatal(err)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(into); err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

// Dependabot updates the modules that its file lists, and no others.
func TestEveryModuleIsUpdated(t *testing.T) {
	t.Parallel()
	var file struct {
		Version int
		Updates []struct {
			Ecosystem   string `yaml:"package-ecosystem"`
			Directory   string
			Directories []string
			Schedule    struct{ Interval string }
			Groups      map[string]struct{ Patterns []string }
		}
	}
	strictly(t, ".github/dependabot.yml", &file)
	var updated []string
	for _, update := range file.Updates {
		if update.Schedule.Interval == "" {
			t.Errorf(".github/dependabot.yml: %s has no interval", update.Ecosystem)
		}
		if update.Ecosystem != "gomod" {
			continue
		}
		for _, dir := range update.Directories {
			updated = append(updated, path.Clean("."+dir))
		}
	}
	if slices.Sort(updated); !slices.Equal(updated, modules(t)) {
		t.Errorf(".github/dependabot.yml updates %q, and the modules are %q", updated, modules(t))
	}
}

// GitHub shows no form at all that has a fault.
func TestIssueFormsAreWellFormed(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob(filepath.Join(moduleRoot(t), ".github", "ISSUE_TEMPLATE", "*.yml"))
	if err != nil || len(names) < 3 {
		t.Fatalf("%q, %v", names, err)
	}
	for _, name := range names {
		name = path.Join(".github", "ISSUE_TEMPLATE", filepath.Base(name))
		if path.Base(name) == "config.yml" {
			continue
		}
		var form struct {
			Name, Description string
			Labels            []string
			Body              []struct {
				Type, ID   string
				Attributes struct {
					Label, Description, Placeholder, Render string
				}
				Validations struct{ Required bool }
			}
		}
		strictly(t, name, &form)
		if form.Name == "" || form.Description == "" {
			t.Errorf("%s: no name or no description", name)
		}
		seen := map[string]bool{}
		for _, field := range form.Body {
			if !slices.Contains([]string{"textarea", "input"}, field.Type) || field.Attributes.Label == "" ||
				seen[field.ID] || !regexp.MustCompile(`^[a-z]+$`).MatchString(field.ID) {
				t.Errorf("%s: the field %q is of no type, has no label, or has no id of its own", name, field.ID)
			}
			seen[field.ID] = true
		}
		if len(seen) == 0 {
			t.Errorf("%s: no field", name)
		}
	}
}

// The workflow runs what is run here, with the Go release of go.mod.
func TestTheWorkflowRunsTheChecks(t *testing.T) {
	t.Parallel()
	var workflow struct {
		Jobs map[string]struct {
			Container struct{ Image string }
			Steps     []struct {
				Uses, Run string
				With      map[string]string
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(moduleRoot(t), ".github", "workflows", "ci.yml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &workflow); err != nil {
		t.Fatal(err)
	}
	runs := map[string]bool{}
	for _, job := range workflow.Jobs {
		for _, step := range job.Steps {
			runs[step.Run] = true
			if strings.HasPrefix(step.Uses, "actions/checkout@") && step.With["persist-credentials"] != "false" {
				t.Error("ci.yml: a checkout leaves its token to what it runs")
			}
		}
	}
	for _, want := range []string{".ci/run", "make vulncheck"} {
		if !runs[want] {
			t.Errorf("ci.yml: no step runs %q", want)
		}
	}
	var mod struct{ Go string }
	goCommand(t, ".", &mod, "mod", "edit", "-json")
	release := strings.Join(strings.Split(mod.Go, ".")[:2], ".")
	if image := workflow.Jobs["test"].Container.Image; !strings.HasPrefix(image, "golang:"+release+"-") {
		t.Errorf("ci.yml: the tests run on %s, and go.mod says %s", image, mod.Go)
	}
}

// goreleaser builds programs that are there, each from its own module and outside of the workspace.
func TestReleasesHaveProgramsThatAreThere(t *testing.T) {
	t.Parallel()
	var file struct {
		Builds []struct {
			ID, Dir, Main string
			Env           []string
		}
		Archives []struct{ IDs []string }
	}
	text, err := os.ReadFile(filepath.Join(moduleRoot(t), ".goreleaser.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Builds) == 0 || len(file.Builds) != len(file.Archives) {
		t.Fatalf(".goreleaser.yaml: %d builds and %d archives", len(file.Builds), len(file.Archives))
	}
	for i, build := range file.Builds {
		if _, err := os.Stat(filepath.Join(moduleRoot(t), build.Dir, build.Main, "main.go")); err != nil {
			t.Errorf(".goreleaser.yaml: %s: %v", build.ID, err)
		}
		if !slices.Contains(modules(t), build.Dir) || !slices.Contains(build.Env, "GOWORK=off") || !slices.Contains(build.Env, "CGO_ENABLED=0") {
			t.Errorf(".goreleaser.yaml: %s is not built as a module of its own, or not static", build.ID)
		}
		if !slices.Contains(file.Archives[i].IDs, build.ID) {
			t.Errorf(".goreleaser.yaml: no archive for %s", build.ID)
		}
	}
}

// What takes too long for each change runs at night, every part of it.
func TestTheNightlyWorkflowRunsEveryPart(t *testing.T) {
	t.Parallel()
	var workflow struct {
		On   struct{ Schedule []struct{ Cron string } } `yaml:"on"`
		Jobs map[string]struct {
			Strategy struct{ Matrix struct{ Part []string } }
			Steps    []struct{ Run string }
		}
	}
	text, err := os.ReadFile(filepath.Join(moduleRoot(t), ".github", "workflows", "nightly.yml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &workflow); err != nil {
		t.Fatal(err)
	}
	job := workflow.Jobs["nightly"]
	parts := job.Strategy.Matrix.Part
	want := []string{"steps"}
	for i := 1; i < len(parts); i++ {
		want = append(want, fmt.Sprintf("mutations %d/%d", i, len(parts)-1))
	}
	if len(workflow.On.Schedule) == 0 || len(parts) < 2 || !slices.Equal(parts, want) {
		t.Errorf("nightly.yml: the parts are %q, want %q, on a schedule", parts, want)
	}
	if last := job.Steps[len(job.Steps)-1]; last.Run != ".ci/nightly ${{ matrix.part }}" {
		t.Errorf("nightly.yml: the last step runs %q", last.Run)
	}
}
