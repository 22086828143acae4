package zoneinfo_test

import (
	"runtime"
	"testing"

	"github.com/almanac-go/almanac/internal/zoneinfo"
)

func TestCompare(t *testing.T) {
	t.Parallel()
	inOrder := []string{"1996a", "2023c", "2025c", "2026a", "2026b", "2026f", "2026z", "2026za", "2026zb", "2026zz", "2026zza", "2027a"}
	for i, a := range inOrder {
		for j, b := range inOrder {
			want := min(1, max(-1, i-j))
			if got, ok := zoneinfo.Compare(a, b); got != want || !ok {
				t.Errorf("Compare(%q, %q) = %d, %v, want %d", a, b, got, ok, want)
			}
		}
	}
	for _, odd := range []string{
		"", "2026", "2026A", "2026f ", " 2026f", "2026ab", "2026az", "2026f1", "2026f-dirty", "2026f-3-gabcdef", "26f", "02026f", "unknown",
		"20x6f", "2026é", "2026\x00", "٢٠f", "2026zzzza", "2026-f", "2026.1",
	} {
		for _, pair := range [][2]string{{odd, "2025c"}, {"2025c", odd}, {odd, odd}} {
			if order, ok := zoneinfo.Compare(pair[0], pair[1]); order != 0 || ok {
				t.Errorf("Compare(%q, %q) = %d, %v, want no order", pair[0], pair[1], order, ok)
			}
		}
	}
}

func TestBuiltin(t *testing.T) {
	t.Parallel()
	for release, want := range map[string]string{
		"go1.26":                         "2025c",
		"go1.26.8":                       "2025c",
		"go1.26.8 X:nodwarf5":            "2025c",
		"go1.26.8-custom":                "2025c",
		"go1.27.0":                       "2026c",
		"go1.26rc1":                      "",
		"go1.2":                          "",
		"go1.260.1":                      "",
		"go1":                            "",
		"":                               "",
		"devel go1.27-f2cb9d1 Thu Jan 1": "",
	} {
		if got := zoneinfo.Builtin(release); got != want {
			t.Errorf("a program built by %q has %q, want %q", release, got, want)
		}
	}
	if got, want := zoneinfo.OwnVersion(), zoneinfo.Builtin(runtime.Version()); got != want {
		t.Errorf("this program, built by %s, has %q, want %q", runtime.Version(), got, want)
	}
}
