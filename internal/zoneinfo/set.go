package zoneinfo

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"time"
)

// A Set is the places where a program looks for zone files, in order. After the
// last of them comes the program's own copy: the one that it embeds by importing
// time/tzdata, otherwise that of the Go installation. A Set is a value, safe for
// concurrent use. The zero Set has no zone but UTC.
type Set struct {
	places []place
	named  *place // the one that ZONEINFO names, be it there or not; nil for none
	own    bool   // whether the program's own copy comes last
}

// place is a source, or what is wrong with one that is there.
type place struct {
	source Source
	broken error
}

// System returns the places where [time.LoadLocation] looks, as they are now:
// zoneinfoEnv, which is the directory or zip file that the environment variable
// ZONEINFO names and may be "", and the directories of the operating system.
//
// Pass the value that the variable had when the program began. Go reads it once,
// and a Set asks Go for what it does not find itself.
func System(zoneinfoEnv string) Set { return system(zoneinfoEnv, directories()) }

// Err returns what is wrong with the place that ZONEINFO names, or nil. Where it
// does not exist or holds no zone files, the Set goes on without it, as Go does, and
// a program should warn. Where it cannot be read, Load fails.
func (s Set) Err() error {
	switch {
	case s.named == nil:
		return nil
	case s.named.broken != nil:
		return s.named.broken
	}
	return s.named.source.empty()
}

// Sources returns those of the places that exist and can be read, in order. The
// program's own copy is none of them.
func (s Set) Sources() []Source {
	var sources []Source
	for _, p := range s.places {
		if p.broken == nil {
			sources = append(sources, p.source)
		}
	}
	return sources
}

// Load returns the zone of a name from the first place that has it, and the
// version of the data of that place, or "" where it is unknown. So the zones of
// one Set may have different versions. UTC needs no data and has no version.
//
// A file that is there but cannot be read, or is malformed, ends the search with
// an error that names it. [time.LoadLocation] would go on to the next place, and
// nobody would know that plans follow other rules than those installed.
//
// The version of the program's own copy is that of the Go release which built the
// program, and "" for a release that this package does not know. It is wrong where
// the program embeds none and finds another release's installation.
//
// The error matches [fs.ErrNotExist] where no place has the zone, and
// [fs.ErrInvalid] where name cannot be that of one, as for [Source.Load].
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

// add adds a place, as opened, if it exists. That it seems empty is no reason to
// leave it out: perhaps all its files are broken.
func (s *Set) add(source Source, err error) {
	if !errors.Is(err, fs.ErrNotExist) {
		s.places = append(s.places, place{source, err})
	}
}

// directories returns where the operating system may keep zone files, which is
// what package time knows. The others have none that Go reads as files.
func directories() []string {
	if slices.Contains([]string{"windows", "plan9", "android", "ios"}, runtime.GOOS) {
		return nil
	}
	return []string{"/usr/share/zoneinfo", "/usr/share/lib/zoneinfo", "/usr/lib/locale/TZ", "/etc/zoneinfo"}
}
