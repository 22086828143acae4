package command

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/pgtest"
)

// past is a moment from which ten years are history, on which every release of
// zone data agrees.
var past = time.Date(2010, time.January, 1, 0, 0, 0, 0, time.UTC)

func TestADatabaseThatAgrees(t *testing.T) {
	t.Parallel()
	url := pgtest.EmptyURL(t)
	for _, zone := range []string{"America/New_York", "Pacific/Apia", "Etc/GMT+5", "asia/kolkata"} {
		r := almanacAt(t, past, "zone", zone, "--database-url", url)
		require.Equal(t, exitOK, r.code, r.errs)
		require.Contains(t, r.out, "\ndatabase   agrees for the next 10 years\n")
	}
	r := almanacAt(t, past, "zone", "America/New_York", "--database-url", url, "--json")
	require.Contains(t, r.out, "\n  \"database\": {\n    \"state\": \"agrees\"\n  }\n}\n")
}

func TestADatabaseThatDiffers(t *testing.T) {
	t.Parallel()
	url := pgtest.EmptyURL(t)
	tests := map[string]struct{ footer, want string }{
		"for a week of every spring": {"EST5EDT,M3.3.0,M11.1.0", "differs: at 2010-03-19T00:00:00Z clocks stand at -04:00 there, at -05:00 here"},
		"for an hour of every year":  {"EST5EDT,M3.2.0/1,M11.1.0", "differs: at 2010-03-14T06:00:00Z clocks stand at -05:00 there, at -04:00 here"},
		"always":                     {"CST6CDT,M3.2.0,M11.1.0", "differs: at 2010-01-01T00:00:00Z clocks stand at -05:00 there, at -06:00 here"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := zoneDir(t, "2026b", "America/New_York", tt.footer)
			r := almanacAt(t, past, "zone", "America/New_York", "--zoneinfo", dir, "--database-url", url)
			require.Equal(t, exitOK, r.code, r.errs)
			require.Contains(t, r.out, "\ndatabase   "+tt.want+"\n")

			r = almanacAt(t, past, "zone", "America/New_York", "--zoneinfo", dir, "--database-url", url, "--json")
			var e explanation
			require.NoError(t, json.Unmarshal([]byte(r.out), &e))
			require.Equal(t, tt.want, e.Database.String())
		})
	}
}

func TestADatabaseThatDoesNotKnowTheZone(t *testing.T) {
	t.Parallel()
	c := compare(t.Context(), Host{}.environment(past), pgtest.EmptyURL(t), calendar.StoredTimezone("Mars/Olympus_Mons"))
	require.Equal(t, &comparison{State: unknownZone}, c)
	require.Equal(t, "does not know this zone", c.String())
}

func TestADatabaseThatCannotBeQueried(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{
		"no server":      "postgres://u:hunter2@127.0.0.1:1,127.0.0.1:2/x",
		"no such role":   "user=nobody_at_all password=hunter2 host=/no/such/directory",
		"not PostgreSQL": "mysql://u:hunter2@127.0.0.1:1/x",
		"not even a URL": "password=hunter2 host",
		"without a port": "postgres://u:hunter2@h:port/x",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := almanacAt(t, past, "zone", "UTC", "--database-url", url)
			require.Equal(t, exitOK, r.code, "the zone is explained all the same")
			require.Regexp(t, `\ndatabase   cannot be asked: [^\n]+\n$`, r.out)
			require.NotContains(t, r.out, "hunter2")
			r = almanacAt(t, past, "zone", "UTC", "--database-url", url, "--json")
			require.Contains(t, r.out, `"state": "unavailable",`)
		})
	}
}
