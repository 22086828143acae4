package zones

import "strings"

// places gives the zone that somebody most likely meant who wrote what is none: in
// lower case, as fold leaves it. Edit distance knows nothing of them.
var places = map[string]string{
	// Abbreviations that the database never had as names. Several are those of more
	// than one place; a suggestion is a question, and asks for the most people's.
	"bst":  "Europe/London", // and Asia/Dhaka
	"cdt":  "America/Chicago",
	"cest": "Europe/Brussels",
	"cst":  "America/Chicago", // and Asia/Shanghai, America/Havana
	"edt":  "America/New_York",
	"ist":  "Asia/Kolkata", // and Europe/Dublin, Asia/Jerusalem
	"jst":  "Asia/Tokyo",
	"mdt":  "America/Denver",
	"pdt":  "America/Los_Angeles",
	"pst":  "America/Los_Angeles", // and Asia/Manila
}

// systemV are the accepted names that look like abbreviations, in lower case. They are
// suggested to nobody who misspelt another one: "AEST" is not nearly "EST".
var systemV = map[string]bool{
	"cet": true, "cst6cdt": true, "eet": true, "est": true, "est5edt": true, "hst": true,
	"met": true, "mst": true, "mst7mdt": true, "pst8pdt": true, "wet": true,
}

// withoutPath cuts from a folded name what leads to it in a directory of zone files:
// "/usr/share/zoneinfo/posix/", "right/", "./".
func withoutPath(name string) string {
	if _, inside, ok := strings.Cut(name, "/zoneinfo/"); ok {
		name = inside
	}
	for {
		first, rest, ok := strings.Cut(name, "/")
		if !ok || first != "posix" && first != "right" && first != "." && first != "" {
			return name
		}
		name = rest
	}
}
