// Package zoneinfo finds a program's time zone files, and says which version of
// the IANA time zone database they are.
//
// [time.LoadLocation] tells neither. It passes in silence from a file that it
// cannot read to the next place that has one, and so mixes versions; this package
// reports such a file.
package zoneinfo

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// maxFile bounds a zone file. The largest of the database has less than 4 KiB.
	maxFile = 1 << 20
	// maxArchive bounds a zip file, which is kept in memory. Go's has 400 KiB, and
	// all 1,800 files that Debian installs make 2.4 MiB.
	maxArchive = 16 << 20
	// maxName is longer than any name of the database (32 bytes), even below
	// "posix/" or "right/".
	maxName = 64
)

// A Source is one place with zone files: a directory, or a zip file of one. It is
// a value, safe for concurrent use; there is nothing to close. The zero Source has
// no files.
//
// A zip file is read when it is opened, and later changes of it are not seen. Of a
// directory only the version is read then: after an update, open it again.
type Source struct {
	path    string
	version string
	archive map[string]*zip.File // by name; nil for a directory
}

// Open returns the source at path: a directory such as /usr/share/zoneinfo, or a
// zip file such as the zoneinfo.zip of Go, whatever its name. The files of a zip
// file may be compressed, which Go itself would not read. A zip file of more than
// 16 MiB is refused.
//
// The error says what is wrong with path, and matches [fs.ErrNotExist] where there
// is nothing at path. A place without a single zone file is an error too.
func Open(path string) (Source, error) {
	s, err := open(path)
	if err == nil {
		err = s.empty()
	}
	if err != nil {
		return Source{}, err
	}
	return s, nil
}

// Path returns the path that s was opened with, or "" for the zero Source.
func (s Source) Path() string { return s.path }

// Version returns the version of the IANA data in s, such as "2026f", or "" where
// s does not say. It is what the file "+VERSION", the file "version" or the first
// line of "tzdata.zi" said when s was opened, in this order, or for the zoneinfo.zip
// of a Go installation the script "update.bash" beside it; what is no label of a
// release, such as "2026a-dirty", does not count.
func (s Source) Version() string { return s.version }

// Load returns the zone of a name, read anew.
//
// The error matches [fs.ErrNotExist] where s has no such file, and [fs.ErrInvalid]
// where name is no name of a zone but a path ("/etc/passwd", "../x", "./x") or
// "Local". Any other error is about a file that is there: it cannot be read, has
// more than 1 MiB, or is malformed or cut off. Each names the file and s.
func (s Source) Load(name string) (*time.Location, error) {
	if !validName(name) {
		return nil, invalidName(name)
	}
	data, err := s.read(name)
	if err != nil {
		return nil, s.failure(name, err)
	}
	location, err := parse(name, data)
	if err != nil {
		return nil, s.failure(name, err)
	}
	return location, nil
}

// open is Open for a place that may turn out to be empty.
func open(path string) (Source, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Source{}, fmt.Errorf("zoneinfo: %q does not exist: %w", path, fs.ErrNotExist)
	case err != nil:
		return Source{}, fmt.Errorf("zoneinfo: %s: %w", path, reason(err))
	}
	s := Source{path: path}
	switch {
	case info.IsDir():
	case !info.Mode().IsRegular(): // to read from a pipe or a device may never end
		return Source{}, fmt.Errorf("zoneinfo: %s is neither a directory nor a zip file", path)
	default:
		if s.archive, err = readArchive(path); err != nil {
			return Source{}, fmt.Errorf("zoneinfo: %s: %w", path, err)
		}
	}
	s.version = s.readVersion()
	return s, nil
}

// readArchive reads the zip file at path into memory.
func readArchive(path string) (map[string]*zip.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, reason(err)
	}
	defer f.Close()
	data, err := readAll(f, maxArchive)
	if err != nil {
		return nil, err
	}
	r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // such names are never asked for
		return nil, fmt.Errorf("neither a directory nor a zip file: %w", err)
	}
	files := make(map[string]*zip.File, len(r.File))
	for _, f := range r.File {
		if files[f.Name] == nil { // of two files with one name, Go reads the first
			files[f.Name] = f
		}
	}
	return files, nil
}

// read returns the file of a zone. The caller has judged the name.
func (s Source) read(name string) ([]byte, error) {
	f, err := s.file(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, maxFile)
}

// file opens a regular file of s. To others it answers fs.ErrNotExist or, before
// it would block on one, an error.
func (s Source) file(name string) (io.ReadCloser, error) {
	if s.archive != nil {
		if f := s.archive[name]; f != nil {
			return f.Open()
		}
		return nil, fs.ErrNotExist
	}
	if s.path == "" {
		return nil, fs.ErrNotExist
	}
	full := filepath.Join(s.path, filepath.FromSlash(name))
	info, err := os.Stat(full)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if target, err := os.Readlink(full); err == nil {
			return nil, fmt.Errorf("a link to %s, where nothing is", target)
		}
		return nil, err
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fs.ErrNotExist
	case !info.Mode().IsRegular():
		return nil, errors.New("not a regular file")
	}
	return os.Open(full)
}

// failure says which file of s an error is about.
func (s Source) failure(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("zoneinfo: no file %s in %q: %w", name, s.path, fs.ErrNotExist)
	}
	return fmt.Errorf("zoneinfo: file %s in %s: %w", name, s.path, reason(err))
}

// start returns as much of a file's first n bytes as can be read.
func (s Source) start(name string, n int) string {
	f, err := s.file(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	buf := make([]byte, n)
	n, _ = io.ReadFull(f, buf)
	return string(buf[:n])
}

// readAll reads all of r, whatever size its container claims for it.
func readAll(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("larger than %d bytes", limit)
	}
	return data, nil
}

// validName says whether name can be that of a zone: up to 64 letters, digits,
// underscores, signs and, between parts, slashes. No zone's name has a dot.
func validName(name string) bool {
	odd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_+-/", r)
	}
	return len(name) <= maxName && fs.ValidPath(name) && !strings.ContainsFunc(name, odd) && name != "Local"
}

func invalidName(name string) error {
	return fmt.Errorf("zoneinfo: %.*q is not the name of a zone: %w", maxName, name, fs.ErrInvalid)
}

// reason leaves out the path, which the caller names.
func reason(err error) error {
	var where *fs.PathError
	if errors.As(err, &where) {
		return where.Err
	}
	return err
}
