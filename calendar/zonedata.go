package calendar

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"sync"

	"github.com/almanac-go/almanac/internal/excerpt"
	"github.com/almanac-go/almanac/internal/zoneinfo"
	"github.com/almanac-go/almanac/internal/zones"
)

// ZoneData is a set of zone rules. A program has its own, [OwnZoneData], by which
// it plans; another can be opened beside it to see what a new release of the IANA
// database would move. It is safe for concurrent use.
type ZoneData struct {
	open  func() (zoneFiles, error) // looks anew where the files are
	mu    sync.Mutex
	files zoneFiles // of the last look; the zero value before the first
	zones sync.Map  // string → *zone; the standard library reads a file anew each time
}

// zoneFiles are the files of one moment.
type zoneFiles struct {
	read    func(name string) (*rules, error)
	release string // tells one release of them from the next; "" where that cannot be told
}

// environment is read when the program begins, which is when Go reads it.
var environment = os.Getenv("ZONEINFO")

var own = &ZoneData{open: func() (zoneFiles, error) {
	system := zoneinfo.System(environment)
	read := func(name string) (*rules, error) {
		location, version, err := system.Load(name)
		return &rules{location: location, version: version}, err
	}
	return zoneFiles{read, releaseOf(system.Sources()...)}, nil
}}

// releaseOf names what sources hold together.
func releaseOf(sources ...zoneinfo.Source) string {
	release := "own copy last" // which changes with the program only
	for _, s := range sources {
		if s.Version() == "" {
			return ""
		}
		release += "; " + s.Version() + " in " + s.Path()
	}
	return release
}

// OwnZoneData returns the rules by which this program plans. They come from where
// [time.LoadLocation] finds them: the ZONEINFO environment variable, the system's directories,
// or an embedded copy when the program imports time/tzdata. A file that exists but cannot be
// read is an error. The next source is not tried, because it may have another release.
func OwnZoneData() *ZoneData { return own }

// OpenZoneData returns the rules in a directory of zone files, such as /usr/share/zoneinfo, or in a
// zip file of them, such as the Go toolchain's lib/time/zoneinfo.zip. A zone is read when it is
// first asked for. The error matches [fs.ErrNotExist] when there is nothing at path.
func OpenZoneData(path string) (*ZoneData, error) {
	d := &ZoneData{open: func() (zoneFiles, error) {
		source, err := zoneinfo.Open(path)
		read := func(name string) (*rules, error) {
			location, err := source.Load(name)
			return &rules{location: location, version: source.Version()}, err
		}
		return zoneFiles{read, releaseOf(source)}, err
	}}
	if err := d.Reload(); err != nil {
		return nil, err
	}
	return d, nil
}

// Timezone returns the zone of an IANA name under these rules. Names and errors are
// those of [LoadTimezone].
func (d *ZoneData) Timezone(name string) (Timezone, error) {
	if len(name) > maxZoneName {
		return Timezone{}, &InvalidTimezoneError{Name: excerpt.Of(name, maxZoneName)}
	}
	proper, canonical, ok := zones.Lookup(name)
	if !ok {
		return Timezone{}, &InvalidTimezoneError{Name: name, Suggestion: zones.Nearest(name)}
	}
	if z, ok := d.zones.Load(proper); ok {
		return Timezone{z.(*zone)}, nil
	}
	d.mu.Lock() // until the zone is stored, so that a reload does not miss it
	defer d.mu.Unlock()
	r, err := d.read(proper)
	if err != nil {
		return Timezone{}, &InvalidTimezoneError{Name: proper, NoData: true, Err: err}
	}
	fresh := &zone{name: proper, canonical: canonical}
	fresh.rules.Store(r)
	z, _ := d.zones.LoadOrStore(proper, fresh)
	return Timezone{z.(*zone)}, nil
}

// read reads the file of a zone. The caller holds d.mu.
func (d *ZoneData) read(name string) (*rules, error) {
	if d.files.read == nil {
		var err error
		if d.files, err = d.open(); err != nil {
			return nil, err
		}
	}
	return d.files.read(name)
}

// Reload reads again every zone that was ever loaded, as after an update of the system's zone
// files: all Timezones of d follow the new rules from then on. A zone whose file is gone or
// broken keeps the rules that it has; the error names those that are broken.
func (d *ZoneData) Reload() error {
	files, err := d.open()
	if err != nil {
		return err
	}
	return d.replace(files)
}

// Refresh reloads as [ZoneData.Reload] does, if the files are those of another release, or if
// their release is not known. It is cheap otherwise, so it can be called now and then.
func (d *ZoneData) Refresh() error {
	files, err := d.open()
	if err != nil {
		return err
	}
	d.mu.Lock()
	same := files.release != "" && files.release == d.files.release
	d.mu.Unlock()
	if same {
		return nil
	}
	return d.replace(files)
}

func (d *ZoneData) replace(files zoneFiles) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files = files
	var errs []error
	d.zones.Range(func(name, z any) bool {
		r, err := files.read(name.(string))
		if err == nil {
			z.(*zone).rules.Store(r)
		} else if !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		return true
	})
	return errors.Join(errs...)
}

// TimezoneNames returns the names that [LoadTimezone] accepts, links included, in
// alphabetical order. Not every machine has data for all of them. The caller owns the slice.
func TimezoneNames() []string {
	names := zones.Names()
	slices.Sort(names)
	return names
}
