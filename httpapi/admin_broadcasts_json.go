package httpapi

import (
	"encoding/json"

	"github.com/almanac-go/almanac/broadcast"
)

// broadcastStatus is a stored broadcast.
type broadcastStatus struct {
	broadcastContent
	Lane      string          `json:"lane"`
	State     broadcast.State `json:"state"`
	CreatedAt instant         `json:"createdAt"`
	EndedAt   *instant        `json:"endedAt"` // when all events had ended
	Steps     []broadcastStep `json:"steps"`
}

// broadcastContent is what a broadcast sends, when and to whom.
type broadcastContent struct {
	Name      string           `json:"name"`
	Type      string           `json:"type"`
	At        string           `json:"at,omitempty"` // a wall time; missing with an instant
	Instant   *instant         `json:"instant,omitempty"`
	Passed    broadcast.Passed `json:"passed"`
	Payload   json.RawMessage  `json:"payload,omitempty"`
	Audience  audience         `json:"audience"`
	Newcomers bool             `json:"newcomers"`
}

// audience selects users by each member that is there.
type audience struct {
	Attributes json.RawMessage `json:"attributes,omitempty"`
	Locale     string          `json:"locale,omitempty"`
	Zones      []string        `json:"zones,omitempty"`
	Listed     bool            `json:"listed,omitempty"`
}

type broadcastStep struct {
	Action broadcast.Action `json:"action"`
	At     instant          `json:"at"`
	By     string           `json:"by,omitempty"`
	Reason string           `json:"reason,omitempty"`
}

func contentOf(b broadcast.Broadcast) broadcastContent {
	c := broadcastContent{
		Name: b.Name, Type: b.Type, Passed: b.Passed, Payload: b.Payload, Instant: instantOrNil(b.Instant), Newcomers: b.Newcomers,
		Audience: audience{b.Audience.Attributes, b.Audience.Locale, b.Audience.Zones, b.Audience.Listed},
	}
	if b.Instant.IsZero() {
		c.At = b.At.String()
	}
	return c
}

func broadcastOf(s broadcast.Status) broadcastStatus {
	is := broadcastStatus{
		broadcastContent: contentOf(s.Broadcast), Lane: s.Lane(), State: s.State,
		CreatedAt: instant(s.CreatedAt), EndedAt: instantOrNil(s.EndedAt), Steps: []broadcastStep{},
	}
	for _, step := range s.Steps {
		is.Steps = append(is.Steps, broadcastStep{step.Action, instant(step.At), step.By, step.Reason})
	}
	return is
}

type broadcastAnswer struct {
	Broadcast broadcastStatus `json:"broadcast"`
}

// startAnswer is the answer to a new broadcast. The broadcast is null in a dry run, and the preview otherwise.
type startAnswer struct {
	DryRun    bool              `json:"dryRun"`
	Broadcast *broadcastStatus  `json:"broadcast"`
	Existed   bool              `json:"existed"`
	Preview   *broadcastPreview `json:"preview"`
}

type broadcastPreview struct {
	At      instant       `json:"at"`
	Users   int           `json:"users"`
	Late    int           `json:"late"`
	LeftOut int           `json:"leftOut"`
	First   *instant      `json:"first"`
	Last    *instant      `json:"last"`
	Zones   []previewZone `json:"zones"`
}

// dueZone is when a broadcast is due in a zone.
type dueZone struct {
	Timezone string   `json:"timezone"`
	Local    string   `json:"local,omitempty"` // missing if the zone is skipped
	Due      *instant `json:"due"`
	Late     bool     `json:"late"`
	Skipped  bool     `json:"skipped"`
}

type previewZone struct {
	dueZone
	Users int `json:"users"`
}

func dueZoneOf(z broadcast.Zone) dueZone {
	is := dueZone{Timezone: z.Name, Due: instantOrNil(z.Due), Late: z.Late, Skipped: z.Skipped}
	if !z.Skipped {
		is.Local = z.At.String()
	}
	return is
}

func previewOf(p broadcast.PreviewResult) *broadcastPreview {
	is := &broadcastPreview{instant(p.At), p.Users, p.Late, p.LeftOut, instantOrNil(p.First), instantOrNil(p.Last), []previewZone{}}
	for _, z := range p.Zones {
		is.Zones = append(is.Zones, previewZone{dueZoneOf(z.Zone), z.Users})
	}
	return is
}

type broadcastDetail struct {
	Broadcast broadcastStatus   `json:"broadcast"`
	Progress  broadcastProgress `json:"progress"`
}

type broadcastProgress struct {
	At        instant        `json:"at"`
	Due       int            `json:"due"`       // of the stored events, those that are due or have been
	Withdrawn int            `json:"withdrawn"` // see broadcast.Progress
	Total     progressCounts `json:"total"`
	Zones     []progressZone `json:"zones"`
}

type progressCounts struct {
	Users     int  `json:"users"`
	Stored    int  `json:"stored"`
	OptedOut  int  `json:"optedOut"`
	Refused   int  `json:"refused"`
	LeftOut   int  `json:"leftOut"`
	Delivered int  `json:"delivered"`
	Failed    int  `json:"failed"`
	Cancelled int  `json:"cancelled"`
	Read      bool `json:"read"` // whether all users were read
}

type progressZone struct {
	dueZone
	progressCounts
}

func progressCountsOf(z broadcast.ZoneProgress) progressCounts {
	return progressCounts{z.Users, z.Stored, z.OptedOut, z.Refused, z.LeftOut, z.Delivered, z.Failed, z.Cancelled, z.Read}
}
