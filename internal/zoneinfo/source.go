// Package zoneinfo finds a program's time zone files, and their version of the IANA time zone database.
//
// [time.LoadLocation] reports neither. If it cannot read a file, it silently uses the next
// source that has one, and so mixes versions. This package reports such a file.
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
	// maxFile bounds a zone file. The database's largest has less than 4 KiB.
	maxFile = 1 << 20
	// maxArchive bounds a zip file, which is kept in memory. Go's has 400 KiB, and all
	// 1,800 files of Debian have 2.4 MiB.
	maxArchive = 16 << 20
	// maxName exceeds every name of the database (32 bytes), also with the prefix "posix/" or "right/".
	maxName = 64
)

// A Source is a directory of zone files, or a zip file of one. It is a value, safe for
// concurrent use, and need not be closed. The zero Source has no files.
//
// A zip file is read when it is opened, and later changes have no effect. For a directory
// only the version is read when it is opened: open it again after an update.
type Source struct {
	path    string
	version string
	archive map[string]*zip.File // by name; nil for a directory
}

// Open returns the source at path: a directory such as /usr/share/zoneinfo, or a zip file
// with any name, such as Go's zoneinfo.zip. The files in a zip file may be compressed,
// which Go itself does not support. A zip file of more than 16 MiB is refused.
//
// The error says what is wrong with path. It matches [fs.ErrNotExist] if path does not
// exist. A source without any zone file is an error too.
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

// Version returns the version of the IANA data in s, such as "2026f", or "" if unknown. It is read
// when s is opened, from the file "+VERSION", the file "version" or the first line of "tzdata.zi",
// in this order. For the zoneinfo.zip of a Go installation it comes from the script "update.bash"
// beside it. A text that is not a release, such as "2026a-dirty", does not count.
func (s Source) Version() string { return s.version }

// Load reads and returns the zone of a name.
//
// The error matches [fs.ErrNotExist] if s has no such file. It matches [fs.ErrInvalid] if
// name is not a zone name but a path ("/etc/passwd", "../x", "./x") or "Local". Any other
// error is about an existing file: it cannot be read, has more than 1 MiB, or is malformed
// or truncated. Each error names the file and s.
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

// open is Open for a source that may be empty.
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
	case !info.Mode().IsRegular(): // reading a pipe or a device may never end
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
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // insecure names are never requested
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

// read returns the file of a zone. The caller has validated the name.
func (s Source) read(name string) ([]byte, error) {
	f, err := s.file(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, maxFile)
}

// file opens a regular file of s. For other files it returns fs.ErrNotExist, or an error
// before it would block.
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

// failure adds the file and s to an error.
func (s Source) failure(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("zoneinfo: no file %s in %q: %w", name, s.path, fs.ErrNotExist)
	}
	return fmt.Errorf("zoneinfo: file %s in %s: %w", name, s.path, reason(err))
}

// start returns up to the first n bytes of a file.
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

// readAll reads all of r, whatever size its container claims.
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

// validName reports whether name can be the name of a zone: up to 64 letters, digits,
// underscores, signs and, between parts, slashes. Zone names have no dots.
func validName(name string) bool {
	odd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_+-/", r)
	}
	return len(name) <= maxName && fs.ValidPath(name) && !strings.ContainsFunc(name, odd) && name != "Local"
}

func invalidName(name string) error {
	return fmt.Errorf("zoneinfo: %.*q is not the name of a zone: %w", maxName, name, fs.ErrInvalid)
}

// reason returns the error without the path, which the caller adds.
func reason(err error) error {
	if where, ok := errors.AsType[*fs.PathError](err); ok {
		return where.Err
	}
	return err
}

// maxLooks bounds the search of a directory that may have no zone file.
const maxLooks = 4096

// empty returns an error if s has no zone file, or if none can be searched for.
func (s Source) empty() error {
	if s.archive == nil {
		dir, err := os.Open(s.path)
		if err != nil {
			return fmt.Errorf("zoneinfo: %s: %w", s.path, reason(err))
		}
		dir.Close()
		looks := 0
		if s.holdsZones("", 3, &looks) {
			return nil
		}
	}
	for name := range s.archive { // bounded in size
		if validName(name) && s.isZone(name) {
			return nil
		}
	}
	return fmt.Errorf("zoneinfo: %s holds no zone files", s.path)
}

// holdsZones searches a directory of s, and its subdirectories to the depth of zone names.
// It follows symbolic links, because some sources consist of them.
func (s Source) holdsZones(dir string, depth int, looks *int) bool {
	entries, err := os.ReadDir(filepath.Join(s.path, filepath.FromSlash(dir)))
	if err != nil || depth == 0 {
		return false
	}
	for _, entry := range entries {
		if *looks++; *looks > maxLooks {
			return false
		}
		name := strings.TrimPrefix(dir+"/"+entry.Name(), "/")
		if !validName(name) {
			continue // not the name of a zone or of a directory of zones
		}
		if s.isZone(name) || entry.Type()&(fs.ModeDir|fs.ModeSymlink) != 0 && s.holdsZones(name, depth-1, looks) {
			return true
		}
	}
	return false
}

func (s Source) isZone(name string) bool {
	return s.start(name, len(magic)) == magic
}
