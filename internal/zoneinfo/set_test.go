package zoneinfo_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/zoneinfo"
	"github.com/almanac-go/almanac/internal/zoneinfo/zonetest"
	"github.com/almanac-go/almanac/internal/zones"
)

func TestSetLoadsFromTheFirstSourceWithTheZone(t *testing.T) {
	t.Parallel()
	one := zonetest.File(hour, nil, "")
	named := writeZip(t, "2026f", map[string][]byte{"Asia/Beirut": april()})
	first := writeDir(t, "2025c", map[string][]byte{"Asia/Beirut": march(), "Asia/Tokyo": one})
	second := writeDir(t, "", map[string][]byte{"Asia/Beirut": march(), "Asia/Tokyo": march(), "Asia/Seoul": one, "UTC": one})
	gone := filepath.Join(t.TempDir(), "gone")
	set := zoneinfo.SystemOf(named, []string{gone, first, t.TempDir(), second})
	require.NoError(t, set.Err())

	for name, want := range map[string]struct {
		version string
		offset  int
	}{
		"Asia/Beirut": {"2026f", 2 * hour},
		"Asia/Tokyo":  {"2025c", hour},
		"Asia/Seoul":  {"", hour},
		"UTC":         {"", 0}, // whatever files say
		"Asia/Kabul":  {zoneinfo.OwnVersion(), 4*hour + hour/2},
	} {
		location, version, err := set.Load(name)
		require.NoError(t, err)
		require.Equal(t, name, location.String())
		require.Equal(t, want.version, version, name)
		require.Equal(t, want.offset, offset(location, disputed), name)
	}
	_, _, err := set.Load("Mars/Base")
	require.True(t, isNotExist(err))
	require.ErrorContains(t, err, "Mars/Base")

	var paths []string
	for _, s := range set.Sources() {
		paths = append(paths, s.Path())
	}
	require.Equal(t, named, paths[0])
	require.Equal(t, first, paths[1])
	require.Equal(t, second, paths[3])
	require.Len(t, paths, 4, "an empty directory is a source, a missing one is none")
}

// TestSetNeverReplacesABrokenFile has the same zone whole in the next place, where
// time.LoadLocation would take it.
func TestSetNeverReplacesABrokenFile(t *testing.T) {
	t.Parallel()
	broken := map[string][]byte{"Asia/Beirut": bytes.TrimSuffix(april(), []byte{'\n'})}
	whole := writeDir(t, "2023c", map[string][]byte{"Asia/Beirut": march(), "Asia/Tokyo": march()})
	text := write(t, t.TempDir(), "zones.zip", []byte("no zip file"))

	tests := map[string]struct {
		named       string
		directories []string
		want        string // the error for Asia/Beirut names it
		others      bool   // whether other zones come from the next place
	}{
		"a broken file in the named directory":   {writeDir(t, "", broken), []string{whole}, "file Asia/Beirut in ", true},
		"a broken file in the named zip file":    {writeZip(t, "", broken), []string{whole}, "file Asia/Beirut in ", true},
		"a broken file in the first directory":   {"", []string{writeDir(t, "", broken), whole}, "file Asia/Beirut in ", true},
		"nothing but broken files":               {writeDir(t, "", broken), nil, "file Asia/Beirut in ", true},
		"a named file that is no zip file":       {text, []string{whole}, text + ": neither a directory nor a zip file", false},
		"a named file below another":             {filepath.Join(text, "x"), []string{whole}, text, false},
		"a directory of the system that is none": {"", []string{text, whole}, text + ": neither a directory nor a zip file", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := zoneinfo.SystemOf(tt.named, tt.directories)
			_, version, err := set.Load("Asia/Beirut")
			require.ErrorContains(t, err, tt.want)
			require.False(t, isNotExist(err))
			require.Empty(t, version)

			_, _, err = set.Load("Asia/Tokyo")
			require.Equal(t, tt.others, err == nil, err)
			location, _, err := set.Load("UTC")
			require.NoError(t, err)
			require.Same(t, time.UTC, location)
		})
	}
}

func TestSetReportsErrorsOfTheNamedSource(t *testing.T) {
	t.Parallel()
	whole := writeDir(t, "2023c", map[string][]byte{"Asia/Beirut": march()})

	tests := map[string]struct {
		named string
		want  string // what is wrong, "" for nothing
		loads bool
	}{
		"none":                         {"", "", true},
		"a source with zones":          {whole, "", true},
		"a source that does not exist": {filepath.Join(whole, "gone"), "does not exist", true},
		"an empty source":              {t.TempDir(), "holds no zone files", true},
		"a source that cannot be read": {write(t, t.TempDir(), "x", nil), "neither a directory nor a zip file", false},
		"a source with text only":      {writeDir(t, "", map[string][]byte{"Asia/Tokyo": []byte("東京")}), "holds no zone files", true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := zoneinfo.SystemOf(tt.named, []string{whole})
			if tt.want == "" {
				require.NoError(t, set.Err())
			} else {
				require.ErrorContains(t, set.Err(), tt.want)
				require.ErrorContains(t, set.Err(), tt.named)
			}
			location, version, err := set.Load("Asia/Beirut")
			require.Equal(t, tt.loads, err == nil, err)
			for _, s := range set.Sources() {
				require.NotEmpty(t, s.Path(), "a place that cannot be read")
			}
			if tt.loads {
				require.Equal(t, "2023c", version)
				require.Equal(t, 3*hour, offset(location, disputed))
			}
		})
	}
}

func TestSetReportsANamedSourceThatVanished(t *testing.T) {
	t.Parallel()
	dir := writeDir(t, "2023c", map[string][]byte{"Asia/Beirut": march()})
	set := zoneinfo.SystemOf(dir, nil)
	require.NoError(t, set.Err())
	require.NoError(t, os.RemoveAll(dir))
	require.True(t, isNotExist(set.Err()))
	require.ErrorContains(t, set.Err(), dir)
}

func TestZeroSetHasNoZoneButUTC(t *testing.T) {
	t.Parallel()
	var set zoneinfo.Set
	require.NoError(t, set.Err())
	require.Empty(t, set.Sources())
	_, _, err := set.Load("Asia/Beirut")
	require.True(t, isNotExist(err))
	location, version, err := set.Load("UTC")
	require.NoError(t, err)
	require.Same(t, time.UTC, location)
	require.Empty(t, version)
}

// TestSystemReadsUpdatedFiles updates a directory as a package manager does, in place.
func TestSystemReadsUpdatedFiles(t *testing.T) {
	t.Parallel()
	dir := writeDir(t, "2023b", map[string][]byte{"Asia/Beirut": april()})
	for _, want := range []struct {
		version string
		offset  int
		next    []byte
	}{{"2023b", 2 * hour, march()}, {"2023c", 3 * hour, march()}} {
		location, version, err := zoneinfo.System(dir).Load("Asia/Beirut")
		require.NoError(t, err)
		require.Equal(t, want.version, version)
		require.Equal(t, want.offset, offset(location, disputed))
		require.NoError(t, zonetest.WriteDir(dir, "2023c", map[string][]byte{"Asia/Beirut": want.next}))
	}
}

// TestSystemAgreesWithGo loads every zone from wherever this machine has it.
func TestSystemAgreesWithGo(t *testing.T) {
	t.Parallel()
	set := zoneinfo.System(os.Getenv("ZONEINFO"))
	for _, name := range zones.Names() {
		want, wantErr := time.LoadLocation(name)
		got, version, err := set.Load(name)
		require.Equal(t, wantErr == nil, err == nil, "%s: %v, but Go says %v", name, err, wantErr)
		if err != nil {
			continue
		}
		if _, ok := zoneinfo.Compare(version, "2025a"); !ok {
			require.Empty(t, version)
		}
		require.Equal(t, name, got.String())
		for year := 1880; year < 2060; year++ {
			at := time.Date(year, time.July, 1, 0, 0, 0, 0, time.UTC)
			require.Equal(t, offset(want, at), offset(got, at), "%s at %v", name, at)
			require.Equal(t, offset(want, at.AddDate(0, 6, 0)), offset(got, at.AddDate(0, 6, 0)), "%s half a year after %v", name, at)
		}
	}
}
