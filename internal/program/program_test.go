package program_test

import (
	"runtime/debug"
	"strings"
	"testing"

	"github.com/almanac-go/almanac/internal/program"
)

func TestOfNamesTheMainPackageAndItsVersion(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 200)
	for _, tt := range []struct{ path, module, version, want string }{
		{"example.com/birthdayd", "example.com/birthdayd", "v0.1.0", "birthdayd v0.1.0"},
		{"example.com/app/cmd/greeter", "example.com/app", "v1.2.3", "greeter v1.2.3"},
		{"example.com/greeter/v2", "example.com/greeter/v2", "v2.0.1", "greeter v2.0.1"},
		{"v2", "v2", "v2.0.1", "v2 v2.0.1"},
		{"command-line-arguments", "example.com/app", "(devel)", "app (devel)"},
		{"", "example.com/app", "", "app"},
		{"", "", "v1.0.0", ""},
		{long, long, long, long[:100] + "… " + long[:100] + "…"},
	} {
		if got := program.Of(&debug.BuildInfo{Path: tt.path, Main: debug.Module{Path: tt.module, Version: tt.version}}); got != tt.want {
			t.Errorf("Of(%q, %q, %q) = %q, want %q", tt.path, tt.module, tt.version, got, tt.want)
		}
	}
}

func TestOwnNamesTheTest(t *testing.T) {
	t.Parallel()
	if got := program.Own(); !strings.HasPrefix(got, "program.test") {
		t.Errorf("Own() = %q, want program.test", got)
	}
}
