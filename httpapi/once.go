package httpapi

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/jsonb"
)

const keyHeader = "Idempotency-Key"

// A key is a string according to RFC 9651, section 3.3.3. Clients often omit the quotes, so
// a key without quotes is accepted when they make no difference.
var (
	quotedKey = regexp.MustCompile(`^"((?:[ !#-\[\]-~]|\\["\\])+)"$`)
	bareKey   = regexp.MustCompile(`^[A-Za-z0-9._~:/+=-]+$`)
)

// keyOf returns the request's idempotency key, or "" if there is none.
func keyOf(r *http.Request, bad *complaints) string {
	lines := r.Header.Values(keyHeader)
	if len(lines) == 0 {
		return ""
	}
	key := lines[0]
	if quoted := quotedKey.FindStringSubmatch(key); quoted != nil {
		key = strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(quoted[1])
	} else if !bareKey.MatchString(key) {
		key = ""
	}
	if len(lines) > 1 || key == "" || len(key) > 255 {
		bad.add(keyHeader, "is not one text of 1 to 255 ASCII characters, in quotes")
	}
	return key
}

// keySpace is the namespace of the ids that are derived from keys. With another value,
// every key ever used would create another user.
var keySpace = uuid.MustParse("0797c45c-e902-4134-892e-bc4ee1248250")

// idOfKey derives the id of the user that a principal creates with a key, as a name-based
// UUID (RFC 9562) with SHA-256 (appendix B.2). The store accepts an id only once, so a key
// creates only one user, through every crash and failover. A table of keys would also remember
// the keys of deleted users, but by storing data about a user who asked to be forgotten.
func idOfKey(principal, key string) uuid.UUID {
	name := strconv.Itoa(len(principal)) + ":" + principal + key
	return uuid.NewHash(sha256.New(), keySpace, []byte(name), 8)
}

// withKey returns the profile with the id and the digest for a request with a key. It
// refuses the key when principals are required and the request has none.
func (a *api) withKey(r *http.Request, key string, p almanac.Profile) (almanac.Profile, error) {
	principal := a.principal(r)
	if a.authorizes && principal == "" {
		var bad complaints
		bad.add(keyHeader, "is for requests with a principal, and this one has none")
		return p, bad.problem()
	}
	p.ID, p.CreationDigest = idOfKey(principal, key), digestOf(principal, key, p)
	return p, nil
}

// digestOf returns the digest that identifies a repeated request. It ignores how the body was
// written. It includes the key, so that the digest does not allow guesses at names and birth dates.
// A request without optional fields has the digest that it had before there were such fields.
func digestOf(principal, key string, p almanac.Profile) string {
	if zone, err := calendar.LoadTimezone(p.Timezone); err == nil {
		p.Timezone = zone.String()
	}
	attributes := []byte("{}")
	if p.Attributes != nil {
		attributes = jsonb.Canonical(p.Attributes)
	}
	parts := []any{principal, key, p.FirstName, p.LastName, p.DateOfBirth, p.Timezone, json.RawMessage(attributes)}
	if p.Locale+p.Email+p.ExternalID != "" {
		parts = append(parts, p.Locale, p.Email, p.ExternalID)
	}
	if p.Calendar != "" {
		parts = append(parts, "calendar", p.Calendar)
	}
	text, _ := json.Marshal(parts)
	sum := sha256.Sum256(text)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// createdBefore answers a request whose key has been used. It returns the user as stored
// now, if the request is the same and may access that user.
func (a *api) createdBefore(r *http.Request, p almanac.Profile) (almanac.UserWithEvents, error) {
	ctx := r.Context()
	refusal := newProblem(http.StatusForbidden, "the credentials do not suffice for the user of this idempotency key")
	if err := a.authorize(r, p.ID, refusal); err != nil {
		return almanac.UserWithEvents{}, err
	}
	u, err := a.reader.User(ctx, p.ID)
	if errors.Is(err, almanac.ErrNotFound) {
		refusal := newProblem(http.StatusConflict, "the user of this idempotency key is being created or deleted at this moment; try again")
		refusal.Type, refusal.header = createdOnce, http.Header{"Retry-After": {"1"}}
		return almanac.UserWithEvents{}, refusal
	}
	if err != nil {
		return almanac.UserWithEvents{}, err
	}
	if u.CreationDigest != p.CreationDigest {
		refusal := newProblem(http.StatusUnprocessableEntity, "this idempotency key was used for another user")
		refusal.Type = createdOnce
		return almanac.UserWithEvents{}, refusal
	}
	found, err := a.reader.Find(ctx, almanac.And{
		almanac.ForUser(u.ID), almanac.OfType(almanac.TypeBirthday),
		almanac.Or{almanac.InStatus(almanac.Pending), almanac.InStatus(almanac.Processing)},
	}, almanac.Page{})
	return almanac.UserWithEvents{User: u, Events: found.Items}, err
}
