package webhook_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/webhook"
)

// sent delivers a payload with an option, and returns the media type and the body.
func sent(t *testing.T, payload string, option webhook.Option) (mediaType, body string, err error) {
	t.Helper()
	r := listen(t, status(http.StatusOK))
	d := greeting(time.Date(2026, time.March, 15, 14, 0, 1, 0, time.UTC))
	d.Event.Payload = json.RawMessage(payload)
	d.Event.Due, d.Event.Zone = time.Date(2026, time.March, 15, 14, 0, 0, 0, time.UTC), "America/New_York"
	d.Event.Wall = calendar.StoredTimezone(d.Event.Zone).WallTime(d.Event.Due)
	if err = deliverer(t, r.URL, option).Deliver(t.Context(), d); err != nil {
		require.Empty(t, r.received())
		return "", "", err
	}
	got := r.received()[0]
	return got.header.Get("Content-Type"), string(got.body), nil
}

func TestATemplateMakesTheBody(t *testing.T) {
	t.Parallel()
	const hostile = `{"message": "Hey, \"}, \"admin\": true, {\" <b> & \\ \n it's", "n": 12345678901234567890.10, "list": ["a\"", "b"], "none": null}`
	for name, tt := range map[string]struct{ template, want string }{
		"a text stays one text":     {`{"text": "{{.Payload.message}}"}`, `{"text":"Hey, \"}, \"admin\": true, {\" <b> & \\ \n it's"}`},
		"so with its own quotes":    {`{"text": {{json .Payload.message}}}`, `{"text":"Hey, \"}, \"admin\": true, {\" <b> & \\ \n it's"}`},
		"within a greater text":     {`{"text": "{{printf "%s!" (index .Payload.list 0)}}"}`, `{"text":"a\"!"}`},
		"a number is a number":      {`{"n": {{.Payload.n}}}`, `{"n":12345678901234567890.10}`},
		"in lists, with a variable": {`[{{range $i, $v := .Payload.list}}{{if $i}},{{else}}{{end}}"{{$v}}"{{end}}]`, `["a\"","b"]`},
		"in a branch":               {`{"a": "{{with index .Payload.list 0}}{{.}}{{end}}", "b": "{{if .Payload.list}}{{index .Payload.list 0}}{{end}}"}`, `{"a":"a\"","b":"a\""}`},
		"by a variable":             {`{{$list := json .Payload.list}}{{$list}}`, `["a\"","b"]`},
		"in parts":                  {`{{define "x"}}"{{.}}"{{end}}{{with index .Payload.list 0}}{{template "x" .}}{{else}}{{.}}{{end}}`, `"a\""`},
		"any value":                 {`{{json .Payload.list}}`, `["a\"","b"]`},
		"nothing":                   {`{{.Payload.none}}`, `null`},
		"the event": {`["{{.EventID}}", "{{.EventType}}", "{{.Due}}", "{{.Wall}}", "{{.Zone}}"]`,
			`["0193b3a0-0000-7000-8000-000000000001","BIRTHDAY","2026-03-15T14:00:00Z","2026-03-15T10:00:00","America/New_York"]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mediaType, body, err := sent(t, hostile, webhook.WithTemplate(tt.template))
			require.NoError(t, err)
			require.Equal(t, "application/json", mediaType)
			require.Equal(t, tt.want, body)
		})
	}
}

// Another attempt would write the same.
func TestABadBodyFailsItsEventForGood(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ template, want string }{
		"no JSON":             {`{"text": {{.Payload.message}}}`, "the template wrote what is not JSON"},
		"nothing":             {` `, "the template wrote what is not JSON"},
		"a member that lacks": {`{"text": "{{.Payload.massage}}"}`, `no entry for key "massage"`},
		"no text":             {`{"text": "{{json .Payload}}"}`, "the template wrote what is not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := sent(t, `{"message": "Hey"}`, webhook.WithTemplate(tt.template))
			require.ErrorIs(t, err, almanac.ErrPermanent)
			require.ErrorContains(t, err, "webhook: body of event 0193b3a0-0000-7000-8000-000000000001: ")
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestACloudEventHoldsTheBody(t *testing.T) {
	t.Parallel()
	mediaType, body, err := sent(t, `{"message": "Hey, <Ada>"}`, webhook.WithCloudEvents("https://example.com/greetings", "com.example."))
	require.NoError(t, err)
	require.Equal(t, "application/cloudevents+json", mediaType)
	require.Equal(t, `{"specversion":"1.0","id":"event-0da59425d0ba435e","source":"https://example.com/greetings","type":"com.example.BIRTHDAY",`+
		`"time":"2026-03-15T14:00:00Z","datacontenttype":"application/json",`+
		`"data":{"eventId":"0193b3a0-0000-7000-8000-000000000001","eventType":"BIRTHDAY","message":"Hey, <Ada>"}}`, body)
}

func TestNewRefusesBadContents(t *testing.T) {
	t.Parallel()
	for want, options := range map[string][]webhook.Option{
		"template: body:1":                  {webhook.WithTemplate(`{{.Payload`)},
		`function "shout" not defined`:      {webhook.WithTemplate(`{{shout .}}`)},
		`the source "" of CloudEvents`:      {webhook.WithCloudEvents("", "")},
		`the source "a b://%" of`:           {webhook.WithCloudEvents("a b://%", "")},
		"more than one of WithTemplate and": {webhook.WithTemplate(`{}`), webhook.WithCloudEvents("/a", "")},
	} {
		_, err := webhook.New("https://example.com/", options...)
		require.ErrorContains(t, err, want)
	}
}

// FuzzTemplatedBodies puts hostile texts into a body: they stay in their place.
func FuzzTemplatedBodies(f *testing.F) {
	for _, text := range []string{"", `"`, `\`, `\"`, "a\nb", "\u2028", `","admin":"true`, "\xff", "{{.EventID}}", "</script>", "\x00\x1f\x7f"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		payload, err := json.Marshal(map[string]string{"message": text})
		require.NoError(t, err)
		_, body, err := sent(t, string(payload), webhook.WithTemplate(`{"a": "<{{.Payload.message}}>", "b": {{json .Payload.message}}}`))
		require.NoError(t, err)
		var got map[string]string
		require.NoError(t, json.Unmarshal([]byte(body), &got))
		want := strings.ToValidUTF8(text, "\ufffd")
		if want != text {
			require.Len(t, got, 2)
			return
		}
		require.Equal(t, map[string]string{"a": "<" + text + ">", "b": text}, got)
	})
}
