package command

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/almanac-go/almanac/internal/pgtest"
)

// openTerminal returns both ends of a terminal of a width: what is written to the program's
// end can be read at the screen's end.
func openTerminal(t *testing.T, width uint16) (screen, program *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = screen.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = program.Close() })
	require.NoError(t, unix.IoctlSetWinsize(int(program.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: width}))
	return screen, program
}

func TestATerminalIsRecognised(t *testing.T) {
	file, err := os.Open(fileOf(t, "x", ""))
	require.NoError(t, err)
	defer file.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer null.Close()
	_, wide := openTerminal(t, 132)
	_, unknown := openTerminal(t, 0)
	tests := map[string]struct {
		env  map[string]string
		out  interface{ Write([]byte) (int, error) }
		want terminal
	}{
		"a buffer":                      {nil, new(bytes.Buffer), terminal{}},
		"a file":                        {nil, file, terminal{}},
		"a device that is no terminal":  {nil, null, terminal{}},
		"a terminal":                    {nil, wide, terminal{132, true}},
		"a terminal without a size":     {nil, unknown, terminal{80, true}},
		"another width":                 {map[string]string{"COLUMNS": "60"}, wide, terminal{60, true}},
		"a width that is none":          {map[string]string{"COLUMNS": "-1"}, wide, terminal{132, true}},
		"a width of something else":     {map[string]string{"COLUMNS": "60"}, file, terminal{}},
		"no colours, by the user":       {map[string]string{"NO_COLOR": "1"}, wide, terminal{132, false}},
		"an empty wish for no colours":  {map[string]string{"NO_COLOR": ""}, wide, terminal{132, true}},
		"no colours, by the terminal":   {map[string]string{"TERM": "dumb"}, wide, terminal{132, false}},
		"colours beside another TERM":   {map[string]string{"TERM": "vt100"}, wide, terminal{132, true}},
		"no colours for what is a pipe": {map[string]string{"NO_COLOR": "1"}, new(bytes.Buffer), terminal{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for _, variable := range []string{"COLUMNS", "NO_COLOR", "TERM"} {
				t.Setenv(variable, tt.env[variable])
			}
			require.Equal(t, tt.want, terminalOf(tt.out))
		})
	}
}

// The whole way from the arguments to the screen.
func TestAListOnATerminal(t *testing.T) {
	url := pgtest.URL(t)
	c := stageAt(t, url)
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	t.Setenv("COLUMNS", "")
	screen, program := openTerminal(t, 80)
	code := run(t.Context(), []string{"events", "list", "--failed", "--database-url", url}, Host{Out: program}.environment(today))
	require.Equal(t, exitOK, code)
	text := make([]byte, 4096)
	n, err := screen.Read(text)
	require.NoError(t, err)
	lines := strings.Split(strings.ReplaceAll(string(text[:n]), "\r\n", "\n"), "\n")
	require.Len(t, lines, 3)
	require.Equal(t, "ID                                    WHEN         TYPE  REASON", lines[0][:63])
	require.Contains(t, lines[1], c.ids["failed"].String())
	require.Contains(t, lines[1], "4y 358d ago  B     404  [31mnobody there")
}
