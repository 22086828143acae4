package zoneinfo

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"time"
)

// A Set is the sources in which a program looks for zone files, in order. The last is the
// program's own copy: the one embedded by importing time/tzdata, or that of the Go
// installation. A Set is a value, safe for concurrent use. The zero Set has no zone but UTC.
type Set struct {
	places []place
	named  *place // the source that ZONEINFO names, even if missing; nil for none
	own    bool   // whether the program's own copy is the last source
}

// place is a source, or the error of an existing one.
type place struct {
	source Source
	broken error
}

// System returns the sources that [time.LoadLocation] uses, as they are now. These are
// zoneinfoEnv, the directory or zip file of the environment variable ZONEINFO, which may be
// "", and the directories of the operating system.
//
// Pass the value that the variable had when the program began. Go reads the variable only
// once, and a Set asks Go for zones that it does not find itself.
func System(zoneinfoEnv string) Set { return system(zoneinfoEnv, directories()) }

// Err returns what is wrong with the source that ZONEINFO names, or nil. If that does not
// exist or has no zone files, the Set works without it, as Go does, and a program should
// warn. If it cannot be read, Load fails.
func (s Set) Err() error {
	switch {
	case s.named == nil:
		return nil
	case s.named.broken != nil:
		return s.named.broken
	}
	return s.named.source.empty()
}

// Sources returns the sources that exist and can be read, in order, without the program's own copy.
func (s Set) Sources() []Source {
	var sources []Source
	for _, p := range s.places {
		if p.broken == nil {
			sources = append(sources, p.source)
		}
	}
	return sources
}

// Load returns the zone of a name from the first source that has it, and the version of
// that source's data, or "" if unknown. The zones of one Set may therefore have different
// versions. UTC needs no data and has no version.
//
// A file that cannot be read or is malformed ends the search with an error that names it.
// [time.LoadLocation] would silently continue with the next source, and plans would follow
// other rules than the installed ones.
//
// The version of the program's own copy is that of the Go release that built the program,
// or "" for a release that this package does not know. It is wrong if the program embeds no
// data and finds another release's installation.
//
// The error matches [fs.ErrNotExist] if no source has the zone. It matches [fs.ErrInvalid]
// if name cannot be the name of a zone, as for [Source.Load].
func (s Set) Load(name string) (location *time.Location, version string, err error) {
	switch {
	case !validName(name):
		return nil, "", invalidName(name)
	case name == "UTC":
		return time.UTC, "", nil
	}
	for _, p := range s.places {
		if p.broken != nil {
			return nil, "", p.broken
		}
		location, err := p.source.Load(name)
		if err == nil {
			return location, p.source.Version(), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, "", err
		}
	}
	if !s.own {
		return nil, "", fmt.Errorf("zoneinfo: no file %s: %w", name, fs.ErrNotExist)
	}
	if location, err = time.LoadLocation(name); err != nil {
		return nil, "", fmt.Errorf("zoneinfo: no file %s anywhere (%w): %w", name, err, fs.ErrNotExist)
	}
	return location, ownVersion(), nil
}

// system is System for given directories of the operating system.
func system(zoneinfoEnv string, directories []string) Set {
	s := Set{own: true}
	if zoneinfoEnv != "" {
		source, err := open(zoneinfoEnv)
		s.add(source, err)
		s.named = &place{source, err}
	}
	for _, dir := range directories {
		s.add(open(dir))
	}
	return s
}

// add adds an opened source, if it exists. It keeps a source that seems empty, because all
// its files may be damaged.
func (s *Set) add(source Source, err error) {
	if !errors.Is(err, fs.ErrNotExist) {
		s.places = append(s.places, place{source, err})
	}
}

// directories returns the operating system's directories of zone files that package time
// uses. Other systems have none that Go reads as files.
func directories() []string {
	if slices.Contains([]string{"windows", "plan9", "android", "ios"}, runtime.GOOS) {
		return nil
	}
	return []string{"/usr/share/zoneinfo", "/usr/share/lib/zoneinfo", "/usr/lib/locale/TZ", "/etc/zoneinfo"}
}
