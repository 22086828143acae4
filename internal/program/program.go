// Package program names the program that is running.
package program

import (
	"crypto/sha256"
	"fmt"
	"path"
	"regexp"
	"runtime/debug"
	"sync"

	"github.com/almanac-go/almanac/internal/excerpt"
)

const maxLength = 100 // bytes of a name, and of a version

// Own returns the name and version of this program, such as "birthdayd v0.1.0". The result
// is empty if the binary does not hold them.
var Own = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	return Of(info)
})

// majorVersion is the last element of the path of a module from version 2 on.
var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

// Of returns the last element of the path of the main package, and the version of the main
// module if the build has recorded it.
func Of(info *debug.BuildInfo) string {
	whole := info.Path
	if whole == "" || whole == "command-line-arguments" { // built from a list of files
		whole = info.Main.Path
	}
	if whole == "" {
		return ""
	}
	name := path.Base(whole)
	if dir := path.Dir(whole); majorVersion.MatchString(name) && dir != "." {
		name = path.Base(dir)
	}
	if info.Main.Version == "" {
		return excerpt.Of(name, maxLength)
	}
	return excerpt.Of(name, maxLength) + " " + excerpt.Of(info.Main.Version, maxLength)
}

// HandlerSetting returns the name of the stored setting that says when a program with a handler of a type ran: at most
// 50 bytes.
func HandlerSetting(eventType string) string {
	const most = 50
	if name := "handler " + eventType; len(name) <= most {
		return name
	}
	return fmt.Sprintf("handler %x", sha256.Sum256([]byte(eventType)))[:most]
}
