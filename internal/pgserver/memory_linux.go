package pgserver

import "syscall"

// memoryDir returns a directory whose files are in memory, or "" if it has no room for a
// cluster and the databases of many tests. There a cluster takes no disk time, which is half
// the time of tests that create and remove many databases.
func memoryDir() string {
	const (
		dir   = "/dev/shm"
		tmpfs = 0x01021994 // TMPFS_MAGIC in linux/magic.h
		room  = 4 << 30
	)
	var fs syscall.Statfs_t
	err := syscall.Statfs(dir, &fs)
	if err != nil || int64(fs.Type) != tmpfs || fs.Bavail*uint64(fs.Bsize) < room {
		return ""
	}
	return dir
}
