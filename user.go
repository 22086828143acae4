package almanac

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac/internal/jsonb"
)

// DateOfBirth is a day on which somebody can have been born: it exists in the
// calendar and is not before 1900-01-01. Whether it lies in the future depends on
// where the person lives, and is judged by [NewUser]. DatesOfBirth are comparable
// with ==. The zero DateOfBirth is none, and is refused.
type DateOfBirth struct{ date Date }

// earliestBirth is older than anybody alive; earlier dates are slips of the pen.
var earliestBirth = Date{1900, time.January, 1}

// ParseDateOfBirth reads a date of birth in the form "1990-03-15". The error is
// an [*InvalidDateOfBirthError].
func ParseDateOfBirth(s string) (DateOfBirth, error) {
	date, err := ParseDate(s)
	if err != nil {
		return DateOfBirth{}, &InvalidDateOfBirthError{Value: clip(s, 32), Reason: dateProblem(s)}
	}
	if date.Before(earliestBirth) {
		return DateOfBirth{}, &InvalidDateOfBirthError{Value: s, Reason: "is before " + earliestBirth.String()}
	}
	return DateOfBirth{date}, nil
}

// Date returns the date.
func (d DateOfBirth) Date() Date { return d.date }

// String formats d as "1990-03-15".
func (d DateOfBirth) String() string { return d.date.String() }

// User is a person whom events are for. Users are values: changing one means
// making another with [User.Edit].
type User struct {
	ID          uuid.UUID
	FirstName   string // 1 to 100 characters, which are at most 400 bytes
	LastName    string // as the first
	DateOfBirth DateOfBirth
	Timezone    Timezone
	Attributes  json.RawMessage // a JSON object: facts that handlers need, such as a hire date
	// CreationDigest is that of the profile that created the user. It never changes.
	CreationDigest string
	Version        int       // 1 when created; raised by every change
	CreatedAt      time.Time // UTC
	UpdatedAt      time.Time // UTC
}

// Profile is what a host knows of a person, as text, not yet validated.
type Profile struct {
	ID          uuid.UUID // the host's own id for the person; the zero UUID asks for a new one
	FirstName   string
	LastName    string
	DateOfBirth string          // YYYY-MM-DD
	Timezone    string          // an IANA name
	Attributes  json.RawMessage // a JSON object of at most 64 KiB; nil means {}
	// CreationDigest is a digest of the request that asks for the user, at most 64
	// bytes of ASCII without controls, or "" for none, which is the default. It is
	// stored with the user and never changes. So a program that meets [ErrExists] can
	// tell a repeated request from a different one, also after an edit of the user.
	CreationDigest string
}

// ProfileChange is a change of some fields of a profile; nil leaves a field as it is.
type ProfileChange struct {
	// Version is the one that the person must still be at, as whoever asks for the
	// change has seen them. At another, nothing is changed, and the error is an
	// [*OptimisticLockError]. Zero changes them whatever became of them meanwhile.
	Version     int
	FirstName   *string
	LastName    *string
	DateOfBirth *string
	Timezone    *string
	Attributes  json.RawMessage // replaces all of them
	// Merge changes some attributes and leaves the others: a JSON object by the rules
	// of RFC 7396, in which null removes a member. It is applied to what is stored at
	// that moment, so two changes of different members both take effect.
	Merge json.RawMessage
}

const (
	maxNameLength      = 100
	maxAttributesBytes = 64 << 10
	maxCreationDigest  = 64
)

// NewUser returns the user of a valid profile, as of now. A date of birth may be
// today in the user's own zone, but not later.
//
// The error is a [*ValidationError] that names every bad field.
func NewUser(p Profile, now time.Time) (User, error) {
	u := User{
		ID: p.ID, Attributes: json.RawMessage("{}"), CreationDigest: p.CreationDigest,
		Version: 1, CreatedAt: now.UTC(), UpdatedAt: now.UTC(),
	}
	if u.ID == uuid.Nil {
		id, err := uuid.NewV7()
		if err != nil {
			return User{}, fmt.Errorf("almanac: new user id: %w", err)
		}
		u.ID = id
	}
	return u.with(ProfileChange{0, &p.FirstName, &p.LastName, &p.DateOfBirth, &p.Timezone, p.Attributes, nil}, now)
}

// Edit returns u with the change applied, as of now, its version raised by one.
// The result is validated as by [NewUser]. The error is an [*OptimisticLockError]
// if the change is for another version of u.
func (u User) Edit(c ProfileChange, now time.Time) (User, error) {
	if err := u.expect(c.Version); err != nil {
		return User{}, err
	}
	u.Version++
	u.UpdatedAt = now.UTC()
	return u.with(c, now)
}

// expect refuses any version but u's own; zero is every version.
func (u User) expect(version int) error {
	if version != 0 && version != u.Version {
		return &OptimisticLockError{UserID: u.ID, Expected: version}
	}
	return nil
}

// Name returns the user's first and last name with a space between.
func (u User) Name() string { return u.FirstName + " " + u.LastName }

func (u User) with(c ProfileChange, now time.Time) (User, error) {
	var bad ValidationError
	refuse := func(field, problem string, err error) {
		bad.Fields = append(bad.Fields, FieldError{field, problem, err})
	}
	if c.FirstName != nil {
		u.FirstName = *c.FirstName
		if problem := nameProblem(u.FirstName); problem != "" {
			refuse("firstName", problem, nil)
		}
	}
	if c.LastName != nil {
		u.LastName = *c.LastName
		if problem := nameProblem(u.LastName); problem != "" {
			refuse("lastName", problem, nil)
		}
	}
	var born, zoned error
	if c.DateOfBirth != nil {
		if u.DateOfBirth, born = ParseDateOfBirth(*c.DateOfBirth); born != nil {
			refuse("dateOfBirth", problemOf(born), born)
		}
	}
	if c.Timezone != nil {
		if u.Timezone, zoned = LoadTimezone(*c.Timezone); zoned != nil {
			refuse("timezone", problemOf(zoned), zoned)
		}
	}
	if born == nil && latestBirth(u, zoned, now).Before(u.DateOfBirth.date) {
		err := &InvalidDateOfBirthError{Value: u.DateOfBirth.String(), Reason: "is in the future", Future: true}
		refuse("dateOfBirth", err.Reason, err)
	}
	if c.Attributes != nil {
		u.Attributes = bytes.Clone(c.Attributes)
	}
	if c.Merge != nil {
		// Judged before it is merged: what is too long or too deep to be kept is not
		// worked on, and names that cannot be kept must not be mended in silence.
		if problem := attributesProblem(c.Merge); problem != "" {
			refuse("merge", problem, nil)
		} else {
			u.Attributes = jsonb.Merge(u.Attributes, c.Merge)
		}
	}
	if problem := attributesProblem(u.Attributes); problem != "" {
		refuse("attributes", problem, nil)
	}
	if !printable(u.CreationDigest, maxCreationDigest) {
		refuse("creationDigest", fmt.Sprintf("is not at most %d bytes of ASCII without controls", maxCreationDigest), nil)
	}
	if len(bad.Fields) > 0 {
		return User{}, &bad
	}
	return u, nil
}

// latestBirth is today where the user lives. With no zone to judge by, it is
// today in the easternmost one, so that a date in the future is still named.
func latestBirth(u User, zoned error, now time.Time) Date {
	if zoned != nil {
		return DateOf(now.UTC().Add(14 * time.Hour))
	}
	return u.Timezone.WallTime(now).Date
}

// problemOf says what is wrong with a field, without repeating its name.
func problemOf(err error) string {
	var born *InvalidDateOfBirthError
	if errors.As(err, &born) {
		return born.Reason
	}
	var zone *InvalidTimezoneError
	if errors.As(err, &zone) {
		return zone.problem()
	}
	return err.Error()
}

// printable reports whether s is at most n bytes of ASCII without controls.
func printable(s string, n int) bool {
	return len(s) <= n && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// nameProblem says what is wrong with a name, or "".
func nameProblem(name string) string {
	switch {
	case !utf8.ValidString(name):
		return "is not valid UTF-8"
	case strings.TrimFunc(name, blank) == "":
		return "is empty"
	case utf8.RuneCountInString(name) > maxNameLength:
		return fmt.Sprintf("is longer than %d characters", maxNameLength)
	case strings.ContainsFunc(name, hidden):
		return "contains control characters"
	}
	return ""
}

// blank reports characters that alone are no name: spaces, and joiners with
// nothing to join.
func blank(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) }

// hidden reports characters that break a line or turn text around: controls,
// separators and the bidirectional overrides.
func hidden(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp) || r >= '\u202A' && r <= '\u202E' || r >= '\u2066' && r <= '\u2069'
}

func attributesProblem(raw json.RawMessage) string {
	if len(raw) > maxAttributesBytes {
		return fmt.Sprintf("are longer than %d bytes", maxAttributesBytes)
	}
	if object := bytes.TrimSpace(raw); !json.Valid(raw) || len(object) == 0 || object[0] != '{' {
		return "are not a JSON object"
	}
	if problem := jsonb.Problem(raw); problem != "" {
		return "contain " + problem
	}
	return ""
}

// clip cuts s to at most n bytes, for errors that repeat what they were given.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
