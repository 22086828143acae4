// Package signedlink makes and verifies the tokens of links by which users act without a
// login. Unsubscribe links of contrib/mail and calendars of package icalendar use it.
package signedlink

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// Key is a key for links. Keep a retired key for as long as its links are to work. Links for
// different purposes may have the same keys: a token for one is not valid for the other.
type Key struct {
	ID     string // 1 to 16 letters, digits, hyphens or underscores; part of the links
	Secret []byte // at least 32 random bytes
}

// Signer makes and verifies tokens for one purpose. Tokens never expire. A Signer is safe for
// concurrent use. Every process that makes or verifies tokens needs the same keys.
type Signer struct {
	purpose string
	keys    []Key // the first signs
}

// New returns a Signer, and the URL that the links begin with. The URL must be an absolute https URL
// without fragment, because links are secrets. It may be http for localhost and loopback addresses, to
// try it out. The first key signs; all keys verify. The error names everything that is wrong.
func New(purpose, target string, keys ...Key) (*Signer, *url.URL, error) {
	base, err := url.Parse(target)
	var errs []error
	if err != nil || !isSecure(base) || base.Fragment != "" {
		errs = append(errs, errors.New("the URL of links is not an absolute https URL without fragment"))
	}
	if len(keys) == 0 {
		errs = append(errs, errors.New("links need a key"))
	}
	known := make(map[string]bool)
	for _, k := range keys {
		switch {
		case len(k.ID) < 1 || len(k.ID) > 16 || strings.Trim(k.ID, alphabet) != "":
			errs = append(errs, fmt.Errorf("key id %q is not 1 to 16 letters, digits, hyphens or underscores", k.ID))
		case known[k.ID]:
			errs = append(errs, fmt.Errorf("two keys have the id %q", k.ID))
		case len(k.Secret) < sha256.Size:
			errs = append(errs, fmt.Errorf("the secret of key %q is shorter than %d bytes", k.ID, sha256.Size))
		}
		known[k.ID] = true
	}
	return &Signer{purpose, keys}, base, errors.Join(errs...)
}

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// isSecure reports whether no third party between a browser and the host can read a URL.
func isSecure(u *url.URL) bool {
	ip, err := netip.ParseAddr(u.Hostname())
	loopback := u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
	return u.Host != "" && (u.Scheme == "https" || u.Scheme == "http" && loopback)
}

// Token returns the token of a subject: <key id>.<subject>.<HMAC>, the last two in base64. It
// needs no escaping in the path or the query of a URL.
func (s *Signer) Token(subject []byte) string { return s.sign(s.keys[0], subject) }

// Verify returns the subject of a token, and whether one of the keys signed it.
func (s *Signer) Verify(token string) (subject []byte, ok bool) {
	id, rest, _ := strings.Cut(token, ".")
	encoded, _, _ := strings.Cut(rest, ".")
	subject, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return nil, false
	}
	for _, k := range s.keys {
		if k.ID == id {
			return subject, hmac.Equal([]byte(token), []byte(s.sign(k, subject)))
		}
	}
	return nil, false
}

func (s *Signer) sign(k Key, subject []byte) string {
	signed := k.ID + "." + base64.RawURLEncoding.EncodeToString(subject)
	mac := hmac.New(sha256.New, k.Secret)
	mac.Write([]byte("almanac " + s.purpose + " " + signed)) // no other use of the secret gives the same
	return signed + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}
