package command

import (
	"io"
	"os"
	"strconv"

	"golang.org/x/term"
)

// terminal is what is known of the terminal that output goes to.
type terminal struct {
	width  int  // in columns; 0 means that the output does not go to a terminal
	colour bool // it takes colours, and the user wants them
}

// defaultWidth is for terminals that do not know their size.
const defaultWidth = 80

// terminalOf describes what out writes to. The variable COLUMNS overrides the width.
// NO_COLOR (https://no-color.org) and TERM=dumb turn colours off.
func terminalOf(out io.Writer) terminal {
	f, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return terminal{}
	}
	t := terminal{width: defaultWidth, colour: os.Getenv("NO_COLOR") == "" && !dumb()}
	if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
		t.width = width
	}
	if width, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && width > 0 {
		t.width = width
	}
	return t
}

// dumb reports whether the terminal prints control sequences instead of obeying them.
func dumb() bool { return os.Getenv("TERM") == "dumb" }
