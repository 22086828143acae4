package dashboard

import (
	"io/fs"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// A noun after a number has the right form for one thing, too: the function counted writes both.
func TestOneThingIsNotAPlural(t *testing.T) {
	t.Parallel()
	plural := regexp.MustCompile(`\{\{number [^}]*\}\}(?: [a-z]+){0,2} ?\b(?:[a-z]+[^s\W]s)\b`)
	names, err := fs.Glob(templateFiles, "templates/*.html")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		text, err := fs.ReadFile(templateFiles, name)
		require.NoError(t, err)
		require.Empty(t, plural.FindAllString(string(text), -1), name)
	}
	require.Equal(t, "1 claim", countText(1, "claim"))
	require.Equal(t, "0 claims", countText(0, "claim"))
	require.Equal(t, "1,000 claims", countText(1000, "claim"))
}
