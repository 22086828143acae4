package almanac

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/text/language"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/excerpt"
	"github.com/almanac-go/almanac/internal/profile"
)

// DateOfBirth is a date that exists in the calendar and is not before 1900-01-01, or a day of the
// year if the year is not known. [NewUser] checks that the date is not in the future, which depends
// on the user's zone. Values are comparable with ==. The zero DateOfBirth means that the date is
// not known. NewUser accepts it, and a date without a year, only with [WithOptionalProfile].
type DateOfBirth struct{ date calendar.Date }

// earliestBirth is before the birth of anyone alive; an earlier date is a typing error.
var earliestBirth = calendar.Date{Year: 1900, Month: time.January, Day: 1}

// ParseDateOfBirth parses a date of birth in the form "1990-03-15", or without a year in
// the form "--03-15" or "--0315" (RFC 6350). The error is an [*InvalidDateOfBirthError].
func ParseDateOfBirth(s string) (DateOfBirth, error) {
	if day, found := strings.CutPrefix(s, "--"); found {
		return parseDayOfBirth(s, day)
	}
	date, err := calendar.ParseDate(s)
	if err != nil {
		return DateOfBirth{}, &InvalidDateOfBirthError{Value: excerpt.Of(s, 32), Reason: problemOf(err)}
	}
	if date.Before(earliestBirth) {
		return DateOfBirth{}, &InvalidDateOfBirthError{Value: s, Reason: "is before " + earliestBirth.String()}
	}
	return DateOfBirth{date}, nil
}

// parseDayOfBirth parses a date of birth without a year, of which day follows the "--".
func parseDayOfBirth(s, day string) (DateOfBirth, error) {
	if len(day) == len("0315") {
		day = day[:2] + "-" + day[2:]
	}
	date, err := calendar.ParseDate("2000-" + day) // a leap year has each day
	if err != nil {
		return DateOfBirth{}, &InvalidDateOfBirthError{Value: excerpt.Of(s, 32), Reason: "is not a day of the year in the form --MM-DD"}
	}
	date.Year = 0
	return DateOfBirth{date}, nil
}

// Date returns the date. Its Year is 0 if the year is not known. The result is the zero Date if d is zero.
func (d DateOfBirth) Date() calendar.Date { return d.date }

// IsZero reports whether the date is not known.
func (d DateOfBirth) IsZero() bool { return d == DateOfBirth{} }

// Year returns the year, from 1900 on. It reports false if the year is not known.
func (d DateOfBirth) Year() (year int, known bool) { return d.date.Year, d.date.Year != 0 }

// MonthDay returns the month and the day of the month. Both are 0 if the date is not known.
func (d DateOfBirth) MonthDay() (month time.Month, day int) { return d.date.Month, d.date.Day }

// String formats d as "1990-03-15", or as "--03-15" if the year is not known. The zero DateOfBirth is "".
func (d DateOfBirth) String() string {
	switch {
	case d.IsZero():
		return ""
	case d.date.Year == 0:
		return fmt.Sprintf("--%02d-%02d", d.date.Month, d.date.Day)
	}
	return d.date.String()
}

// User is a user whose events the library delivers. Users are values: [User.Edit] returns a changed copy.
type User struct {
	ID          uuid.UUID
	FirstName   string // 1 to 100 characters, at most 400 bytes; "" means none, only with WithOptionalProfile
	LastName    string // as FirstName
	DateOfBirth DateOfBirth
	Timezone    calendar.Timezone
	ZoneSource  ZoneSource      // where Timezone comes from
	Attributes  json.RawMessage // a JSON object of facts that handlers need, such as a hire date
	Locale      string          // a language tag of BCP 47 in canonical form, such as "pt-BR"; "" means none
	Email       string          // an e-mail address, as it was given; "" means none
	// ExternalID is the host's own id of the user. No two users have the same one. The default is "", none.
	ExternalID string
	// OptOuts are what the user refuses, without repetition, in the order of types and
	// channels. Nil means that the user refuses nothing.
	OptOuts []OptOut
	// CreationDigest is the CreationDigest of the profile that created the user. It never changes.
	CreationDigest string
	Version        int       // 1 when created; raised by every change
	CreatedAt      time.Time // UTC
	UpdatedAt      time.Time // UTC
}

// ZoneSource says where the time zone of a user comes from. See docs/adr/0074-uncertain-zones.md.
type ZoneSource string

// The sources of a zone, the best one first.
const (
	ZoneDeclared ZoneSource = "declared" // a profile, or a change of it, gave the zone
	ZoneGuessed  ZoneSource = "guessed"  // the function of [WithZoneGuess] returned the zone
	ZoneDefault  ZoneSource = "default"  // it is the default of [WithZoneGuess]
)

// Profile is the host's data about a user, as text that is not yet validated.
//
// The first name, the last name and the date of birth are required, and the date must
// have a year. With [WithOptionalProfile], each of the three may be "", which means none.
type Profile struct {
	ID          uuid.UUID // the host's own id for the user; the zero UUID means a new id
	FirstName   string
	LastName    string
	DateOfBirth string // YYYY-MM-DD, or --MM-DD without the year
	Timezone    string // an IANA name; "" means unknown, only with WithZoneGuess
	// Attributes are a JSON object; nil means {}. They have at most 64 KiB as PostgreSQL writes
	// them: without other white space than one blank after each comma and colon, without escapes
	// that are not needed, and with 1e3 as 1000. The text that is given has at most 256 KiB.
	Attributes json.RawMessage
	// Locale is a language tag of BCP 47, at most 100 bytes, with known subtags. It is stored
	// in canonical form: "EN_us" as "en-US", and "iw" as "he". The default is "", no locale.
	Locale string
	// Email is a bare address as of RFC 5322, at most 254 bytes: no display name, no
	// comment. It may have characters beyond ASCII (RFC 6532). It is stored as given,
	// and need not be unique. The default is "", no address.
	Email string
	// ExternalID is the host's own id of the user, a number or a text: 1 to 200 bytes of printable
	// characters, without a space at an end. It is compared byte by byte. No two users have the
	// same external id; the error for the second is an [*ExternalIDTakenError].
	// [UserRepository].UserByExternalID finds the user. The default is "", no external id.
	ExternalID string
	// OptOuts are what the user refuses from the beginning: at most 100, and the zero
	// OptOut. The default is none.
	OptOuts []OptOut
	// CreationDigest is a digest of the request that creates the user, at most 64 bytes of printable ASCII.
	// The default is "", no digest. It is stored with the user and never changes. So after [ErrExists] a
	// program can tell a repeated request from a different one, even if the user was edited meanwhile.
	CreationDigest string
}

// ProfileChange is a change of some fields of a profile. A nil field is left unchanged.
type ProfileChange struct {
	// Version is the version of the user that the change is for. If the stored user has another version,
	// nothing is changed, and the error is an [*OptimisticLockError]. Zero means any version.
	Version     int
	FirstName   *string
	LastName    *string
	DateOfBirth *string
	// Timezone declares the zone, in place of a guess or of the default. With WithZoneGuess, a pointer
	// to "" withdraws it: the zone is then guessed again, or is the default.
	Timezone   *string
	Attributes json.RawMessage // replaces all attributes
	// Merge changes some attributes and leaves the others unchanged. It is a JSON merge
	// patch (RFC 7396), in which null removes a member. It is applied to the stored
	// attributes, so two concurrent changes of different members both take effect.
	Merge json.RawMessage
	// A pointer to "" removes the locale, the address or the external id. With
	// WithOptionalProfile it also removes a name or the date of birth.
	Locale     *string
	Email      *string
	ExternalID *string
	// OptIn are opt-outs to remove, and OptOut are opt-outs to add, after those. They are
	// applied to the stored opt-outs, so two concurrent changes both take effect. A user
	// has at most 100, and the zero OptOut. [Planner].OptOut says what becomes of the user's events.
	OptIn, OptOut []OptOut
}

const (
	maxCreationDigest = 64
	maxLocale         = 100
)

// NewUser returns the user of a valid profile, created at now. The date of birth may be at
// latest the present date in the user's zone. Of the options only [WithOptionalProfile] and
// [WithZoneGuess] have an effect. The error is a [*ValidationError] that names every invalid field.
func NewUser(p Profile, now time.Time, options ...Option) (User, error) {
	return newUser(p, now, profileRulesOf(options))
}

func newUser(p Profile, now time.Time, rules profileRules) (User, error) {
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
	u, err := u.with(ProfileChange{
		FirstName: &p.FirstName, LastName: &p.LastName, DateOfBirth: &p.DateOfBirth, Timezone: &p.Timezone, Attributes: p.Attributes,
		Locale: &p.Locale, Email: &p.Email, ExternalID: &p.ExternalID, OptOut: p.OptOuts,
	}, now, rules)
	if profile.Printable(p.CreationDigest, maxCreationDigest) {
		return u, err
	}
	bad := new(ValidationError)
	if err != nil && !errors.As(err, &bad) { // with the other fields that are invalid
		return User{}, err
	}
	problem := fmt.Sprintf("is not at most %d bytes of ASCII without controls", maxCreationDigest)
	bad.Fields = append(bad.Fields, FieldError{Field: "creationDigest", Problem: problem})
	return User{}, bad
}

// Edit returns u with the change applied at now, and with its version raised by one. It
// validates the changed fields as [NewUser] does, with the same options. The error is a
// [*ValidationError], or an [*OptimisticLockError] if the change is for another version of u.
func (u User) Edit(c ProfileChange, now time.Time, options ...Option) (User, error) {
	return u.edit(c, now, profileRulesOf(options))
}

func (u User) edit(c ProfileChange, now time.Time, rules profileRules) (User, error) {
	if err := u.expect(c.Version); err != nil {
		return User{}, err
	}
	u.Version++
	u.UpdatedAt = now.UTC()
	return u.with(c, now, rules)
}

// expect returns an error for any version but u's own. Zero means any version.
func (u User) expect(version int) error {
	if version != 0 && version != u.Version {
		return &OptimisticLockError{UserID: u.ID, Expected: version}
	}
	return nil
}

// Name returns the user's first and last name, separated by a space, or the only name that
// the user has, or "".
func (u User) Name() string {
	if u.FirstName == "" || u.LastName == "" {
		return u.FirstName + u.LastName
	}
	return u.FirstName + " " + u.LastName
}

// with applies a change. It checks what the change gives, and not what was stored before: a user
// whose stored data would be refused today can still be edited.
func (u User) with(c ProfileChange, now time.Time, rules profileRules) (User, error) {
	var bad ValidationError
	refuse := func(field, problem string, err error) {
		bad.Fields = append(bad.Fields, FieldError{field, problem, err})
	}
	name := func(field string, given, is *string) {
		if given == nil {
			return
		}
		*is = *given
		if problem := profile.NameProblem(*given); problem != "" && (*given != "" || !rules.optional) {
			refuse(field, problem, nil)
		}
	}
	name("firstName", c.FirstName, &u.FirstName)
	name("lastName", c.LastName, &u.LastName)
	var born error
	if c.DateOfBirth != nil {
		if u.DateOfBirth, born = dateOfBirth(*c.DateOfBirth, rules.optional); born != nil {
			refuse("dateOfBirth", problemOf(born), born)
		}
	}
	was := u.Timezone
	u.withZone(c, rules, refuse)
	u.withOptional(c, refuse)
	u.withAttributes(c, refuse)
	if len(bad.Fields) == 0 {
		if err := u.withGuess(c, rules, refuse); err != nil {
			return User{}, err
		}
	}
	dated := c.DateOfBirth != nil || c.Timezone != nil || u.Timezone != was
	if dated && born == nil && latestBirth(u, now).Before(u.DateOfBirth.date) {
		err := &InvalidDateOfBirthError{Value: u.DateOfBirth.String(), Reason: "is in the future", Future: true}
		refuse("dateOfBirth", err.Reason, err)
	}
	if len(bad.Fields) > 0 {
		return User{}, &bad
	}
	return u, nil
}

// dateOfBirth parses a date of birth. If optional is true, it accepts "", and dates without a year.
func dateOfBirth(s string, optional bool) (DateOfBirth, error) {
	switch {
	case s == "" && optional:
		return DateOfBirth{}, nil
	case s == "":
		return DateOfBirth{}, &InvalidDateOfBirthError{Reason: "is empty"}
	}
	d, err := ParseDateOfBirth(s)
	if _, known := d.Year(); err == nil && !known && !optional {
		err = &InvalidDateOfBirthError{Value: s, Reason: "has no year"}
	}
	return d, err
}

// withOptional applies the changes of fields that are never required.
func (u *User) withOptional(c ProfileChange, refuse func(field, problem string, err error)) {
	if c.Locale != nil {
		var problem string
		if u.Locale, problem = canonicalLocale(*c.Locale); problem != "" {
			refuse("locale", problem, nil)
		}
	}
	if c.Email != nil {
		if u.Email = *c.Email; u.Email != "" && !profile.BareAddress(u.Email) {
			refuse("email", fmt.Sprintf("is not a bare e-mail address of at most %d bytes", profile.MaxEmail), nil)
		}
	}
	if c.ExternalID != nil {
		u.ExternalID = *c.ExternalID
		if problem := profile.ExternalIDProblem(u.ExternalID); problem != "" {
			refuse("externalId", problem, nil)
		}
	}
	u.OptOuts = c.optOuts(*u)
	if problem := optOutsProblem(u.OptOuts); len(c.OptOut) > 0 && problem != "" {
		refuse("optOuts", problem, nil)
	}
}

// latestBirth returns the present date in the user's zone. If the zone is not known, it returns
// the present date in the easternmost zone, so that a date in the future is still reported.
func latestBirth(u User, now time.Time) calendar.Date {
	if u.Timezone.IsZero() {
		return calendar.DateOf(now.UTC().Add(14 * time.Hour))
	}
	return u.Timezone.WallTime(now).Date
}

// problemOf returns what is wrong with a field, without the name of the field.
func problemOf(err error) string {
	if born, ok := errors.AsType[*InvalidDateOfBirthError](err); ok {
		return born.Reason
	}
	if zone, ok := errors.AsType[*calendar.InvalidTimezoneError](err); ok {
		return zone.Problem()
	}
	if format, ok := errors.AsType[*calendar.FormatError](err); ok {
		return format.Problem
	}
	return err.Error()
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
