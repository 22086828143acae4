package main

import (
	"os"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func TestTheWidthIsThatOfTheTerminal(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	defer terminal.Close()
	for _, tt := range []struct {
		columns uint16
		set     string
		want    int
	}{{132, "", 132}, {0, "", 80}, {132, "60", 60}, {132, "-1", 132}} {
		t.Setenv("COLUMNS", tt.set)
		size := struct{ rows, columns, x, y uint16 }{24, tt.columns, 0, 0}
		_, _, failed := syscall.Syscall(syscall.SYS_IOCTL, terminal.Fd(), syscall.TIOCSWINSZ, uintptr(unsafe.Pointer(&size)))
		require.Zero(t, failed)
		require.Equal(t, tt.want, newScreen(terminal).width, tt)
	}
	file, err := os.Create(t.TempDir() + "/out")
	require.NoError(t, err)
	defer file.Close()
	require.Zero(t, newScreen(file).width, "rows in a file are whole")
}
