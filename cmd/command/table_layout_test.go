package command

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestColumnsFit(t *testing.T) {
	t.Parallel()
	id, name, zone, version := span{36, 0, 2, true}, span{30, 20, 1, false}, span{18, 16, 3, false}, span{7, 0, 4, false}
	tests := map[string]struct {
		spans    []span
		terminal int
		want     []int
	}{
		"all":                              {[]span{id, name, zone, version}, 97, []int{36, 30, 18, 7}},
		"all, and more":                    {[]span{id, name, zone, version}, 500, []int{36, 30, 18, 7}},
		"the least important is shortened": {[]span{id, name, zone, version}, 96, []int{36, 30, 17, 7}},
		"then another one":                 {[]span{id, name, zone, version}, 94, []int{36, 29, 16, 7}},
		"the least important is left out":  {[]span{id, name, zone, version}, 84, []int{36, 28, 16, 0}},
		"an id is passed over":             {[]span{id, name, zone, version}, 40, []int{0, 22, 16, 0}},
		"others are not":                   {[]span{id, name, zone, version}, 30, []int{0, 30, 0, 0}},
		"an empty column":                  {[]span{id, {0, 0, 1, false}}, 40, []int{36, 0}},
		"less than any column":             {[]span{id, name, zone, version}, 19, []int{0, 19, 0, 0}},
		"less than an id alone":            {[]span{id}, 5, []int{5}},
	}
	for name, tt := range tests {
		require.Equal(t, tt.want, fit(tt.spans, tt.terminal), name)
	}
}

func TestTextsAreMeasuredAndShortened(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text      string
		width     int
		shortened string // to 5 columns
	}{
		{"", 0, ""},
		{"Grace", 5, "Grace"},
		{"Hopper", 6, "Hopp…"},
		{"山田花子", 8, "山田…"},
		{"a山田花", 7, "a山…"},                              // half of a wide rune is not shown
		{"ｱｲｳｴｵ", 5, "ｱｲｳｴｵ"},                           // halfwidth
		{"Zoe\u0308y", 4, "Zoe\u0308y"},                 // combined with a mark
		{"한글", 4, "한글"},                                 // syllables
		{"\u1112\u1161\u11ab", 2, "\u1112\u1161\u11ab"}, // a syllable of three parts
		{"בן־גוריון", 9, "בן־ג…"},
		{"🎂", 2, "🎂"},
	} {
		require.Equal(t, tt.width, displayWidth(tt.text), tt.text)
		require.Equal(t, tt.shortened, shortened(tt.text, 5))
	}
	require.Equal(t, "דוד\u200e", isolated("דוד"))
	require.Equal(t, "محمد 7\u200e", isolated("محمد 7"))
	require.Equal(t, "Ada 山田", isolated("Ada 山田"))
}

func TestDistancesAreWritten(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for distance, want := range map[time.Duration]string{
		0: "in 0s", 999 * time.Millisecond: "in 0s", -time.Millisecond: "0s ago", 59 * time.Second: "in 59s", time.Minute: "in 1m", -61 * time.Second: "1m 1s ago",
		3*time.Hour + 59*time.Second: "in 3h", 2*day + 3*time.Hour + time.Minute: "in 2d 3h", -364 * day: "364d ago", 365 * day: "in 1y", -1000 * day: "2y 270d ago",
	} {
		require.Equal(t, want, whenText(today.Add(distance), today))
	}
	require.Regexp(t, `^in \d+y \d+d$`, whenText(today.AddDate(7000, 0, 0), today), "farther than durations go")
}
