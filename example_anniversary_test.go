package almanac_test

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/almanac-go/almanac"
)

// The date stands among the person's attributes. The day itself is no anniversary;
// the first one comes a year later.
func ExampleAnniversary() {
	hired := almanac.Anniversary{Type: "HIRED", Attribute: "hired"}
	now := time.Date(2024, time.February, 29, 8, 0, 0, 0, time.UTC)
	user, err := almanac.NewUser(almanac.Profile{
		FirstName: "Grace", LastName: "Hopper", DateOfBirth: "1990-12-09", Timezone: "America/New_York",
		Attributes: json.RawMessage(`{"hired": "2024-02-29"}`),
	}, now)
	if err != nil {
		panic(err)
	}

	for after := now; after.Year() < 2026; after = after.AddDate(1, 0, 1) {
		o, err := hired.Next(user, after)
		if err != nil {
			panic(err)
		}
		payload, err := hired.Payload(user, o)
		if err != nil {
			panic(err)
		}
		fmt.Println(o.Wall, string(payload))
	}
	// Output:
	// 2025-02-28T09:00:00 {"message":"Hey, Grace Hopper it's your first anniversary","years":1}
	// 2026-02-28T09:00:00 {"message":"Hey, Grace Hopper it's your anniversary: 2 years","years":2}
}
