// Package zonetest makes time zone files for tests, so that a test can have two
// versions of one zone without a zone compiler and whatever the machine has.
package zonetest

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A Change is the instant from which clocks stand at another offset.
type Change struct {
	At     time.Time // whole seconds
	Offset int       // seconds east of UTC
}

// File returns a TZif file (RFC 9636, version 2) of a zone whose clocks stand first
// seconds east of UTC until changes happen. The changes must be in order.
//
// The footer is a POSIX TZ string for the time from the last change on, such as
// "EET-2EEST,M3.5.0/0,M10.5.0/0"; it overrules the last change, and without changes it holds for
// all time. The empty footer leaves clocks where the last change, or first, has put them.
//
// Abbreviations are numeric ("+02"), and no time is marked as summer time, except
// those that the footer names. File panics on changes out of order, a footer of
// more than a line, and more offsets than the format has room for (32 at least).
func File(first int, changes []Change, footer string) []byte {
	if strings.Contains(footer, "\n") {
		panic(fmt.Sprintf("zonetest: footer %q has more than one line", footer))
	}
	var times, indexes, types, names []byte
	known := map[int]byte{}
	typeOf := func(offset int) byte {
		if _, ok := known[offset]; !ok {
			if len(names) > 255 {
				panic("zonetest: too many offsets for one file")
			}
			known[offset] = byte(len(known))
			types = append(binary.BigEndian.AppendUint32(types, uint32(int32(offset))), 0, byte(len(names)))
			names = append(append(names, abbreviation(offset)...), 0)
		}
		return known[offset]
	}
	typeOf(first) // the type of the time before all changes is the first one
	for i, change := range changes {
		if i > 0 && !change.At.After(changes[i-1].At) {
			panic(fmt.Sprintf("zonetest: change at %v is not after that at %v", change.At, changes[i-1].At))
		}
		times = binary.BigEndian.AppendUint64(times, uint64(change.At.Unix()))
		indexes = append(indexes, typeOf(change.Offset))
	}

	// Readers of version 2 step over the 32-bit block, which must hold one type.
	file := append(header(0, 1, 1), make([]byte, 6+1)...)
	file = append(file, header(len(changes), len(known), len(names))...)
	return slices.Concat(file, times, indexes, types, names, []byte("\n"+footer+"\n"))
}

// WriteDir makes the directory dir, and those below it that are needed, with the
// given files by their names ("Asia/Beirut"), and with a file +VERSION that holds
// version. With an empty version there is no such file.
func WriteDir(dir, version string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, data := range withVersion(version, files) {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Zip returns a zip file with what WriteDir writes, uncompressed, as Go reads it
// itself where ZONEINFO names it.
func Zip(version string, files map[string][]byte) ([]byte, error) {
	all := withVersion(version, files)
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		f, err := w.CreateHeader(&zip.FileHeader{Name: path.Clean(name), Method: zip.Store})
		if err != nil {
			return nil, err
		}
		if _, err := io.Copy(f, bytes.NewReader(all[name])); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return archive.Bytes(), err
}

// header returns the header of one of a file's two blocks, which have no leap seconds and no indicators.
func header(changes, types, chars int) []byte {
	h := append([]byte("TZif2"), make([]byte, 15+3*4)...)
	for _, count := range []int{changes, types, chars} {
		h = binary.BigEndian.AppendUint32(h, uint32(count))
	}
	return h
}

// abbreviation is the database's own for a zone without one: "+0530".
func abbreviation(offset int) string {
	sign := '+'
	if offset < 0 {
		sign, offset = '-', -offset
	}
	text := fmt.Sprintf("%c%02d", sign, offset/3600)
	if offset%3600 != 0 {
		text += fmt.Sprintf("%02d", offset/60%60)
	}
	if offset%60 != 0 {
		text += fmt.Sprintf("%02d", offset%60)
	}
	return text
}

func withVersion(version string, files map[string][]byte) map[string][]byte {
	all := map[string][]byte{}
	maps.Copy(all, files)
	if version != "" {
		all["+VERSION"] = []byte(version + "\n")
	}
	return all
}
