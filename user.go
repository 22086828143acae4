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

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/excerpt"
	"github.com/almanac-go/almanac/internal/jsonb"
)

// DateOfBirth is a date that exists in the calendar and is not before 1900-01-01.
// [NewUser] checks that it is not in the future, which depends on the user's zone. Values
// are comparable with ==. The zero DateOfBirth is no date, and NewUser refuses it.
type DateOfBirth struct{ date calendar.Date }

// earliestBirth is before the birth of anyone alive; an earlier date is a typing error.
var earliestBirth = calendar.Date{Year: 1900, Month: time.January, Day: 1}

// ParseDateOfBirth parses a date of birth in the form "1990-03-15". The error is an
// [*InvalidDateOfBirthError].
func ParseDateOfBirth(s string) (DateOfBirth, error) {
	date, err := calendar.ParseDate(s)
	if err != nil {
		return DateOfBirth{}, &InvalidDateOfBirthError{Value: excerpt.Of(s, 32), Reason: problemOf(err)}
	}
	if date.Before(earliestBirth) {
		return DateOfBirth{}, &InvalidDateOfBirthError{Value: s, Reason: "is before " + earliestBirth.String()}
	}
	return DateOfBirth{date}, nil
}

// Date returns the date.
func (d DateOfBirth) Date() calendar.Date { return d.date }

// String formats d as "1990-03-15".
func (d DateOfBirth) String() string { return d.date.String() }

// User is a user whose events the library delivers. Users are values: [User.Edit] returns
// a changed copy.
type User struct {
	ID          uuid.UUID
	FirstName   string // 1 to 100 characters, at most 400 bytes
	LastName    string // as FirstName
	DateOfBirth DateOfBirth
	Timezone    calendar.Timezone
	Attributes  json.RawMessage // a JSON object of facts that handlers need, such as a hire date
	// CreationDigest is the CreationDigest of the profile that created the user. It never
	// changes.
	CreationDigest string
	Version        int       // 1 when created; raised by every change
	CreatedAt      time.Time // UTC
	UpdatedAt      time.Time // UTC
}

// Profile is the host's data about a user, as text that is not yet validated.
type Profile struct {
	ID          uuid.UUID // the host's own id for the user; the zero UUID means a new id
	FirstName   string
	LastName    string
	DateOfBirth string          // YYYY-MM-DD
	Timezone    string          // an IANA name
	Attributes  json.RawMessage // a JSON object of at most 64 KiB; nil means {}
	// CreationDigest is a digest of the request that creates the user, at most 64 bytes
	// of printable ASCII. The default is "", no digest. It is stored with the user and
	// never changes. So after [ErrExists] a program can tell a repeated request from a
	// different one, even if the user was edited meanwhile.
	CreationDigest string
}

// ProfileChange is a change of some fields of a profile. A nil field is left unchanged.
type ProfileChange struct {
	// Version is the version of the user that the change is for. If the stored user has
	// another version, nothing is changed, and the error is an [*OptimisticLockError].
	// Zero means any version.
	Version     int
	FirstName   *string
	LastName    *string
	DateOfBirth *string
	Timezone    *string
	Attributes  json.RawMessage // replaces all attributes
	// Merge changes some attributes and leaves the others unchanged. It is a JSON merge
	// patch (RFC 7396), in which null removes a member. It is applied to the stored
	// attributes, so two concurrent changes of different members both take effect.
	Merge json.RawMessage
}

const (
	maxNameLength      = 100
	maxAttributesBytes = 64 << 10
	maxCreationDigest  = 64
)

// NewUser returns the user of a valid profile, created at now. The date of birth may be
// at latest the present date in the user's zone. The error is a [*ValidationError] that
// names every invalid field.
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

// Edit returns u with the change applied at now, and with its version raised by one. It
// validates the result as [NewUser] does. The error is a [*ValidationError], or an
// [*OptimisticLockError] if the change is for another version of u.
func (u User) Edit(c ProfileChange, now time.Time) (User, error) {
	if err := u.expect(c.Version); err != nil {
		return User{}, err
	}
	u.Version++
	u.UpdatedAt = now.UTC()
	return u.with(c, now)
}

// expect returns an error for any version but u's own. Zero means any version.
func (u User) expect(version int) error {
	if version != 0 && version != u.Version {
		return &OptimisticLockError{UserID: u.ID, Expected: version}
	}
	return nil
}

// Name returns the user's first and last name, separated by a space.
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
		if u.Timezone, zoned = calendar.LoadTimezone(*c.Timezone); zoned != nil {
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
		// Check the patch before the merge. A patch that is too long or too deep is not
		// merged at all, and names that cannot be stored are not corrected silently.
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

// latestBirth returns the present date in the user's zone. If the zone is invalid, it
// returns the present date in the easternmost zone, so that a date in the future is still
// reported.
func latestBirth(u User, zoned error, now time.Time) calendar.Date {
	if zoned != nil {
		return calendar.DateOf(now.UTC().Add(14 * time.Hour))
	}
	return u.Timezone.WallTime(now).Date
}

// problemOf returns what is wrong with a field, without the name of the field.
func problemOf(err error) string {
	var born *InvalidDateOfBirthError
	if errors.As(err, &born) {
		return born.Reason
	}
	var zone *calendar.InvalidTimezoneError
	if errors.As(err, &zone) {
		return zone.Problem()
	}
	var format *calendar.FormatError
	if errors.As(err, &format) {
		return format.Problem
	}
	return err.Error()
}

// printable reports whether s is at most n bytes of ASCII without control characters.
func printable(s string, n int) bool {
	return len(s) <= n && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// nameProblem returns what is wrong with a name, or "".
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

// blank reports whether r is a space or a format character, which alone make no name.
func blank(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) }

// hidden reports whether r breaks a line or changes the direction of text: controls,
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
