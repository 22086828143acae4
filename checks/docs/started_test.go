package docs_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgtest"
)

// newcomer does what getting-started.md says, in a directory that has the library
// beside it.
type newcomer struct {
	t   *testing.T
	dir string
	env []string
}

// follow makes the module and its program.
func follow(t *testing.T, page []block) newcomer {
	t.Helper()
	home := t.TempDir()
	library, err := filepath.Abs("..")
	require.NoError(t, err)
	require.NoError(t, os.Symlink(library, filepath.Join(home, "almanac")))
	n := newcomer{t, filepath.Join(home, "hello"), append(os.Environ(), "DATABASE_URL="+pgtest.EmptyURL(t))}
	require.NoError(t, os.Mkdir(n.dir, 0o700))
	programs := slices.DeleteFunc(in("go", page), func(b block) bool { return !strings.HasPrefix(b.text, "package main") })
	require.Len(t, programs, 1)
	require.NoError(t, os.WriteFile(filepath.Join(n.dir, "main.go"), []byte(programs[0].text), 0o600))
	// The checksums of what the library requires are known here, so no server has to be asked.
	sums, err := os.ReadFile(filepath.Join(library, "go.sum"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(n.dir, "go.sum"), sums, 0o600))
	return n
}

// says runs a line of the page and returns what it prints.
func (n newcomer) says(line string) string {
	n.t.Helper()
	words := strings.Fields(line)
	command := exec.CommandContext(n.t.Context(), words[0], words[1:]...)
	command.Dir, command.Env = n.dir, n.env
	out, err := command.CombinedOutput()
	require.NoError(n.t, err, "%s: %s", line, out)
	return string(out)
}

// The commands of the page print what the page shows, up to ids and years.
func TestThePageGettingStartedWorks(t *testing.T) {
	t.Parallel()
	page := blocks(t)["getting-started.md"]
	n := follow(t, page)
	var lines []string
	for _, b := range in("sh", page) {
		for line := range strings.Lines(b.text) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	start := slices.Index(lines, "go run .")
	require.Positive(t, start)
	for _, line := range lines[:start] {
		if strings.HasPrefix(line, "go ") {
			n.says(line)
		}
	}
	n.says("go build -o hello .") // go run does not pass signals on
	program := exec.CommandContext(t.Context(), filepath.Join(n.dir, "hello"))
	program.Env, program.Stderr = n.env, os.Stderr
	out, err := program.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, program.Start())
	printed := bufio.NewReader(out)
	shown := in("text", page)
	require.Len(t, shown, 2)

	planned, err := printed.ReadString('\n')
	require.NoError(t, err)
	require.Regexp(t, shape(shown[0].text), planned)
	id := planned[strings.LastIndexByte(planned, ' ')+1 : len(planned)-1]
	require.Len(t, lines, start+3, "what follows the program")
	require.Contains(t, n.says(strings.Replace(lines[start+1], exampleID.FindString(lines[start+1]), id, 1)), "made due 1 event\n")
	delivered, err := printed.ReadString('\n')
	require.NoError(t, err)
	require.Regexp(t, shape(shown[1].text), delivered)
	require.NoError(t, program.Process.Signal(syscall.SIGTERM))
	require.NoError(t, program.Wait(), "it drains and exits with success")
	require.Regexp(t, `(?s) COMPLETED .* PENDING `, n.says(lines[start+2]))
}

// The quickstart of the README runs in an empty directory, as it is shown.
func TestTheQuickstartOfTheReadmeWorks(t *testing.T) {
	t.Parallel()
	page := blocks(t)["../README.md"]
	n := follow(t, page)
	for _, b := range in("sh", page) {
		for line := range strings.Lines(b.text) {
			if strings.HasPrefix(line, "go mod ") {
				n.says(strings.TrimSpace(line))
			}
		}
	}
	n.says("go mod tidy")
	n.says("go build -o greet .")
	program := exec.CommandContext(t.Context(), filepath.Join(n.dir, "greet"))
	program.Env, program.Stderr = n.env, os.Stderr
	out, err := program.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, program.Start())
	planned, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Regexp(t, `^Ada Lovelace will be greeted at 20\d\d-12-10T09:00:00 Europe/London\n$`, planned)
	require.NoError(t, program.Process.Signal(syscall.SIGTERM))
	require.NoError(t, program.Wait())
}

var (
	exampleID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	aDate     = regexp.MustCompile(`20\d\d-02-28`)
	aYear     = regexp.MustCompile(`20\d\d`)
)

// shape is a pattern of what is shown, for other ids and years.
func shape(text string) string {
	text = regexp.QuoteMeta(text)
	text = exampleID.ReplaceAllLiteralString(text, "ID")
	text = aDate.ReplaceAllLiteralString(text, "DATE")
	text = aYear.ReplaceAllLiteralString(text, `20\d\d`)
	return "^" + strings.NewReplacer("ID", exampleID.String(), "DATE", `20\d\d-02-2[89]`).Replace(text) + "$"
}
