package shards

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// merger merges the claims of schemas.
type merger struct {
	request almanac.ClaimRequest
	result  almanac.ClaimResult
	partial bool      // whether a schema is missing
	reached time.Time // until when the events of all schemas are claimed
	any     bool      // whether reached is known
}

// until notes until when the events of a schema are claimed.
func (m *merger) until(at time.Time) {
	if !m.any || at.Before(m.reached) {
		m.reached, m.any = at, true
	}
}

// skip notes a schema that was not asked.
func (m *merger) skip(p part) {
	if len(p.events) > 0 {
		m.until(p.events[0].AvailableAt)
	}
	m.until(p.now)
}

// add adds the claim of a schema.
func (m *merger) add(p part, claim almanac.ClaimResult, limit int) {
	r := &m.result
	switch {
	case claim.At.IsZero(): // it has not searched
	case r.At.IsZero():
		r.At = claim.At
	case m.request.Ahead > 0 && claim.At.Before(r.At): // an event that is due by its schema's clock may seem ahead, but not the reverse
		r.At = claim.At
	case m.request.Ahead <= 0 && claim.At.After(r.At):
		r.At = claim.At
	}
	r.Events = append(r.Events, claim.Events...)
	maps.Copy(r.Users, claim.Users)
	if claim.Limited != nil && r.Limited == nil {
		r.Limited = make(map[uuid.UUID]time.Time)
	}
	maps.Copy(r.Limited, claim.Limited)
	r.Placed, r.Failing = r.Placed || claim.Placed, r.Failing || claim.Failing
	r.Query += claim.Query
	if claim.Reached.After(r.Reached) {
		r.Reached = claim.Reached
	}
	m.until(p.until(claim, limit))
}

// until returns until when the events of a schema are claimed after its claim.
func (p part) until(claim almanac.ClaimResult, limit int) time.Time {
	if claim.At.IsZero() {
		return p.now
	}
	if len(claim.Events) < limit && !p.some {
		return claim.At
	}
	claimed := make(map[uuid.UUID]bool, len(claim.Events))
	for _, e := range claim.Events {
		claimed[e.ID] = true
	}
	at := claim.At
	if !p.now.IsZero() && p.now.Before(at) {
		at = p.now
	}
	if !p.bound.IsZero() && p.bound.Before(at) {
		at = p.bound
	}
	known := 0
	for _, e := range p.events {
		if claimed[e.ID] {
			known++
		} else if e.AvailableAt.Before(at) {
			at = e.AvailableAt
		}
	}
	if known < len(claim.Events) { // others were claimed than those that were read, so some of them may have gone before these
		return earliest(at, claim.Reached)
	}
	return at
}

func (m *merger) merged() almanac.ClaimResult {
	r := m.result
	slices.SortFunc(r.Events, func(a, b almanac.Event) int { return cmp.Or(a.Due.Compare(b.Due), bytes.Compare(a.ID[:], b.ID[:])) })
	if m.any && m.reached.Before(r.Reached) {
		r.Reached = m.reached
	}
	if m.partial && !r.Reached.IsZero() {
		r.Reached = m.request.Mark // of the schema that is missing, nothing was claimed
	}
	return r
}
