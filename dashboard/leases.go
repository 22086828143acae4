package dashboard

import (
	"slices"
	"time"

	"github.com/almanac-go/almanac/ops"
)

// leasesData is what the page of leases shows.
type leasesData struct {
	reading
	Owners  []leaseOwner
	Expired int // leases
	More    bool
}

// leaseOwner has the leases of one process.
type leaseOwner struct {
	Name    string
	Leases  []heldLease
	Events  int
	Expired int // leases
}

// heldLease is a lease, with its time left by the database's clock.
type heldLease struct {
	ops.Lease
	Left time.Duration // negative if the lease has expired
}

// Since is for how long the lease has been expired.
func (l heldLease) Since() time.Duration { return max(0, -l.Left) }

func (d *dashboard) leasesPage(r *request) (answer, error) {
	var data leasesData
	var s snapshot
	s, data.reading = d.lastNumbers(r)
	data.More = len(s.Leases) >= leasesShown
	for _, lease := range s.Leases {
		data.add(heldLease{lease, lease.ExpiresAt.Sub(s.Book.Now).Truncate(time.Second)})
	}
	return answer{title: "Leases", template: "leases", live: "leases", data: data}, nil
}

// add puts a lease under its owner. The owner of the oldest claim comes first.
func (l *leasesData) add(lease heldLease) {
	i := slices.IndexFunc(l.Owners, func(o leaseOwner) bool { return o.Name == lease.Owner })
	if i < 0 {
		i = len(l.Owners)
		l.Owners = append(l.Owners, leaseOwner{Name: lease.Owner})
	}
	owner := &l.Owners[i]
	owner.Leases = append(owner.Leases, lease)
	owner.Events += lease.Events
	if lease.Expired {
		owner.Expired++
		l.Expired++
	}
}

// Summary says what the owner holds.
func (o leaseOwner) Summary() string {
	return countText(len(o.Leases), "lease") + ", " + countText(o.Events, "claimed event")
}

// OwnersText is the number of owners in words.
func (l leasesData) OwnersText() string { return countText(len(l.Owners), "owner") }
