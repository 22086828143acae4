package almanactest

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// An index that does not agree with the events says so. Otherwise it would remove another event than the one that it is to.
func TestAnIndexThatIsWrongPanics(t *testing.T) {
	t.Parallel()
	stored, other := Event(time.Now(), WithID(uuid.New())), Event(time.Now(), WithID(uuid.New()))
	busy := stored
	busy.Status = almanac.Processing
	for name, wrong := range map[string]func(x *index){
		"an event leaves that is not there":              func(x *index) { x.leave(other.ID) },
		"an event enters twice":                          func(x *index) { x.enter(stored.ID) },
		"an event that is not counted is removed":        func(x *index) { x.count(other, -1) },
		"an event is counted twice":                      func(x *index) { x.count(stored, 1) },
		"an event that is not in flight ends its flight": func(x *index) { x.count(busy, -1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newIndex()
			x.enter(stored.ID)
			x.count(stored, 1)
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			wrong(&x)
		})
	}
}
