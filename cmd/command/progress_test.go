package command

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestProgressOnATerminalOverwritesOneLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		in := &input{size: 1000}
		p := newProgress(&out, in)
		p.terminal = true
		p.update(tally{Created: 1}) // nothing has happened yet
		require.Empty(t, out.String())

		time.Sleep(2 * time.Second)
		in.read.Store(250)
		p.update(tally{Created: 12_000, Existing: 300, Refused: 45})
		p.update(tally{Created: 12_001}) // a moment later
		require.Equal(t, "\r\x1b[K[#####...............]  25%  6s left  12,345 rows  6,172/s  45 refused", out.String())

		out.Reset()
		p.say("p.csv:7: bad")
		p.end()
		require.Equal(t, "\r\x1b[Kp.csv:7: bad\n", out.String(), "a message takes its place, once")
	})
}

func TestProgressInAFileIsALineEveryTenSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := newProgress(&out, new(input)) // of an unknown size
		for i := range 25 {
			time.Sleep(time.Second)
			p.update(tally{Created: i * 1000})
		}
		p.say("p.csv:7: bad")
		p.end()
		require.Equal(t, "9,000 rows  900/s\n19,000 rows  950/s\np.csv:7: bad\n", out.String())
	})
}

func TestProgressOfABackfillCountsUsers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := newProgress(&out, new(input))
		p.things = "users"
		time.Sleep(20 * time.Second)
		p.update(tally{Created: 2000, Refused: 1})
		require.Equal(t, "2,001 users  100/s  1 refused\n", out.String())
		p.restart("users rolled out")
		time.Sleep(10 * time.Second)
		p.update(tally{Created: 3000})
		require.Contains(t, out.String(), "\n3,000 users rolled out  300/s\n")
	})
}

func TestNumbersAreGrouped(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", -1234: "-1,234", 12_345_678: "12,345,678"} {
		require.Equal(t, want, grouped(n))
	}
}
