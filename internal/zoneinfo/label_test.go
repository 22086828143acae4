package zoneinfo_test

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/zoneinfo"
	"github.com/almanac-go/almanac/internal/zoneinfo/zonetest"
	"github.com/almanac-go/almanac/internal/zones"
)

func TestVersion(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	tests := map[string]struct {
		files map[string]string
		want  string
	}{
		"no label":                          {nil, ""},
		"+VERSION":                          {map[string]string{"+VERSION": "2025b\n"}, "2025b"},
		"+VERSION without a line end":       {map[string]string{"+VERSION": "2025b"}, "2025b"},
		"+VERSION with a carriage return":   {map[string]string{"+VERSION": "2025b\r\n"}, "2025b"},
		"version":                           {map[string]string{"version": "2025b\n"}, "2025b"},
		"the sources":                       {map[string]string{"tzdata.zi": "# version 2025b\n# redo posix_only\n" + long}, "2025b"},
		"+VERSION before version":           {map[string]string{"+VERSION": "2025b", "version": "2025c"}, "2025b"},
		"version before the sources":        {map[string]string{"version": "2025c", "tzdata.zi": "# version 2025b"}, "2025c"},
		"a label after something else":      {map[string]string{"+VERSION": "", "version": "unknown", "tzdata.zi": "# version 2025b"}, "2025b"},
		"a state between releases":          {map[string]string{"tzdata.zi": "# version 2025b-12-g1234567-dirty\n"}, ""},
		"sources without a version":         {map[string]string{"tzdata.zi": "# This zic input file is in the public domain.\n"}, ""},
		"a version on the second line":      {map[string]string{"tzdata.zi": "#\n# version 2025b\n"}, ""},
		"a form of another file":            {map[string]string{"+VERSION": "# version 2025b\n"}, ""},
		"a label that is too long":          {map[string]string{"+VERSION": "2025b" + long}, ""},
		"a label that begins too far right": {map[string]string{"+VERSION": strings.Repeat(" ", 100) + "2025b"}, ""},
		"bytes":                             {map[string]string{"+VERSION": "\xff\xfe2\x000\x002\x005\x00b\x00"}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string][]byte{"Asia/Beirut": march()}
			for name, text := range tt.files {
				files[name] = []byte(text)
			}
			for _, path := range []string{writeDir(t, "", files), writeZip(t, "", files), writeDeflated(t, files)} {
				s, err := zoneinfo.Open(path)
				require.NoError(t, err)
				require.Equal(t, tt.want, s.Version(), path)
			}
		})
	}
}

func TestTheVersionOfAZipFileComesFromTheScriptBesideIt(t *testing.T) {
	t.Parallel()
	const script = "#!/bin/bash\n# update CODE and DATA below\nCODE=2025b\nDATA=2025c\n\nset -e\n"
	tests := map[string]struct {
		zip, script string
		files       map[string][]byte
		want        string
	}{
		"the script of Go":          {"zoneinfo.zip", script, nil, "2025c"},
		"no script":                 {"zoneinfo.zip", "", nil, ""},
		"a script without a label":  {"zoneinfo.zip", "#!/bin/bash\nDATA=$1\n", nil, ""},
		"a truncated label":         {"zoneinfo.zip", "#!/bin/bash\nDATA=2025c", nil, ""},
		"a zip file of other makes": {"mine.zip", script, nil, ""},
		"a label in the zip file":   {"zoneinfo.zip", script, map[string][]byte{"+VERSION": []byte("2025b")}, "2025b"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string][]byte{"Asia/Beirut": march()}
			maps.Copy(files, tt.files)
			data, err := zonetest.Zip("", files)
			require.NoError(t, err)
			dir := t.TempDir()
			if tt.script != "" {
				write(t, dir, "update.bash", []byte(tt.script))
			}

			s, err := zoneinfo.Open(write(t, dir, tt.zip, data))

			require.NoError(t, err)
			require.Equal(t, tt.want, s.Version())
		})
	}
}

// TestGoInstallation reads the data of the Go installation that runs the tests,
// whose update.bash names its version.
func TestGoInstallation(t *testing.T) {
	t.Parallel()
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	require.NoError(t, err)
	dir := filepath.Join(string(bytes.TrimSpace(goroot)), "lib", "time")

	script, err := os.ReadFile(filepath.Join(dir, "update.bash"))
	require.NoError(t, err)
	if version := zoneinfo.Builtin(runtime.Version()); version != "" {
		require.Contains(t, string(script), "\nDATA="+version+"\n", "the data of %s", runtime.Version())
	}

	s, err := zoneinfo.Open(filepath.Join(dir, "zoneinfo.zip"))
	require.NoError(t, err)
	require.Contains(t, string(script), "\nDATA="+s.Version()+"\n")
	require.NotEmpty(t, s.Version())
	missing := 0
	for _, name := range zones.Names() {
		if _, err := s.Load(name); isNotExist(err) {
			missing++
		} else {
			require.NoError(t, err)
		}
	}
	require.Less(t, missing, 20, "of %d zones", len(zones.Names()))

	beirut, err := s.Load("Asia/Beirut")
	require.NoError(t, err)
	made, err := zoneinfo.Open(writeDir(t, "2023c", map[string][]byte{"Asia/Beirut": march()}))
	require.NoError(t, err)
	own, err := made.Load("Asia/Beirut")
	require.NoError(t, err)
	for at := instant("2022-01-01T00:00:00Z"); at.Year() < 2038; at = at.Add(time.Hour) {
		if offset(beirut, at) != offset(own, at) {
			require.FailNow(t, "the made-up Beirut is not the real one", "at %v: %d, not %d", at, offset(own, at), offset(beirut, at))
		}
	}
}
