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
)

// FuzzLoad loads any bytes as a zone: what is taken for one can be asked anything,
// and Go takes it for the same one.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(april())
	f.Add(march())
	f.Add(april()[:100])
	f.Add(zonetest.File(-hour, nil, "<-02>2<-01>,M3.5.0/-1,M10.5.0/0"))
	f.Add(zonetest.File(0, nil, "A99B-99:59:59,J1/167,365/-167"))
	f.Add(append(append([]byte("TZif"), make([]byte, 16)...), bytes.Repeat([]byte{0xff}, 6*4)...)) // each count is -1 or 2^32-1
	dir := f.TempDir()
	require.NoError(f, zonetest.WriteDir(dir, "2023b", map[string][]byte{"Asia/Beirut": april(), "Asia/Tokyo": april()}))
	s, err := zoneinfo.Open(dir)
	require.NoError(f, err)

	f.Fuzz(func(t *testing.T, data []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "Asia/Beirut"), data, 0o600))
		location, err := s.Load("Asia/Beirut")
		if err != nil {
			require.Nil(t, location)
			require.ErrorContains(t, err, "Asia/Beirut")
			return
		}
		gos, err := time.LoadLocationFromTZData("Asia/Beirut", data)
		require.NoError(t, err)
		for _, sec := range []int64{-1 << 63, -1 << 40, -1, 0, 1680307200, 1 << 31, 1 << 33, 1 << 40, 1<<63 - 1} {
			at := time.Unix(sec, 0)
			require.Equal(t, offset(gos, at), offset(location, at), "at %v", at)
		}
	})
}

// FuzzOpen opens any bytes as a zip file, and asks it for a zone.
func FuzzOpen(f *testing.F) {
	whole, err := zonetest.Zip("2023b", map[string][]byte{"Asia/Beirut": april(), "tzdata.zi": []byte("# version 2023b\n")})
	require.NoError(f, err)
	f.Add([]byte(nil))
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add(append([]byte("a program"), whole...))
	f.Add(bytes.ReplaceAll(whole, []byte("Asia/Beirut"), []byte("../../../..")))
	f.Add(bytes.Replace(whole, []byte("EET"), []byte("XXX"), 1))
	path := filepath.Join(f.TempDir(), "zones.zip")

	f.Fuzz(func(t *testing.T, data []byte) {
		require.NoError(t, os.WriteFile(path, data, 0o600))
		s, err := zoneinfo.Open(path)
		if err != nil {
			require.ErrorContains(t, err, path)
			require.Zero(t, s)
			return
		}
		if _, ok := zoneinfo.Compare(s.Version(), s.Version()); !ok {
			require.Empty(t, s.Version())
		}
		location, err := s.Load("Asia/Beirut")
		require.Equal(t, err == nil, location != nil)
	})
}
