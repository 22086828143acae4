// Archives may hold names that lead out of them; with this, archive/zip says so.
//
//go:debug zipinsecurepath=0
package zoneinfo_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/zoneinfo"
	"github.com/almanac-go/almanac/internal/zoneinfo/zonetest"
)

const hour = 60 * 60

// lebanon is the rule of Asia/Beirut since 1993.
const lebanon = "EET-2EEST,M3.5.0/0,M10.5.0/0"

// march is Asia/Beirut as release 2023c has it, from 2022 on.
func march() []byte { return zonetest.File(2*hour, nil, lebanon) }

// april is the same as 2023b had it: summer time was to begin on 21 April.
func april() []byte {
	return zonetest.File(2*hour, []zonetest.Change{
		{At: instant("2022-03-26T22:00:00Z"), Offset: 3 * hour},
		{At: instant("2022-10-29T21:00:00Z"), Offset: 2 * hour},
		{At: instant("2023-04-20T22:00:00Z"), Offset: 3 * hour},
		{At: instant("2023-10-28T21:00:00Z"), Offset: 2 * hour},
	}, lebanon)
}

// disputed is an instant of which the two disagree.
var disputed = instant("2023-04-01T00:00:00Z")

func TestSourceLoadsWrittenFiles(t *testing.T) {
	t.Parallel()
	files := func(beirut []byte) map[string][]byte { return map[string][]byte{"Asia/Beirut": beirut} }

	sources := map[string]struct {
		path, version string
		offset        int // at the disputed instant
	}{
		"a directory":                {writeDir(t, "2023c", files(march())), "2023c", 3 * hour},
		"a directory of another":     {writeDir(t, "2023b", files(april())), "2023b", 2 * hour},
		"a zip file":                 {writeZip(t, "2023c", files(march())), "2023c", 3 * hour},
		"a zip file of another":      {writeZip(t, "2023b", files(april())), "2023b", 2 * hour},
		"a compressed zip file":      {writeDeflated(t, files(april())), "", 2 * hour},
		"a directory of links":       {writeLinked(t, files(april())), "2023b", 2 * hour},
		"a directory without labels": {writeDir(t, "", files(april())), "", 2 * hour},
	}
	for name, tt := range sources {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := zoneinfo.Open(tt.path)
			require.NoError(t, err)
			require.Equal(t, tt.path, s.Path())
			require.Equal(t, tt.version, s.Version())
			location, err := s.Load("Asia/Beirut")
			require.NoError(t, err)
			require.Equal(t, "Asia/Beirut", location.String())
			require.Equal(t, tt.offset, offset(location, disputed))
			require.Equal(t, 3*hour, offset(location, instant("2037-07-01T00:00:00Z")))
			for _, missing := range []string{"Asia/Tokyo", "Asia", "Mars/Base"} {
				_, err = s.Load(missing)
				require.ErrorIs(t, err, fs.ErrNotExist)
				require.ErrorContains(t, err, missing)
				require.ErrorContains(t, err, tt.path)
			}
		})
	}
}

func TestOpenNamesTheProblem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "words", []byte("no zip file"))
	write(t, dir, "TZif.zip", march())
	write(t, dir, "cut.zip", read(t, writeZip(t, "2023c", map[string][]byte{"Asia/Beirut": march()}))[:100])
	write(t, dir, "huge.zip", nil)
	require.NoError(t, os.Truncate(filepath.Join(dir, "huge.zip"), 16<<20+1))
	deep := map[string][]byte{"a/b/c/d": march(), "Asia/Beirut.bak": march(), "Asia/Tokyo": []byte("TZi")}

	tests := map[string]struct{ path, want string }{
		"no path":                        {"", `"" does not exist`},
		"a path to nowhere":              {filepath.Join(dir, "gone"), "gone\" does not exist"},
		"a text file":                    {filepath.Join(dir, "words"), "words: neither a directory nor a zip file"},
		"a zone file":                    {filepath.Join(dir, "TZif.zip"), "TZif.zip: neither a directory nor a zip file"},
		"half a zip file":                {filepath.Join(dir, "cut.zip"), "cut.zip: neither a directory nor a zip file"},
		"a zip file beyond reason":       {filepath.Join(dir, "huge.zip"), "huge.zip: larger than 16777216 bytes"},
		"a device":                       {os.DevNull, os.DevNull + " is neither a directory nor a zip file"},
		"an empty directory":             {t.TempDir(), "holds no zone files"},
		"an empty zip file":              {writeZip(t, "", nil), "holds no zone files"},
		"a directory with a label only":  {writeDir(t, "2023c", nil), "holds no zone files"},
		"a zip file with a label only":   {writeZip(t, "2023c", nil), "holds no zone files"},
		"a directory with other files":   {writeDir(t, "", deep), "holds no zone files"},
		"a zip file with other files":    {writeZip(t, "", map[string][]byte{"x.y": march(), "Asia/Tokyo": nil}), "holds no zone files"},
		"a directory that is its parent": {linked(t), "holds no zone files"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := zoneinfo.Open(tt.path)
			require.ErrorContains(t, err, tt.want)
			require.ErrorContains(t, err, tt.path)
			require.Equal(t, strings.Contains(tt.want, "does not exist"), isNotExist(err))
			require.Zero(t, s)
		})
	}
}

// TestOpenStopsAfterManyFiles looks for a zone file behind more others than any place has.
func TestOpenStopsAfterManyFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 5000 {
		write(t, dir, fmt.Sprintf("a%d", i), nil)
	}
	write(t, dir, "z", march())
	_, err := zoneinfo.Open(dir)
	require.ErrorContains(t, err, "holds no zone files")
}

func TestLoadRefusesPaths(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	write(t, outside, "secret", march())
	dir := filepath.Join(outside, "zones")
	require.NoError(t, zonetest.WriteDir(dir, "2023c", map[string][]byte{"Asia/Beirut": march(), "Local": march(), "a.b": march()}))
	packed := writeZip(t, "2023c", map[string][]byte{"../secret": march(), "/secret": march(), "Local": march(), "a.b": march(), "Asia/Beirut": march()})

	var sources []zoneinfo.Source
	for _, path := range []string{dir, packed} {
		s, err := zoneinfo.Open(path)
		require.NoError(t, err)
		sources = append(sources, s)
	}
	for _, name := range []string{
		"", ".", "..", "/", "../secret", "Asia/../../secret", "/secret", filepath.Join(outside, "secret"), "./Asia/Beirut",
		"Asia//Beirut", "Asia/./Beirut", "Asia/Beirut/", "Asia/", "/Asia/Beirut", `..\secret`, `Asia\Beirut`, `C:\secret`, "C:secret",
		"Asia/Beirut\x00", "Asia/Beirut\n", "Asia/B\u0435irut", "\xff", "Local", "a.b", "+VERSION/..", strings.Repeat("a", 65),
	} {
		for _, s := range sources {
			_, err := s.Load(name)
			require.ErrorIs(t, err, fs.ErrInvalid, "%q", name)
			require.Less(t, len(err.Error()), 400, "%q", name)
		}
		_, _, err := zoneinfo.SystemOf("", nil).Load(name)
		require.ErrorIs(t, err, fs.ErrInvalid, "%q", name)
	}
}

func TestZeroSourceHasNoFiles(t *testing.T) {
	t.Parallel()
	var s zoneinfo.Source
	_, err := s.Load("testdata/words") // which is below the working directory
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Empty(t, s.Path())
	require.Empty(t, s.Version())
}

// TestZipFilesAreReadOnceAndDirectoriesAnew holds a zip file as it was opened, and reads a directory
// anew: the label of the latter is that of the time when it was opened.
func TestZipFilesAreReadOnceAndDirectoriesAnew(t *testing.T) {
	t.Parallel()
	before, after := map[string][]byte{"Asia/Beirut": april()}, map[string][]byte{"Asia/Beirut": march()}
	dir, packed := writeDir(t, "2023b", before), writeZip(t, "2023b", before)
	inDir, err := zoneinfo.Open(dir)
	require.NoError(t, err)
	inZip, err := zoneinfo.Open(packed)
	require.NoError(t, err)

	require.NoError(t, zonetest.WriteDir(dir, "2023c", after))
	require.NoError(t, os.WriteFile(packed, read(t, writeZip(t, "2023c", after)), 0o600))

	for s, want := range map[*zoneinfo.Source]int{&inDir: 3 * hour, &inZip: 2 * hour} {
		location, err := s.Load("Asia/Beirut")
		require.NoError(t, err)
		require.Equal(t, want, offset(location, disputed), s.Path())
		require.Equal(t, "2023b", s.Version(), s.Path())

		again, err := zoneinfo.Open(s.Path())
		require.NoError(t, err)
		require.Equal(t, "2023c", again.Version())
		location, err = again.Load("Asia/Beirut")
		require.NoError(t, err)
		require.Equal(t, 3*hour, offset(location, disputed), s.Path())
	}
}

func TestSourceIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	for _, path := range []string{writeDir(t, "2023b", map[string][]byte{"Asia/Beirut": april()}), writeDeflated(t, map[string][]byte{"Asia/Beirut": april()})} {
		s, err := zoneinfo.Open(path)
		require.NoError(t, err)
		var wg sync.WaitGroup
		offsets := make([]int, 16)
		for i := range offsets {
			wg.Go(func() {
				if location, err := s.Load("Asia/Beirut"); err == nil {
					offsets[i] = offset(location, disputed)
				}
			})
		}
		wg.Wait()
		for _, got := range offsets {
			require.Equal(t, 2*hour, got)
		}
	}
}

func writeDir(t *testing.T, version string, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, zonetest.WriteDir(dir, version, files))
	return dir
}

func writeZip(t *testing.T, version string, files map[string][]byte) string {
	t.Helper()
	data, err := zonetest.Zip(version, files)
	require.NoError(t, err)
	return write(t, t.TempDir(), "zones.zip", data)
}

func writeDeflated(t *testing.T, files map[string][]byte) string {
	t.Helper()
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	for name, data := range files {
		f, err := w.Create(name)
		require.NoError(t, err)
		_, err = f.Write(data)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return write(t, t.TempDir(), "no suffix", archive.Bytes())
}

// writeLinked writes what a cluster mounts: a directory of links into another one,
// whose name begins with dots and changes with each update.
func writeLinked(t *testing.T, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, zonetest.WriteDir(filepath.Join(dir, "..2026"), "2023b", files))
	for _, name := range []string{"Asia", "+VERSION"} {
		require.NoError(t, os.Symlink("..2026/"+name, filepath.Join(dir, name)))
	}
	return dir
}

// linked returns a directory that holds itself.
func linked(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "c", "d"} {
		require.NoError(t, os.Symlink(dir, filepath.Join(dir, name)))
	}
	return dir
}
