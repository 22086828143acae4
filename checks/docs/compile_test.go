package docs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// imported are the packages that fragments may name, by the name.
var imported = map[string]string{
	"almanac": "github.com/almanac-go/almanac", "calendar": "github.com/almanac-go/almanac/calendar", "postgres": "github.com/almanac-go/almanac/postgres", "webhook": "github.com/almanac-go/almanac/webhook",
	"almanactest": "github.com/almanac-go/almanac/almanactest", "conformance": "github.com/almanac-go/almanac/almanactest/conformance", "httpapi": "github.com/almanac-go/almanac/httpapi", "dashboard": "github.com/almanac-go/almanac/dashboard", "icalendar": "github.com/almanac-go/almanac/icalendar", "signedlink": "github.com/almanac-go/almanac/signedlink", "ops": "github.com/almanac-go/almanac/ops", "shards": "github.com/almanac-go/almanac/shards", "broadcast": "github.com/almanac-go/almanac/broadcast", "command": "github.com/almanac-go/almanac/cmd/command", "calendars": "github.com/almanac-go/almanac/contrib/calendars",
	"pgx": "github.com/jackc/pgx/v5", "pgxpool": "github.com/jackc/pgx/v5/pgxpool", "stdlib": "github.com/jackc/pgx/v5/stdlib", "uuid": "github.com/google/uuid",
	"context": "context", "sql": "database/sql", "json": "encoding/json", "errors": "errors", "fmt": "fmt", "iter": "iter", "log": "log", "slog": "log/slog",
	"http": "net/http", "os": "os", "signal": "os/signal", "strings": "strings", "syscall": "syscall", "testing": "testing", "synctest": "testing/synctest", "time": "time", "tzdata": "time/tzdata",
}

// given is what fragments may take for granted, unless their document declares it.
var given = map[string]string{
	"ctx": "var ctx context.Context", "pool": "var pool *pgxpool.Pool", "tx": "var tx pgx.Tx", "db": "var db *sql.DB", "t": "var t *testing.T",
	"store": "var store *postgres.Store", "registry": "var registry almanac.Registry", "scheduler": "var scheduler almanac.Scheduler",
	"sender": "var sender *broadcast.Sender",
	"from":   "var from *pgx.Conn", "to": "var to *pgx.Conn", "redirect": "var redirect func(context.Context) error",
	"profile": "var profile almanac.Profile", "profiles": "var profiles iter.Seq2[almanac.Profile, error]", "eventType": "var eventType string",
	"deliver": "var deliver almanac.DelivererFunc", "options": "var options []almanac.Option", "id": "var id uuid.UUID",
	"mux": "var mux *http.ServeMux", "token": "var token string", "isOperator": "func isOperator(r *http.Request) bool { return r != nil }",
	"must":  "func must[T any](value T, err error) T { check(err); return value }",
	"check": "func check(err error) { if err != nil { log.Fatal(err) } }",
}

// page is the package that the fragments of a document make together.
type page struct {
	set      *token.FileSet
	files    []*ast.File
	declared map[string]bool
}

// Every block of Go is type-checked: a program by itself; declarations of a document
// together; statements in a function each, after what is given.
func TestCodeOfTheDocumentsCompiles(t *testing.T) {
	t.Parallel()
	packages := exports(t)
	for name, all := range blocks(t) {
		t.Run(name, func(t *testing.T) { // one by one, as the importer is for one goroutine
			p := &page{token.NewFileSet(), nil, map[string]bool{}}
			for _, b := range in("go", all) {
				file, err := p.parse(b)
				switch {
				case err != nil:
					t.Errorf("%s:%d: %v", b.document, b.line, err)
				case strings.HasPrefix(b.text, "package "):
					judge(t, p.set, packages, file)
				default:
					p.add(file)
				}
			}
			p.give(t)
			judge(t, p.set, packages, p.files...)
		})
	}
}

// The test that handlers.md shows passes: it runs as a package that is nowhere but in
// an overlay.
func TestTestsOfTheDocumentsPass(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for _, b := range in("go", blocks(t)["handlers.md"]) {
		if _, err := parser.ParseFile(token.NewFileSet(), "", "package page\n"+b.text, 0); err == nil {
			text.WriteString(b.text)
		}
	}
	dir := t.TempDir()
	source, overlay := filepath.Join(dir, "page_test.go"), filepath.Join(dir, "overlay.json")
	place, err := filepath.Abs("handlers")
	if err != nil {
		t.Fatal(err)
	}
	replaced, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(place, "page_test.go"): source}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{source: []byte("package page; " + imports(text.String()) + text.String()), overlay: replaced} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	binary := filepath.Join(dir, "page.test")
	out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-o", binary, "-overlay", overlay, "./handlers").CombinedOutput()
	if err == nil {
		out, err = exec.CommandContext(t.Context(), binary, "-test.v").CombinedOutput()
	}
	if err != nil || bytes.Count(out, []byte("--- PASS: Test")) != 1 {
		t.Errorf("%v\n%s", err, out)
	}
}

// parse reads a block as a program, as declarations, or as statements. Lines stay
// what they are in the document.
func (p *page) parse(b block) (*ast.File, error) {
	read := func(text string) (*ast.File, error) {
		text = fmt.Sprintf("//line %s:%d\n%s", b.document, b.line, text)
		return parser.ParseFile(p.set, fmt.Sprintf("%s:%d", b.document, b.line), text, parser.ParseComments|parser.SkipObjectResolution)
	}
	if strings.HasPrefix(b.text, "package ") {
		return read(b.text)
	}
	head := "package page; " + imports(b.text)
	declarations, err := read(head + b.text)
	if err == nil {
		return declarations, nil
	}
	statements, failed := read(head + "func _() error { " + b.text + "\nreturn nil }")
	if failed != nil {
		return nil, errors.Join(err, failed)
	}
	return statements, nil
}

// imports are those of a fragment, which has none of its own.
func imports(text string) string {
	var list strings.Builder
	for _, name := range slices.Sorted(maps.Keys(imported)) {
		if regexp.MustCompile(`\b` + name + `\.`).MatchString(text) {
			fmt.Fprintf(&list, "import %q; ", imported[name])
		}
	}
	return list.String()
}

func (p *page) add(file *ast.File) {
	p.files = append(p.files, file)
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			p.declared[d.Name.Name] = p.declared[d.Name.Name] || d.Recv == nil
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					p.declared[s.Name.Name] = true
				case *ast.ValueSpec:
					for _, n := range s.Names {
						p.declared[n.Name] = true
					}
				}
			}
		}
	}
}

// give adds what the document does not declare itself.
func (p *page) give(t *testing.T) {
	t.Helper()
	var text strings.Builder
	for name, declaration := range given {
		if !p.declared[name] {
			fmt.Fprintln(&text, declaration)
		}
	}
	file, err := parser.ParseFile(p.set, "given", "package page\n"+strings.ReplaceAll(imports(text.String()), "; ", "\n")+text.String(), 0)
	if err != nil {
		t.Fatal(err)
	}
	p.files = append(p.files, file)
}

// judge checks the types of a package. What is merely unused is no fault in a
// fragment.
func judge(t *testing.T, set *token.FileSet, packages types.Importer, files ...*ast.File) {
	t.Helper()
	config := types.Config{Importer: packages, Error: func(err error) {
		if wrong := (types.Error{}); !errors.As(err, &wrong) || !wrong.Soft {
			t.Error(err)
		}
	}}
	_, _ = config.Check("page", set, files, nil) // errors are told one by one
}

// exports returns the packages as the compiler has them.
func exports(t *testing.T) types.Importer {
	t.Helper()
	args := append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}}={{.Export}}"}, slices.Sorted(maps.Values(imported))...)
	command := exec.CommandContext(t.Context(), "go", args...)
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for line := range bytes.Lines(out) {
		name, file, _ := strings.Cut(strings.TrimSpace(string(line)), "=")
		files[name] = file
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(name string) (io.ReadCloser, error) { return os.Open(files[name]) })
}
