package zoneinfo

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxLooks bounds the search of a directory that may have no zone file.
const maxLooks = 4096

// empty returns an error if s has no zone file, or if none can be searched for.
func (s Source) empty() error {
	if s.archive == nil {
		dir, err := os.Open(s.path)
		if err != nil {
			return fmt.Errorf("zoneinfo: %s: %w", s.path, reason(err))
		}
		dir.Close()
		looks := 0
		if s.holdsZones("", 3, &looks) {
			return nil
		}
	}
	for name := range s.archive { // bounded in size
		if validName(name) && s.isZone(name) {
			return nil
		}
	}
	return fmt.Errorf("zoneinfo: %s holds no zone files", s.path)
}

// holdsZones searches a directory of s, and its subdirectories to the depth of zone names.
// It follows symbolic links, because some sources consist of them.
func (s Source) holdsZones(dir string, depth int, looks *int) bool {
	entries, err := os.ReadDir(filepath.Join(s.path, filepath.FromSlash(dir)))
	if err != nil || depth == 0 {
		return false
	}
	for _, entry := range entries {
		if *looks++; *looks > maxLooks {
			return false
		}
		name := strings.TrimPrefix(dir+"/"+entry.Name(), "/")
		if !validName(name) {
			continue // not the name of a zone or of a directory of zones
		}
		if s.isZone(name) || entry.Type()&(fs.ModeDir|fs.ModeSymlink) != 0 && s.holdsZones(name, depth-1, looks) {
			return true
		}
	}
	return false
}

func (s Source) isZone(name string) bool {
	return s.start(name, len(magic)) == magic
}
