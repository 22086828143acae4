package zoneinfo_test

import (
	"archive/zip"
	"bytes"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/zoneinfo"
	"github.com/almanac-go/almanac/internal/zoneinfo/zonetest"
)

// fat is a zone file whose footer makes it so many bytes long.
func fat(size int) []byte {
	return zonetest.File(2*hour, nil, strings.Repeat(" ", size-len(zonetest.File(2*hour, nil, ""))))
}

func TestLoadReportsBrokenFiles(t *testing.T) {
	t.Parallel()
	whole := april()
	tests := map[string]struct {
		file []byte
		want string // "" means that the file is whole
	}{
		"a whole file":                    {whole, ""},
		"a file of a mebibyte":            {fat(1 << 20), ""},
		"a file of a byte more":           {fat(1<<20 + 1), "larger than 1048576 bytes"},
		"an empty file":                   {nil, "malformed zone file"},
		"text":                            {[]byte("<!DOCTYPE html>"), "malformed zone file"},
		"the magic alone":                 {[]byte("TZif"), "malformed zone file"},
		"a header alone":                  {whole[:44], "malformed zone file"},
		"a second line after the footer":  {append(bytes.Clone(whole), '\n'), "malformed zone file"},
		"garbage after the footer":        {append(bytes.Clone(whole), "garbage"...), "malformed zone file"},
		"a file of a version unheard of":  {bytes.Replace(whole, []byte("TZif2"), []byte("TZif9"), 1), "malformed zone file"},
		"a footer on no line of its own":  {bytes.Replace(whole, []byte("\nEET"), []byte("EET"), 1), "malformed zone file"},
		"a footer with a control in it":   {zonetest.File(0, nil, "EET-2\x00"), "malformed zone file"},
		"a footer beyond ASCII":           {zonetest.File(0, nil, "ÉET-2"), "malformed zone file"},
		"a change to a type that is none": {bytes.Replace(whole, []byte{1, 0, 1, 0}, []byte{1, 0, 9, 0}, 1), "malformed zone file"},
		"a second block that is none":     {append(bytes.Clone(whole[:51]), append([]byte("XXXX"), whole[55:]...)...), "malformed zone file"},
		"a count of minus one":            {bytes.Replace(whole, []byte{0, 0, 0, 4}, []byte{255, 255, 255, 255}, 1), "malformed zone file"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string][]byte{"Asia/Beirut": tt.file, "Asia/Tokyo": march()}
			for _, path := range []string{writeDir(t, "2023b", files), writeZip(t, "2023b", files), writeDeflated(t, files)} {
				s, err := zoneinfo.Open(path)
				require.NoError(t, err)
				_, err = s.Load("Asia/Tokyo")
				require.NoError(t, err)
				_, err = s.Load("Asia/Beirut")
				if tt.want == "" {
					require.NoError(t, err)
					continue
				}
				require.EqualError(t, err, "zoneinfo: file Asia/Beirut in "+path+": "+tt.want)
				require.False(t, isNotExist(err))
			}
		})
	}
}

// TestLoadReportsEveryCut cuts a file after each of its bytes. Go itself takes some
// of the pieces for whole files of a zone without rules.
func TestLoadReportsEveryCut(t *testing.T) {
	t.Parallel()
	whole := april()
	files := map[string][]byte{"Asia/Beirut": whole}
	dir := writeDir(t, "", files)
	s, err := zoneinfo.Open(dir)
	require.NoError(t, err)
	for n := range whole {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "Asia/Beirut"), whole[:n], 0o600))
		_, err := s.Load("Asia/Beirut")
		require.ErrorContains(t, err, "malformed zone file", "%d of %d bytes", n, len(whole))
	}
}

func TestLoadReportsEntriesThatAreNoFiles(t *testing.T) {
	t.Parallel()
	dir := writeDir(t, "", map[string][]byte{"Asia/Beirut": march(), "Europe": march()})
	require.NoError(t, os.Symlink("Beirut", filepath.Join(dir, "Asia/Alias")))
	require.NoError(t, os.Symlink("Gone", filepath.Join(dir, "Asia/Dangling")))
	require.NoError(t, os.Symlink("Endless", filepath.Join(dir, "Asia/Endless")))
	require.NoError(t, os.Symlink(os.DevNull, filepath.Join(dir, "Asia/Device")))
	s, err := zoneinfo.Open(dir)
	require.NoError(t, err)

	_, err = s.Load("Asia/Alias")
	require.NoError(t, err)
	for name, want := range map[string]string{
		"Asia/Dangling": "a link to Gone, where nothing is",
		"Asia/Endless":  "",
		"Asia/Device":   "not a regular file",
		"Europe/Berlin": "", // as Europe is no directory
	} {
		_, err := s.Load(name)
		require.ErrorContains(t, err, "zoneinfo: file "+name+" in "+dir+": "+want)
		require.False(t, isNotExist(err), name)
	}
}

func TestLoadReportsBrokenArchives(t *testing.T) {
	t.Parallel()
	stored := read(t, writeZip(t, "", map[string][]byte{"Asia/Beirut": april(), "Asia/Tokyo": march()}))
	changed := bytes.Replace(stored, []byte("EET-2EEST"), []byte("EET-3EEST"), 1)

	tests := map[string]struct {
		archive []byte
		want    string
	}{
		"a bit that fell over":    {changed, "checksum error"},
		"a size of four GiB":      {archived(t, zip.Store, march(), 1<<32-2), "unexpected EOF"},
		"a size that is too low":  {archived(t, zip.Store, march(), 10), "checksum error"},
		"an unknown compression":  {archived(t, 99, march(), uint64(len(march()))), "unsupported compression"},
		"broken compression":      {archived(t, zip.Deflate, []byte("\xff\xff\xff"), 100), "corrupt"},
		"a size below compressed": {archived(t, zip.Deflate, nil, 0), "EOF"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := zoneinfo.Open(write(t, t.TempDir(), "zones.zip", tt.archive))
			require.NoError(t, err)
			_, err = s.Load("Asia/Beirut")
			require.ErrorContains(t, err, "zoneinfo: file Asia/Beirut in "+s.Path()+": ")
			require.ErrorContains(t, err, tt.want)
			require.False(t, isNotExist(err))
		})
	}
}

// TestLoadTakesTheFirstOfTwoEntries does as Go does with two files of one name.
func TestLoadTakesTheFirstOfTwoEntries(t *testing.T) {
	t.Parallel()
	twice := read(t, writeZip(t, "", map[string][]byte{"Asia/Beirut": april(), "Asia/Tokyo_": march()}))
	s, err := zoneinfo.Open(write(t, t.TempDir(), "zones.zip", bytes.ReplaceAll(twice, []byte("Asia/Tokyo_"), []byte("Asia/Beirut"))))
	require.NoError(t, err)
	location, err := s.Load("Asia/Beirut")
	require.NoError(t, err)
	require.Equal(t, 2*hour, offset(location, disputed))
}

// TestLoadStopsReading loads what is 16 KiB in a zip file and 16 MiB outside.
func TestLoadStopsReading(t *testing.T) {
	t.Parallel()
	bomb := append(zonetest.File(0, nil, ""), make([]byte, 16<<20)...)
	s, err := zoneinfo.Open(writeDeflated(t, map[string][]byte{"Asia/Beirut": bomb}))
	require.NoError(t, err)
	_, err = s.Load("Asia/Beirut")
	require.ErrorContains(t, err, "larger than 1048576 bytes")
}

// archived returns a zip file with Asia/Beirut as the given bytes, claimed to be of
// a size, and a zone file beside it.
func archived(t *testing.T, method uint16, data []byte, size uint64) []byte {
	t.Helper()
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	compressed := uint64(len(data))
	if method == zip.Store {
		compressed = size // where they differ, it is no zip file at all
	}
	f, err := w.CreateRaw(&zip.FileHeader{
		Name: "Asia/Beirut", Method: method, CRC32: crc32.ChecksumIEEE(data), CompressedSize64: compressed, UncompressedSize64: size,
	})
	require.NoError(t, err)
	_, err = f.Write(data)
	require.NoError(t, err)
	f, err = w.Create("Asia/Tokyo")
	require.NoError(t, err)
	_, err = io.Copy(f, bytes.NewReader(march()))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return archive.Bytes()
}
