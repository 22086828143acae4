package webhook_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDeliverPutsThePayloadIntoItsEnvelope(t *testing.T) {
	t.Parallel()
	const envelope = `{"eventId":"0193b3a0-0000-7000-8000-000000000001","eventType":"BIRTHDAY"`
	tests := map[string]struct{ payload, want string }{
		"an object's members follow":       {`{"b":1,"a":{"d":2,"c":3}}`, `,"a":{"d":2,"c":3},"b":1}`},
		"an empty object adds nothing":     {`{}`, `}`},
		"a list is one member":             {`[1, 2]`, `,"payload":[1,2]}`},
		"a word is one member":             {`"hello"`, `,"payload":"hello"}`},
		"nothing is one member":            {`null`, `,"payload":null}`},
		"a great number stays as it is":    {`{"n":12345678901234567890.10}`, `,"n":12345678901234567890.10}`},
		"the envelope's names win":         {`{"eventId":"x","eventType":"y","z":1}`, `,"z":1}`},
		"they win in any case":             {`{"EVENTID":"x","eventtype":"y","z":1}`, `,"z":1}`},
		"what HTML would escape stays":     {`{"a<&>'b":"<&>'"}`, `,"a<&>'b":"<&>'"}`},
		"what was escaped stays as it was": {`{"a":"\u003c"}`, `,"a":"\u003c"}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := listen(t, status(http.StatusOK))
			d := greeting(time.Now())
			d.Event.Payload = json.RawMessage(tt.payload)
			require.NoError(t, deliverer(t, r.URL).Deliver(t.Context(), d))
			require.Equal(t, envelope+tt.want, string(r.received()[0].body))
		})
	}
}
