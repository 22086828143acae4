package almanac

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/mail"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"golang.org/x/text/language"

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
	Locale      string          // a language tag of BCP 47 in canonical form, such as "pt-BR"; "" means none
	Email       string          // an e-mail address, as it was given; "" means none
	// ExternalID is the host's own id of the user. No two users have the same one. The
	// default is "", none.
	ExternalID string
	// OptOuts are what the user refuses, without repetition, in the order of types and
	// channels. Nil means that the user refuses nothing.
	OptOuts []OptOut
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
	// Locale is a language tag of BCP 47, at most 100 bytes, with known subtags. It is
	// stored in canonical form: "EN_us" as "en-US", and "iw" as "he". The default is "",
	// no locale.
	Locale string
	// Email is a bare address as of RFC 5322, at most 254 bytes: no display name, no
	// comment. It may have characters beyond ASCII (RFC 6532). It is stored as given,
	// and need not be unique. The default is "", no address.
	Email string
	// ExternalID is the host's own id of the user, a number or a text: 1 to 200 bytes of
	// printable characters, without a space at an end. It is compared byte by byte. No two
	// users have the same external id; the error for the second is an
	// [*ExternalIDTakenError]. [UserRepository].UserByExternalID finds the user. The
	// default is "", no external id.
	ExternalID string
	// OptOuts are what the user refuses from the beginning, at most 100. The default is
	// none.
	OptOuts []OptOut
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
	// A pointer to "" removes the locale, the address or the external id.
	Locale     *string
	Email      *string
	ExternalID *string
	// OptIn are opt-outs to remove, and OptOut are opt-outs to add, after those. They are
	// applied to the stored opt-outs, so two concurrent changes both take effect. A user
	// has at most 100. [OptOuter] says what becomes of the user's events.
	OptIn, OptOut []OptOut
}

const (
	maxNameLength      = 100
	maxAttributesBytes = 64 << 10
	maxCreationDigest  = 64
	maxLocale          = 100
	maxEmail           = 254 // RFC 5321, erratum 1690
	maxExternalID      = 200
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
	return u.with(ProfileChange{
		FirstName: &p.FirstName, LastName: &p.LastName, DateOfBirth: &p.DateOfBirth, Timezone: &p.Timezone, Attributes: p.Attributes,
		Locale: &p.Locale, Email: &p.Email, ExternalID: &p.ExternalID, OptOut: p.OptOuts,
	}, now)
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
	u.withOptional(c, refuse)
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

// withOptional applies the changes of fields that a user need not have.
func (u *User) withOptional(c ProfileChange, refuse func(field, problem string, err error)) {
	if c.Locale != nil {
		var problem string
		if u.Locale, problem = canonicalLocale(*c.Locale); problem != "" {
			refuse("locale", problem, nil)
		}
	}
	if c.Email != nil {
		if u.Email = *c.Email; u.Email != "" && !bareAddress(u.Email) {
			refuse("email", fmt.Sprintf("is not a bare e-mail address of at most %d bytes", maxEmail), nil)
		}
	}
	if c.ExternalID != nil {
		u.ExternalID = *c.ExternalID
		if problem := externalIDProblem(u.ExternalID); problem != "" {
			refuse("externalId", problem, nil)
		}
	}
	u.OptOuts = c.optOuts(*u)
	if problem := optOutsProblem(u.OptOuts); problem != "" {
		refuse("optOuts", problem, nil)
	}
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

// canonicalLocale returns the canonical form of a language tag, or what is wrong with it.
// It returns "" for "".
func canonicalLocale(s string) (canonical, problem string) {
	if s == "" {
		return "", ""
	}
	if len(s) > maxLocale {
		return "", fmt.Sprintf("is longer than %d bytes", maxLocale)
	}
	tag, err := language.Parse(s)
	var unknown language.ValueError
	switch {
	case errors.As(err, &unknown):
		return "", "has an unknown subtag"
	case err != nil:
		return "", "is not a language tag (BCP 47)"
	}
	if canonical = tag.String(); len(canonical) > maxLocale { // a replacement can be longer
		return "", fmt.Sprintf("is longer than %d bytes", maxLocale)
	}
	return canonical, ""
}

// bareAddress reports whether s is an e-mail address and nothing else.
func bareAddress(s string) bool {
	if len(s) > maxEmail || strings.ContainsFunc(s, func(r rune) bool { return hidden(r) || r > '~' && unicode.IsSpace(r) }) {
		return false
	}
	parsed, err := mail.ParseAddress(s)
	if err != nil || parsed.Name != "" {
		return false
	}
	return (&mail.Address{Address: parsed.Address}).String() == "<"+s+">"
}

// externalIDProblem returns what is wrong with an external id, or "". It returns "" for "".
func externalIDProblem(id string) string {
	switch {
	case len(id) > maxExternalID:
		return fmt.Sprintf("is longer than %d bytes", maxExternalID)
	case !utf8.ValidString(id):
		return "is not valid UTF-8"
	case strings.ContainsFunc(id, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "contains characters that cannot be printed"
	case strings.Trim(id, " ") != id:
		return "begins or ends with a space"
	}
	return ""
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
