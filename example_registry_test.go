package almanac_test

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/almanac-go/almanac"
)

// anniversary thanks people at 09:00 on each anniversary of the hire date that
// stands among their attributes. Who has none is owed nothing.
type anniversary struct{ almanac.Execution }

func (anniversary) EventType() string { return "ANNIVERSARY" }

func (anniversary) Next(u almanac.User, after time.Time) (almanac.Occurrence, error) {
	var facts struct {
		HireDate string `json:"hireDate"`
	}
	if err := json.Unmarshal(u.Attributes, &facts); err != nil || facts.HireDate == "" {
		return almanac.Occurrence{}, almanac.ErrNoOccurrence
	}
	hired, err := almanac.ParseDate(facts.HireDate)
	if err != nil {
		return almanac.Occurrence{}, err
	}
	yearly := almanac.Yearly{Month: hired.Month, Day: hired.Day, At: almanac.Clock{Hour: 9}}
	return almanac.Next(yearly, u.Timezone, almanac.Policies{}, after)
}

func (anniversary) Payload(u almanac.User, o almanac.Occurrence) (json.RawMessage, error) {
	return json.Marshal(map[string]string{"message": fmt.Sprintf("Thank you, %s, for another year. It is %s!", u.FirstName, o.Key)})
}

func (anniversary) Channel(almanac.Event) almanac.Channel { return almanac.ChannelWebhook }

// A handler of your own stands beside the ready-made ones.
func ExampleRegistry() {
	registry, err := almanac.NewRegistry(almanac.Birthday{}, anniversary{})
	if err != nil {
		panic(err)
	}
	handler, err := registry.Handler("ANNIVERSARY")
	if err != nil {
		panic(err)
	}
	now := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	user, err := almanac.NewUser(almanac.Profile{
		FirstName: "Grace", LastName: "Hopper", DateOfBirth: "1990-12-09", Timezone: "America/New_York",
		Attributes: json.RawMessage(`{"hireDate": "2020-02-29"}`),
	}, now)
	if err != nil {
		panic(err)
	}
	occurrence, err := handler.Next(user, now)
	if err != nil {
		panic(err)
	}
	payload, err := handler.Payload(user, occurrence)
	fmt.Println(registry.EventTypes())
	fmt.Println(occurrence.Wall, string(payload), err)
	// Output:
	// [ANNIVERSARY BIRTHDAY]
	// 2026-02-28T09:00:00 {"message":"Thank you, Grace, for another year. It is 2026!"} <nil>
}
