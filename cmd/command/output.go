package command

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

func writeJSON(out io.Writer, v any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// report writes v as JSON if that is asked for, and otherwise as write does.
func (e *environment) report(asJSON bool, v any, write func() error) error {
	if asJSON {
		return writeJSON(e.out, v)
	}
	return write()
}

// offsetText writes an offset as ISO 8601 does, "+05:30", with seconds where a zone once had them.
func offsetText(offset time.Duration) string {
	sign := '+'
	if offset < 0 {
		sign, offset = '-', -offset
	}
	hours, minutes, seconds := offset/time.Hour, offset/time.Minute%60, offset/time.Second%60
	if seconds != 0 {
		return fmt.Sprintf("%c%02d:%02d:%02d", sign, hours, minutes, seconds)
	}
	return fmt.Sprintf("%c%02d:%02d", sign, hours, minutes)
}

// moveText writes by how many seconds an event moved: "+1h", "-30m".
func moveText(seconds int64) string {
	if seconds == 0 {
		return "-"
	}
	text := (time.Duration(seconds) * time.Second).String()
	if seconds%60 == 0 {
		text = strings.TrimSuffix(text, "0s")
	}
	if seconds%3600 == 0 {
		text = strings.TrimSuffix(text, "0m")
	}
	if seconds > 0 {
		return "+" + text
	}
	return text
}

// mapped returns what f makes of each entry of a list. It is never nil, so that JSON has [] rather than
// null.
func mapped[E, R any](list []E, f func(E) R) []R {
	made := make([]R, len(list))
	for i, entry := range list {
		made[i] = f(entry)
	}
	return made
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// counted writes a number of things: "1 zone", "2 zones".
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
