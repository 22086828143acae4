//go:build long

package almanacjetstream_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A kill at any step costs at most one more delivery.
func TestProcessesAreKilled(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		dies            part
		delivered       string
		claims, crashes int
		why             string
	}{
		"a dispatcher after the claim":     {part{Point: claimed}, "ben", 2, 1, "lease expired"},
		"a dispatcher before publishing":   {part{Point: leased}, "ben", 2, 1, "lease expired"},
		"a dispatcher after publishing":    {part{}, "ben", 1, 0, ""},
		"a worker before it has the lease": {part{Name: "ada", Point: fetched}, "ben", 1, 0, ""},
		"a worker before it acknowledges":  {part{Name: "ada", Point: leased}, "ben", 2, 1, "lease expired"},
		"a worker before delivery":         {part{Name: "ada", Point: taken}, "ben", 2, 1, "lease expired"},
		"a worker before it has settled":   {part{Name: "ada", Point: delivered}, "ada ben", 2, 1, "lease expired"},
		"a worker after it has settled":    {part{Name: "ada", Point: settled}, "ada", 1, 0, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			events := s.due(1)
			victim := s.start(tt.dies)
			if tt.dies.Name != "" {
				s.start(part{})
			}
			if tt.dies.Point == "" {
				s.published(1)
			} else {
				victim.await(tt.dies.Point)
			}
			victim.kill()

			if tt.dies.Name == "" {
				s.start(part{})
			}
			s.start(part{Name: "ben"})

			ended := s.settled(events)[0]
			require.Equal(t, tt.delivered, s.received.workers(ended))
			// A dispatcher that gets no response from the database in time releases its
			// claim: one claim more, and no crash.
			require.GreaterOrEqual(t, ended.ClaimCount, tt.claims)
			require.Equal(t, tt.crashes, ended.CrashCount)
			require.Contains(t, []string{tt.why, "released"}, ended.LastError)
		})
	}
}
