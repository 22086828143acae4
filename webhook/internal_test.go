package webhook

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/almanac-go/almanac"
)

func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{
		"120", "-1", "+5", "1e3", "86400", "86401", "315360000", "18446744073709551616", "0000000000000000000000000000001", "", " 5", "1.5", "soon",
		"Sun, 29 Mar 2026 01:00:30 GMT", "Sunday, 29-Mar-26 01:00:30 GMT", "Sun Mar 29 01:00:30 2026", "Sun, 29 Mar 0000 01:00:30 GMT", "Fri, 31 Dec 9999 23:59:59 GMT",
	} {
		f.Add(seed, int64(1774746000))
	}
	f.Fuzz(func(t *testing.T, value string, now int64) {
		at := time.Unix(now, 0)
		wait := retryAfter(value, at)
		if wait < 0 || wait > longestWait {
			t.Errorf("Retry-After %q = %v", value, wait)
		}
		if seconds, err := strconv.Atoi(value); err == nil && value[0] != '+' && wait != min(max(time.Duration(seconds), 0), 86400)*time.Second && seconds < 1e9 {
			t.Errorf("Retry-After %q = %v, want so many seconds up to a day", value, wait)
		}
		// The same wait as a date must give the same result.
		date := at.Add(wait).UTC()
		if year := date.Year(); year >= 1970 && year <= 9999 && retryAfter(date.Format(http.TimeFormat), at) != wait.Truncate(time.Second) {
			t.Errorf("Retry-After %q = %v, and as a date %v", value, wait, retryAfter(date.Format(http.TimeFormat), at))
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
			t.Errorf("accepted %q %q %q %q, which has no valid signature", id, timestamp, signature, body)
		}
	})
}

// FuzzSignatures signs with two secrets, as a sender does while receivers change over. It
// hides the signatures among other text, and the verifier must find them.
func FuzzSignatures(f *testing.F) {
	keys, err := parseSecrets([]string{"c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0", "whsec_b3RoZXJvdGhlcm90aGVyb3RoZXJvdGhlcm90aGVy"})
	if err != nil {
		f.Fatal(err)
	}
	for _, noise := range []string{"", "v1,", "v1", ",", "v1,AAAA v1a,BBBB", "v2,AAAA", "v1,v1,", "  ", "v1,\u2003v1,", strings.Repeat("v1,AAAA ", 1000)} {
		f.Add("event-0da59425d0ba435e", int64(1774746000), `{"eventId":"1"}`, noise)
	}
	f.Add("a.1774746000", int64(1774746000), "1774746000.{}", "")
	f.Fuzz(func(t *testing.T, id string, seconds int64, body, noise string) {
		timestamp, at := strconv.FormatInt(seconds, 10), time.Unix(seconds, 0)
		h := http.Header{}
		h.Set(headerID, id)
		h.Set(headerTimestamp, timestamp)
		sent := sign(keys, id, timestamp, []byte(body))
		genuine := id != "" && !strings.Contains(id, ".")
		for _, k := range keys {
			v := &Verifier{[]key{k}}
			for _, list := range []string{sent, noise + " " + sent, sent + " " + noise} {
				h.Set(headerSignature, list)
				if err := v.Verify(h, []byte(body), at); (err == nil) != genuine {
					t.Errorf("id %q, body %q, signatures %q: %v", id, body, list, err)
				}
			}
			if v.Verify(h, []byte(body+"x"), at) == nil || v.Verify(h, []byte("x"+body), at) == nil {
				t.Errorf("id %q, body %q: another body is accepted", id, body)
			}
			for _, off := range []time.Duration{-Tolerance - time.Second, Tolerance + time.Second} {
				if v.Verify(h, []byte(body), at.Add(off)) == nil {
					t.Errorf("id %q at %d is accepted %v later", id, seconds, off)
				}
			}
			h.Set(headerSignature, noise)
			if v.Verify(h, []byte(body), at) == nil {
				t.Errorf("signatures %q are accepted", noise)
			}
		}
	})
}

// inside are networks that must not be dialled by default, listed independently of the
// registries that the guard uses.
var inside = []string{
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24",
	"192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "::/16",
	"100::/64", "2001::/32", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
}

// FuzzGuard compares the guard with that list, in every notation of an address.
func FuzzGuard(f *testing.F) {
	var networks []netip.Prefix
	for _, text := range inside {
		network := netip.MustParsePrefix(text)
		networks = append(networks, network)
		f.Add(network.Addr().AsSlice(), "")
	}
	f.Add(netip.MustParseAddr("93.184.216.34").AsSlice(), "")
	f.Add(netip.MustParseAddr("2606:4700::1111").AsSlice(), "eth0")
	f.Add(netip.MustParseAddr("::ffff:169.254.169.254").AsSlice(), "")
	f.Fuzz(func(t *testing.T, bytes []byte, scope string) {
		ip, ok := netip.AddrFromSlice(bytes)
		if !ok {
			return
		}
		bare := ip.Unmap()
		closed, open := guard{}, guard{private: true, anyPort: true}
		strict, lenient := closed.check(netip.AddrPortFrom(ip, 443)), open.check(netip.AddrPortFrom(ip, 80))
		for _, network := range networks {
			if network.Contains(bare) && strict == nil {
				t.Errorf("%v may be dialled, which is in %v", ip, network)
			}
		}
		if strict == nil && lenient != nil {
			t.Errorf("%v may be dialled, but not where more is allowed: %v", ip, lenient)
		}
		if private := bare.IsLoopback() || bare.IsPrivate() || sharedSpace.Contains(bare) ||
			wellKnownNAT64.Contains(bare) || localNAT64.Contains(bare); strict != nil && lenient == nil && !private {
			t.Errorf("%v is neither public nor private, and may be dialled", ip)
		}
		if bare.Is4() {
			b := bare.As4()
			translated := netip.AddrFrom16([16]byte{0, 0x64, 0xff, 0x9b, 12: b[0], 13: b[1], 14: b[2], 15: b[3]})
			if again := closed.check(netip.AddrPortFrom(translated, 443)); (again == nil) != (strict == nil) {
				t.Errorf("%v and %v are judged differently: %v, %v", ip, translated, strict, again)
			}
		}
		clothed := netip.AddrFrom16(bare.As16()).WithZone(scope)
		if again := closed.check(netip.AddrPortFrom(clothed, 443)); (again == nil) != (strict == nil) {
			t.Errorf("%v and %v are judged differently: %v, %v", ip, clothed, strict, again)
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
			t.Fatalf("%q is accepted but no request can be made: %v", target, err)
		}
		u := r.URL
		if len(target) > maxURL || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Fragment != "" || u.Port() != "" && portOf(u) != 443 {
			t.Errorf("%q is accepted", target)
		}
		if ip, err := netip.ParseAddr(u.Hostname()); err == nil && (ip.Unmap().IsPrivate() || !ip.Unmap().IsGlobalUnicast()) {
			t.Errorf("%q is accepted, which leads inside", target)
		}
	})
}

func TestADeliveryTakesFifteenSecondsAtMostByDefault(t *testing.T) {
	t.Parallel()
	d, err := New("https://example.com/hook")
	if err != nil {
		t.Fatal(err)
	}
	if d.timeout != 15*time.Second {
		t.Errorf("a delivery may take %v, want 15s", d.timeout)
	}
}
