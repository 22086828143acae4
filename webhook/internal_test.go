package webhook

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/almanac-go/almanac"
)

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
	for _, seed := range []string{`{"message":"x"}`, `{"eventId":1,"eventType":{}}`, `{"EVENTID":1,"eventtype":{}}`, `[1, 2]`, `null`, `"x"`, `{"a":1,"a":2}`} {
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

func FuzzNew(f *testing.F) {
	for _, seed := range []string{"https://example.com/hook?x=1", "http://x/", "https://[::ffff:127.0.0.1]:1/", "https://a@b/#c",
		"https://0x7f.1/", "HTTPS://BÜCHER.example.:443", "https:\\\\example.com", "https://[fe80::1%25lo]/"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, target string) {
		if _, err := New(target); err != nil {
			return
		}
		r, err := http.NewRequest(http.MethodPost, target, nil)
		if err != nil {
			t.Fatalf("%q is accepted and makes no request: %v", target, err)
		}
		u := r.URL
		if len(target) > maxURL || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
			t.Errorf("%q is accepted", target)
		}
		if ip, err := netip.ParseAddr(u.Hostname()); err == nil && (ip.Unmap().IsPrivate() || !ip.Unmap().IsGlobalUnicast()) {
			t.Errorf("%q is accepted, which leads inside", target)
		}
	})
}
