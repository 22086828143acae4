package zonetest_test

import (
	"testing"
	"time"

	"github.com/almanac-go/almanac/internal/zoneinfo/zonetest"
)

const (
	hour = 60 * 60
	// lebanon is the rule of Asia/Beirut since 1993.
	lebanon = "EET-2EEST,M3.5.0/0,M10.5.0/0"
)

func TestFile(t *testing.T) {
	t.Parallel()
	spring, autumn := instant("2023-04-20T22:00:00Z"), instant("2023-10-28T21:00:00Z")

	tests := map[string]struct {
		file []byte
		want map[string]int // seconds east of UTC, by instant
	}{
		"a zone without changes keeps its first offset": {
			zonetest.File(5*hour+hour/2, nil, ""),
			map[string]int{"1900-01-01T00:00:00Z": 5*hour + hour/2, "2500-01-01T00:00:00Z": 5*hour + hour/2},
		},
		"changes happen at their second": {
			zonetest.File(2*hour, []zonetest.Change{{At: spring, Offset: 3 * hour}, {At: autumn, Offset: -4 * hour}}, ""),
			map[string]int{
				"1900-01-01T00:00:00Z": 2 * hour,
				"2023-04-20T21:59:59Z": 2 * hour,
				"2023-04-20T22:00:00Z": 3 * hour,
				"2023-10-28T20:59:59Z": 3 * hour,
				"2023-10-28T21:00:00Z": -4 * hour,
				"2500-01-01T00:00:00Z": -4 * hour,
			},
		},
		"the footer holds after the last change": {
			zonetest.File(2*hour, []zonetest.Change{{At: spring, Offset: 3 * hour}, {At: autumn, Offset: 2 * hour}}, lebanon),
			map[string]int{
				"2022-07-01T00:00:00Z": 2 * hour,
				"2023-04-20T21:59:59Z": 2 * hour,
				"2023-04-20T22:00:00Z": 3 * hour,
				"2023-10-28T21:00:00Z": 2 * hour,
				"2024-03-30T21:59:59Z": 2 * hour,
				"2024-03-30T22:00:00Z": 3 * hour,
				"2037-07-01T00:00:00Z": 3 * hour,
				"2099-07-01T00:00:00Z": 3 * hour,
			},
		},
		"the footer alone holds for all time": {
			zonetest.File(2*hour, nil, lebanon),
			map[string]int{
				"1999-07-01T00:00:00Z": 3 * hour,
				"2023-03-25T21:59:59Z": 2 * hour,
				"2023-03-25T22:00:00Z": 3 * hour,
				"2023-10-28T20:59:59Z": 3 * hour,
				"2023-10-28T21:00:00Z": 2 * hour,
			},
		},
		"a change before 1970 and beyond 32 bits": {
			zonetest.File(-hour, []zonetest.Change{
				{At: instant("1850-01-01T00:00:00Z"), Offset: 0}, {At: instant("2150-01-01T00:00:00Z"), Offset: hour},
			}, ""),
			map[string]int{
				"1849-12-31T23:59:59Z": -hour,
				"1850-01-01T00:00:00Z": 0,
				"2149-12-31T23:59:59Z": 0,
				"2150-01-01T00:00:00Z": hour,
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			location, err := time.LoadLocationFromTZData("Made/Up", tt.file)
			if err != nil {
				t.Fatal(err)
			}
			for at, want := range tt.want {
				if _, got := instant(at).In(location).Zone(); got != want {
					t.Errorf("at %s: offset %d, want %d", at, got, want)
				}
			}
		})
	}
}

func TestFileAbbreviations(t *testing.T) {
	t.Parallel()

	for want, offset := range map[string]int{
		"+00": 0, "+02": 2 * hour, "-03": -3 * hour, "+0545": 5*hour + 45*60, "-0330": -3*hour - 30*60, "+002730": 27*60 + 30,
	} {
		location, err := time.LoadLocationFromTZData("Made/Up", zonetest.File(offset, nil, ""))
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := time.Unix(0, 0).In(location).Zone(); got != want {
			t.Errorf("a zone %d s east: abbreviation %q, want %q", offset, got, want)
		}
	}
}

func TestFileTakesManyOffsets(t *testing.T) {
	t.Parallel()

	changes := func(n int) []zonetest.Change {
		list := make([]zonetest.Change, n)
		for i := range list {
			list[i] = zonetest.Change{At: time.Unix(int64(i)*hour, 0), Offset: i + 1} // "+000001"
		}
		return list
	}
	location, err := time.LoadLocationFromTZData("Made/Up", zonetest.File(0, changes(32), ""))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 32 {
		if _, got := time.Unix(int64(i)*hour, 0).In(location).Zone(); got != i+1 {
			t.Errorf("after change %d: offset %d, want %d", i, got, i+1)
		}
	}
}

func TestFilePanics(t *testing.T) {
	t.Parallel()
	at := instant("2023-04-20T22:00:00Z")
	many := make([]zonetest.Change, 100)
	for i := range many {
		many[i] = zonetest.Change{At: at.Add(time.Duration(i) * time.Hour), Offset: i}
	}

	tests := map[string]func(){
		"on changes out of order": func() {
			zonetest.File(0, []zonetest.Change{{At: at, Offset: 1}, {At: at.Add(-time.Second), Offset: 2}}, "")
		},
		"on two changes at once": func() {
			zonetest.File(0, []zonetest.Change{{At: at, Offset: 1}, {At: at, Offset: 2}}, "")
		},
		"on a footer of two lines": func() { zonetest.File(0, nil, "EET-2\n") },
		"more offsets than fit":    func() { zonetest.File(0, many, "") },
	}
	for name, f := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}

func instant(text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return at
}
