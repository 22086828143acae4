package webhook

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/almanac-go/almanac"
)

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC)
	tests := map[string]struct {
		value string
		want  time.Duration
	}{
		"nothing":                {"", 0},
		"seconds":                {"120", 2 * time.Minute},
		"no time at all":         {"0", 0},
		"negative":               {"-5", 0},
		"ten years":              {"315360000", longestWait},
		"more than fits":         {"18446744073709551616", 0},
		"a date":                 {"Sun, 29 Mar 2026 01:00:30 GMT", 30 * time.Second},
		"a date that has passed": {"Sun, 29 Mar 2026 00:00:00 GMT", 0},
		"a date in ten years":    {"Sat, 29 Mar 2036 01:00:00 GMT", longestWait},
		"words":                  {"soon", 0},
		"a fraction":             {"1.5", 0},
	}
	for name, tt := range tests {
		if got := retryAfter(tt.value, at); got != tt.want {
			t.Errorf("%s: Retry-After %q = %v, want %v", name, tt.value, got, tt.want)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{"120", "-1", "Sun, 29 Mar 2026 01:00:30 GMT", "soon"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if wait := retryAfter(value, time.Now()); wait < 0 || wait > longestWait {
			t.Errorf("Retry-After %q = %v", value, wait)
		}
	})
}

func FuzzBody(f *testing.F) {
	for _, seed := range []string{`{"message":"x"}`, `{"eventId":1,"eventType":{}}`, `[1, 2]`, `null`, `"x"`, `{"a":1,"a":2}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, payload string) {
		if !json.Valid([]byte(payload)) {
			return
		}
		e := almanac.Event{Type: "T", Payload: json.RawMessage(payload)}
		body, err := bodyOf(e)
		if err != nil {
			t.Fatalf("payload %q: %v", payload, err)
		}
		var envelope struct{ EventID, EventType string }
		if err := json.Unmarshal(body, &envelope); err != nil || envelope.EventType != "T" || envelope.EventID != e.ID.String() {
			t.Errorf("payload %q makes %s: %v", payload, body, err)
		}
		if again, _ := bodyOf(e); string(again) != string(body) {
			t.Errorf("payload %q makes another body the second time", payload)
		}
	})
}

func FuzzVerify(f *testing.F) {
	v, err := NewVerifier("c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0")
	if err != nil {
		f.Fatal(err)
	}
	f.Add("id", "1774746000", "v1,AAAA v1a,BBBB", "{}")
	f.Fuzz(func(t *testing.T, id, timestamp, signature, body string) {
		h := http.Header{}
		h.Set(headerID, id)
		h.Set(headerTimestamp, timestamp)
		h.Set(headerSignature, signature)
		if v.Verify(h, []byte(body), time.Unix(1774746000, 0)) == nil {
			t.Errorf("accepted %q %q %q %q, which nobody signed", id, timestamp, signature, body)
		}
	})
}
