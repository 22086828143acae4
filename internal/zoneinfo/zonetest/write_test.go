package zonetest_test

import (
	"archive/zip"
	"bytes"
	"io"
	"io/fs"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/zoneinfo/zonetest"
)

func TestWriteDir(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/new/zones"
	require.NoError(t, zonetest.WriteDir(dir, "2023c", map[string][]byte{"Asia/Beirut": []byte("a"), "UTC": []byte("b")}))
	require.Equal(t, map[string]string{"Asia/Beirut": "a", "UTC": "b", "+VERSION": "2023c\n"}, contents(t, os.DirFS(dir)))

	bare := t.TempDir()
	require.NoError(t, zonetest.WriteDir(bare, "", nil))
	require.Empty(t, contents(t, os.DirFS(bare)))

	require.Error(t, zonetest.WriteDir(dir+"/UTC", "2023c", nil), "a directory in place of a file")
	require.Error(t, zonetest.WriteDir(dir, "", map[string][]byte{"UTC/GMT": nil}), "a directory in place of a file")
	require.Error(t, zonetest.WriteDir(dir, "", map[string][]byte{"Asia": nil}), "a file in place of a directory")
}

func TestZip(t *testing.T) {
	t.Parallel()
	archive, err := zonetest.Zip("2023c", map[string][]byte{"Asia/Beirut": []byte("a"), "UTC": []byte("b")})
	require.NoError(t, err)
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"Asia/Beirut": "a", "UTC": "b", "+VERSION": "2023c\n"}, contents(t, r))
	for _, f := range r.File {
		require.Equal(t, zip.Store, f.Method)
	}
}

func contents(t *testing.T, fsys fs.FS) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		f, err := fsys.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		data, err := io.ReadAll(f)
		files[name] = string(data)
		return err
	}))
	return files
}
