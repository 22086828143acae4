package pgserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// OldestMajor is the oldest major version of PostgreSQL that is accepted.
const OldestMajor = 13

// Binaries are the server programs of one PostgreSQL installation.
type Binaries struct {
	Dir     string // holds postgres and initdb
	Version string // as the server prints it, such as "15.18" or "18beta1"
	Major   int    // the first number of Version
}

// String returns "PostgreSQL 15.18 from /usr/lib/postgresql/15/bin".
func (b Binaries) String() string {
	return fmt.Sprintf("PostgreSQL %s from %s", b.Version, b.Dir)
}

func (b Binaries) program(name string) string { return filepath.Join(b.Dir, name) }

// ErrNotFound reports that the machine has no usable PostgreSQL server binaries.
// Errors that match it are a [*NotFoundError].
var ErrNotFound = errors.New("pgserver: no PostgreSQL server binaries")

// NotFoundError reports where binaries were searched, and why the found ones were refused.
type NotFoundError struct {
	Looked  []string // directories and patterns, in the order in which they were tried
	Refused []error  // one for each installation that was found and refused
}

func (e *NotFoundError) Error() string {
	text := fmt.Sprintf("%v of version %d or later; looked in %s",
		ErrNotFound, OldestMajor, strings.Join(e.Looked, ", "))
	for _, why := range e.Refused {
		text += "; " + why.Error()
	}
	return text
}

// Is makes errors.Is(err, ErrNotFound) hold for every *NotFoundError.
func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }

// places are the directories where packages install the server binaries. These are often
// not in PATH, so that several major versions can be installed.
func places() []string {
	return []string{
		"/usr/lib/postgresql/*/bin",          // Debian, Ubuntu
		"/usr/pgsql-*/bin",                   // RPMs of postgresql.org
		"/opt/homebrew/opt/postgresql@*/bin", // Homebrew on Apple silicon
		"/usr/local/opt/postgresql@*/bin",    // Homebrew on Intel
		"/opt/homebrew/bin",
		"/Applications/Postgres.app/Contents/Versions/*/bin",
	}
}

// Find returns the first usable installation. It prefers the one in PATH, then the newest
// major version where packages of Debian, postgresql.org, Homebrew and Postgres.app install
// it. A usable installation has postgres and initdb, of version [OldestMajor] or later.
//
// It returns a [*NotFoundError] when there is none.
func Find() (Binaries, error) {
	return search(os.Getenv("PATH"), places(), func(Binaries) bool { return true })
}

// In returns the installation in dir, which must have postgres and initdb. It fails when
// one is missing or the version is older than [OldestMajor].
func In(dir string) (Binaries, error) {
	for _, name := range []string{"postgres", "initdb"} {
		if _, err := exec.LookPath(filepath.Join(dir, name)); err != nil {
			return Binaries{}, fmt.Errorf("pgserver: %w", err)
		}
	}
	return identify(dir)
}

// search returns the first installation that accept allows. It searches PATH first, and
// then the directories that match the patterns, the newest of each pattern first.
func search(path string, patterns []string, accept func(Binaries) bool) (Binaries, error) {
	missing := &NotFoundError{Looked: slices.Concat([]string{"PATH"}, patterns)}

	dirs := filepath.SplitList(path)
	for _, pattern := range patterns {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			return Binaries{}, fmt.Errorf("pgserver: %q: %w", pattern, err)
		}
		slices.SortStableFunc(matches, func(a, b string) int { return cmp.Compare(majorIn(b), majorIn(a)) })
		dirs = append(dirs, matches...)
	}

	for _, dir := range dirs {
		dir, ok := home(dir)
		if !ok {
			continue
		}
		b, err := In(dir)
		if err != nil {
			missing.Refused = append(missing.Refused, err)
			continue
		}
		if accept(b) {
			return b, nil
		}
		missing.Refused = append(missing.Refused, fmt.Errorf("%v is another version", b))
	}
	return Binaries{}, missing
}

// home returns the directory that really contains the postgres of dir. The file in PATH is
// often a link, and initdb is beside its target.
func home(dir string) (string, bool) {
	if !filepath.IsAbs(dir) {
		return "", false // never run a program from the current directory
	}
	program, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres"))
	if err != nil {
		return "", false
	}
	return filepath.Dir(program), true
}

// versionLimit bounds one run of "postgres --version", which takes milliseconds.
const versionLimit = 10 * time.Second

func identify(dir string) (Binaries, error) {
	ctx, cancel := context.WithTimeout(context.Background(), versionLimit)
	defer cancel()

	program := filepath.Join(dir, "postgres")
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return Binaries{}, fmt.Errorf("pgserver: %s --version: %w", program, err)
	}
	// "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)"
	_, after, _ := strings.Cut(string(out), "(PostgreSQL) ")
	version, _, _ := strings.Cut(strings.TrimSpace(after), " ")
	major, err := strconv.Atoi(number.FindString(version))
	if err != nil {
		return Binaries{}, fmt.Errorf("pgserver: %s --version says %q", program, strings.TrimSpace(string(out)))
	}
	if major < OldestMajor {
		return Binaries{}, fmt.Errorf("pgserver: PostgreSQL %s in %s is older than %d", version, dir, OldestMajor)
	}
	return Binaries{Dir: dir, Version: version, Major: major}, nil
}

var number = regexp.MustCompile(`\d+`)

// majorIn returns the last number in a path such as /usr/pgsql-16/bin. A path without a
// number ("latest") counts as newest.
func majorIn(path string) int {
	all := number.FindAllString(path, -1)
	if len(all) == 0 {
		return math.MaxInt
	}
	major, err := strconv.Atoi(all[len(all)-1])
	if err != nil {
		return 0
	}
	return major
}
