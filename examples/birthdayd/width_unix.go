//go:build linux || darwin

package main

import (
	"os"
	"syscall"
	"unsafe"
)

// widthOf returns the columns of a terminal, or 0 if it does not know them.
func widthOf(terminal *os.File) int {
	var size struct{ rows, columns, x, y uint16 }
	_, _, failed := syscall.Syscall(syscall.SYS_IOCTL, terminal.Fd(), syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size)))
	if failed != 0 {
		return 0
	}
	return int(size.columns)
}
