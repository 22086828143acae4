package postgres

import (
	"context"
	"io/fs"
	"strings"
	"testing/fstest"
	"time"

	"github.com/almanac-go/almanac"
)

// Probing sets how a listener checks its connection: after how long without a notification,
// and how long it waits for the notification of the check.
func Probing(quiet, limit time.Duration) Option {
	return func(s *Store) { s.probing = probing{quiet, limit} }
}

// Clock is what an answer has shown of the database's clock, which it read between two times of this process.
func Clock(read, asked, answered time.Time) clock {
	return clock{read: read, asked: asked, answered: answered}
}

// WasSetBy reports whether the database's clock was certainly set between two answers.
func (c clock) WasSetBy(later clock) bool { return c.wasSetBy(later) }

// SetClock makes the store take the database's clock for one that was set since its last claim.
func (s *Store) SetClock(by time.Duration) {
	was := *s.earlier.clock.Load()
	was.read = was.read.Add(-by)
	s.earlier.clock.Store(&was)
}

// Catalog returns what the schema is made of, as the embedded catalog has it.
func (s *Store) Catalog(ctx context.Context) (string, error) {
	c, err := s.catalog(ctx, s.db)
	return c.String(), err
}

// following is the next release of the library: one more migration.
var following = func() fs.FS {
	files := fstest.MapFS{
		"migrations/0002_following.sql": {Data: []byte(`
CREATE TABLE :"schema".trips (id bigint NOT NULL PRIMARY KEY);
ALTER TABLE :"schema".audit ADD COLUMN place text;
INSERT INTO :"schema".migrations (version, name) VALUES (2, '0002_following');
`)},
		"migrations/down/0002_following.sql": {Data: []byte(`-- Loses trips
-- Loses audit WHERE place IS NOT NULL
DROP TABLE :"schema".trips;
ALTER TABLE :"schema".audit DROP COLUMN place;
DELETE FROM :"schema".migrations WHERE version = 2;
`)},
	}
	first := "migrations/down/" + firstMigration + ".sql"
	down, err := migrationFiles.ReadFile(first)
	if err != nil {
		panic(err)
	}
	files[first] = &fstest.MapFile{Data: down}
	return files
}()

// Following makes a store one of the next release, which has a migration more.
func Following() Option { return func(s *Store) { s.files = following } }

// FollowingFiles returns the files of the next release.
func (e Export) FollowingFiles() ([]File, error) { return e.filesOf(following) }

// Statements returns the statements by the names of their fields, those with a specification
// once for each part of the tables that a specification can be about.
func (s *Store) Statements(spec almanac.Spec) map[string]string {
	all := make(map[string]string)
	each(&s.statements, func(field, text string) string {
		where, _ := s.where(text, spec, few)
		all[field] = strings.NewReplacer(":beyond", ">", ":direction", "ASC").Replace(where)
		return text
	})
	return all
}
