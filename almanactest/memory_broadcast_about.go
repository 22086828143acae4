package almanactest

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/broadcast"
	"github.com/almanac-go/almanac/calendar"
)

// BroadcastsAbout returns the broadcasts of a type that are due for a user on a day, newest first.
func (r *Repository) BroadcastsAbout(ctx context.Context, u almanac.User, eventType string, day calendar.Date) (list []broadcast.About, err error) {
	err = r.read(ctx, func(time.Time) error {
		for _, one := range r.broadcasts {
			a := broadcast.About{Status: one.Status, Listed: one.users[u.ID]}
			a.Payload = nil
			if i := slices.IndexFunc(one.zones, func(z broadcastZone) bool { return z.Name == u.Timezone.String() }); i >= 0 {
				z := one.zones[i]
				a.Zone, a.Read = z.Zone, z.reads > 0 || z.next.IsZero()
			}
			if one.Type == eventType && a.Concerns(day, u.Timezone) {
				list = append(list, a)
			}
		}
		return nil
	})
	slices.SortFunc(list, func(a, b broadcast.About) int {
		if c := b.CreatedAt.Compare(a.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return list[:min(len(list), broadcast.MostAbout)], err
}
