package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Release is a release of the library, and a program that works by it.
type Release struct {
	Version int    // of the schema
	Program string // a worker, as [Work] has it
}

// migration adds what a migration may: columns with a default, wanted or not, to the
// tables that workers are busy with. It takes the locks in the opposite order of a
// settlement's, which is the worst that it could do.
const migration = `
ALTER TABLE :"schema".queue ADD COLUMN priority integer NOT NULL DEFAULT 0;
ALTER TABLE :"schema".history ADD COLUMN delivered_by varchar(200);
ALTER TABLE :"schema".series ADD COLUMN occurrences integer NOT NULL DEFAULT 0;
ALTER TABLE :"schema".leases ADD COLUMN renewals integer NOT NULL DEFAULT 0;
ALTER TABLE :"schema".users ADD COLUMN visits integer NOT NULL DEFAULT 0;
INSERT INTO :"schema".migrations (version, name) VALUES (%d, '%04[1]d_following');
`

// Undo takes the migration of [FollowingRelease] back, as an administrator would who
// wants the release before.
const Undo = `
ALTER TABLE almanac.queue DROP COLUMN priority;
ALTER TABLE almanac.history DROP COLUMN delivered_by;
ALTER TABLE almanac.series DROP COLUMN occurrences;
ALTER TABLE almanac.leases DROP COLUMN renewals;
ALTER TABLE almanac.users DROP COLUMN visits;
DELETE FROM almanac.migrations WHERE name LIKE '%_following';
`

// uses are the statements of the following release that use what its migration adds:
// what stands in them, and what follows it.
var uses = map[string][2]string{
	"claim.sql":        {"AND q.available_at >= share.since", "\n            AND q.priority >= 0"},
	"settle_ended.sql": {"SET used_key = was.occurrence_key,", "\n        occurrences = s.occurrences + 1,"},
	"renew.sql":        {"clock_timestamp() + @lease::interval", ",\n    renewals = l.renewals + 1"},
}

// Present is the release that the running program is of. The directory is the
// module's.
func Present(module string) (Release, error) {
	later, err := filepath.Glob(filepath.Join(module, "postgres", "migrations", "*.sql"))
	return Release{Version: 1 + len(later), Program: os.Args[0]}, err // the first migration is schema.sql
}

// FollowingRelease builds a worker program in a directory as the next release of the
// module could have it: one more migration, and statements that use it. Nothing in
// the module is touched: the compiler is shown other files in the place of its own.
func FollowingRelease(ctx context.Context, module, dir string) (Release, error) {
	r, err := Present(module)
	if err != nil {
		return r, err
	}
	r = Release{Version: r.Version + 1, Program: filepath.Join(dir, "following")}
	texts := map[string]string{filepath.Join("migrations", fmt.Sprintf("%04d_following.sql", r.Version)): fmt.Sprintf(migration, r.Version)}
	for name, use := range uses {
		text, err := os.ReadFile(filepath.Join(module, "postgres", "queries", name))
		if err != nil {
			return r, err
		}
		if !strings.Contains(string(text), use[0]) {
			return r, fmt.Errorf("chaos: %s has no %q", name, use[0])
		}
		texts[filepath.Join("queries", name)] = strings.Replace(string(text), use[0], use[0]+use[1], 1)
	}
	overlay, err := overlayOf(filepath.Join(module, "postgres"), dir, texts)
	if err != nil {
		return r, err
	}
	build := exec.CommandContext(ctx, "go", "test", "-c", "-overlay", overlay, "-o", r.Program, ".")
	build.Dir = filepath.Join(module, "chaos")
	if out, err := build.CombinedOutput(); err != nil {
		return r, fmt.Errorf("chaos: build the following release: %w\n%s", err, out)
	}
	return r, nil
}

// overlayOf writes texts to a directory, and the file that tells the compiler to take
// them for files of the package.
func overlayOf(pkg, dir string, texts map[string]string) (string, error) {
	replace := make(map[string]string, len(texts))
	for name, text := range texts {
		file := filepath.Join(dir, filepath.Base(name))
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return "", err
		}
		place, err := filepath.Abs(filepath.Join(pkg, name))
		if err != nil {
			return "", err
		}
		replace[place] = file
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, text, 0o644)
}
