package zones

import "strings"

// places maps names that are not zones, in lower case as returned by fold, to the zone that
// was most likely meant. Edit distance cannot find these.
var places = map[string]string{
	// Abbreviations that the database never had as names. Several are ambiguous; the
	// suggestion is the zone with the most users.
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

// systemV are the accepted names that look like abbreviations, in lower case. They are not
// suggested for other misspelt names: "AEST" is not close to "EST".
var systemV = map[string]bool{
	"cet": true, "cst6cdt": true, "eet": true, "est": true, "est5edt": true, "hst": true,
	"met": true, "mst": true, "mst7mdt": true, "pst8pdt": true, "wet": true,
}

// withoutPath removes from a folded name the path of a directory of zone files:
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
