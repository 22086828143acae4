package httpapi_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOptOutAndOptIn(t *testing.T) {
	t.Parallel()
	s := open(t)
	user, event := s.create(grace)
	path := "/user/" + user["id"].(string)
	refused := func(a answer) any {
		require.Equal(t, http.StatusOK, a.status, a.body)
		return withoutSince(s.object(a)["user"].(map[string]any)["optOuts"])
	}
	birthday, mail := map[string]any{"type": "BIRTHDAY"}, map[string]any{"channel": "mail"}

	first := s.send("POST", path+"/opt-out", `{"type":"BIRTHDAY"}`)
	require.Equal(t, []any{birthday}, refused(first))
	require.Equal(t, `"2"`, first.header.Get("ETag"))
	require.Equal(t, http.StatusNotFound, s.send("GET", "/events/"+event["id"].(string), "").status, "removed")
	again := s.send("POST", path+"/opt-out", `{"type":"BIRTHDAY"}`)
	require.Equal(t, []any{birthday}, refused(again))
	require.Equal(t, `"2"`, again.header.Get("ETag"), "nothing is changed a second time")
	require.Equal(t, []any{map[string]any{}, mail, birthday}, refused(func() answer {
		refused(s.send("POST", path+"/opt-out", `{}`))
		return s.send("POST", path+"/opt-out", `{"channel":"mail"}`)
	}()))
	require.Equal(t, []any{mail, birthday}, refused(s.send("POST", path+"/opt-in", `{}`)))
	require.Equal(t, []any{mail, birthday}, refused(s.send("GET", path, "")))
	require.Equal(t, []any{mail, birthday}, refused(s.send("PUT", path, `{"firstName":"Ada"}`)), "an edit keeps them")

	require.Equal(t, []any{mail}, refused(s.send("POST", path+"/opt-in", `{"type":"BIRTHDAY"}`)))
	listed := s.object(s.send("GET", path+"/events", ""))["events"].([]any)
	require.Len(t, listed, 1, "planned anew")
	require.Equal(t, event["occurrenceKey"], listed[0].(map[string]any)["occurrenceKey"])
	require.Nil(t, refused(s.send("POST", path+"/opt-in", `{"channel":"mail"}`)))
}

// withoutSince returns opt-outs without the time at which they were stored, which each of them has.
func withoutSince(all any) any {
	list, _ := all.([]any)
	for _, one := range list {
		o := one.(map[string]any)
		if _, err := time.Parse(time.RFC3339, o["since"].(string)); err == nil {
			delete(o, "since")
		}
	}
	return all
}

func TestAnOptOutCanHaveAnEnd(t *testing.T) {
	t.Parallel()
	s := open(t)
	user, event := s.create(grace)
	path := "/user/" + user["id"].(string)
	until := event["targetTimestampLocal"].(string)[:10]
	a := s.send("POST", path+"/opt-out", `{"type":"BIRTHDAY","until":"`+until+`","reason":"on leave"}`)
	require.Equal(t, http.StatusOK, a.status, a.body)
	require.Equal(t, []any{map[string]any{"type": "BIRTHDAY", "until": until, "reason": "on leave"}}, withoutSince(s.object(a)["user"].(map[string]any)["optOuts"]))
	listed := s.object(s.send("GET", path+"/events", ""))["events"].([]any)
	require.Equal(t, event["occurrenceKey"], listed[0].(map[string]any)["occurrenceKey"], "the event of the day itself is owed")
	require.Equal(t, http.StatusOK, s.send("POST", path+"/opt-in", `{"type":"BIRTHDAY"}`).status)
	require.Equal(t, http.StatusBadRequest, s.send("POST", path+"/opt-out", `{"until":"2027-02-30"}`).status)
}

func TestOptOutsCountTheEventsThatTheyChange(t *testing.T) {
	t.Parallel()
	s := open(t)
	user, _ := s.create(grace)
	path := "/user/" + user["id"].(string)
	counts := func(a answer) any {
		require.Equal(t, http.StatusOK, a.status, a.body)
		return s.object(a)["reschedule"]
	}
	none := map[string]any{"rescheduled": 0.0, "added": 0.0, "removed": 0.0, "cancelled": 0.0, "skipped": 0.0, "skippedEventIds": []any{}, "leftOut": []any{}}
	with := func(name string) map[string]any {
		one := maps.Clone(none)
		one[name] = 1.0
		return one
	}

	require.Equal(t, with("removed"), counts(s.send("POST", path+"/opt-out", `{}`)))
	require.Equal(t, none, counts(s.send("POST", path+"/opt-out", `{}`)), "nothing is changed a second time")
	require.Equal(t, with("added"), counts(s.send("POST", path+"/opt-in", `{}`)))
}

func TestOptOutRefuses(t *testing.T) {
	t.Parallel()
	s := open(t)
	user, _ := s.create(grace)
	path := "/user/" + user["id"].(string) + "/opt-out"

	for body, want := range map[string]map[string]string{
		``:                        {"body": "is empty"},
		`[]`:                      {"body": "is not a JSON object"},
		`{"type":""}`:             {"type": "is empty; leave it out to mean all"},
		`{"type":null}`:           {"type": "must be a string"},
		`{"type":"A","type":"B"}`: {"type": "is given more than once"},
		`{"typ":"A","channel":1}`: {"typ": "is not a known field", "channel": "must be a string"},
		`{"channel":"` + strings.Repeat("a", 51) + `"}`:    {"optOuts": "has a channel that has 51 bytes, not 1 to 50"},
		`{"type":"` + strings.Repeat("a", 51) + `","x":1}`: {"optOuts": "has a type that has 51 bytes, not 1 to 50", "x": "is not a known field"},
	} {
		require.Equal(t, want, s.complaints(s.send("POST", path, body)), body)
	}
	s.problem(s.send("POST", path, `{}`, `If-Match: "9"`), http.StatusPreconditionFailed)
	s.problem(s.send("POST", "/user/00000000-0000-4000-8000-000000000001/opt-out", `{}`), http.StatusNotFound)
	u := s.object(s.send("GET", "/user/"+user["id"].(string), ""))["user"].(map[string]any)
	require.Nil(t, u["optOuts"])
}
