package almanac

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"golang.org/x/text/language"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/profile"
)

// User is a user whose events the library delivers. Users are values: [User.Edit] returns a changed copy.
type User struct {
	ID          uuid.UUID
	FirstName   string // 1 to 100 characters, at most 400 bytes; "" means none, only with WithOptionalProfile
	LastName    string // as FirstName
	DateOfBirth DateOfBirth
	Timezone    calendar.Timezone
	ZoneSource  ZoneSource      // where Timezone comes from
	Attributes  json.RawMessage // a JSON object of facts that handlers need, such as a hire date
	Locale      string          `json:",omitzero"` // a language tag of BCP 47 in canonical form, such as "pt-BR"; "" means none
	Email       string          `json:",omitzero"` // an e-mail address, as it was given; "" means none
	// ExternalID is the host's own id of the user. No two users have the same one. The default is "", none.
	ExternalID string `json:",omitzero"`
	// OptOuts are what the user refuses, one of each type and channel, in the order of types and
	// channels. Those that have ended stay, as a record. Nil means that the user refuses nothing.
	OptOuts []OptOut `json:",omitzero"`
	// CreationDigest is the CreationDigest of the profile that created the user. It never changes.
	CreationDigest string    `json:",omitzero"`
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
	DateOfBirth string // YYYY-MM-DD, or --MM-DD without the year; see Calendar
	// Calendar is the name of the calendar by which DateOfBirth is given, such as "hebrew", and the user
	// keeps birthdays. [calendar.RegisterSystems] makes calendars known. An L behind the number of a month
	// says that it is a leap month: "5774-05L-08". The date is stored as given, and never converted. The
	// default is "", the Gregorian calendar.
	Calendar string
	Timezone string // an IANA name; "" means unknown, only with WithZoneGuess
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
	// ExternalID is the host's own id of the user, a text, such as the digits of a number: 1 to 200 bytes of printable
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
	// Calendar is the calendar of DateOfBirth. A change to another calendar needs the date too, also if
	// it is "". If the stored date is by another calendar than the Gregorian one, a new date needs the
	// calendar, also if it stays the same. A pointer to "" means the Gregorian calendar.
	Calendar *string
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
		FirstName: &p.FirstName, LastName: &p.LastName, DateOfBirth: &p.DateOfBirth, Calendar: &p.Calendar, Timezone: &p.Timezone, Attributes: p.Attributes,
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
	was := u
	bornWell := u.withBirth(c, rules.optional, refuse)
	u.withZone(c, rules, refuse)
	u.withOptional(c, refuse)
	u.withAttributes(c, refuse)
	if len(bad.Fields) == 0 {
		if err := u.withGuess(c, rules, refuse); err != nil {
			return User{}, err
		}
	}
	if bornWell && (c.DateOfBirth != nil || c.Timezone != nil || u.Timezone != was.Timezone) && u.isUnborn(now) {
		err := &InvalidDateOfBirthError{Value: u.DateOfBirth.String(), Reason: "is in the future", Future: true}
		refuse("dateOfBirth", err.Reason, err)
	}
	if len(bad.Fields) > 0 {
		return User{}, &bad
	}
	return u, nil
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
	stored := u.OptOuts
	u.OptOuts = c.optOuts(*u)
	if problem := u.optOutsProblem(stored); len(c.OptOut) > 0 && problem != "" {
		refuse("optOuts", problem, nil)
	}
}

// problemOf returns what is wrong with a field, without the name of the field.
func problemOf(err error) string {
	if born, ok := errors.AsType[*InvalidDateOfBirthError](err); ok {
		return born.Reason
	}
	if zone, ok := errors.AsType[*calendar.InvalidTimezoneError](err); ok {
		return zone.Problem()
	}
	if unknown, ok := errors.AsType[*calendar.UnknownSystemError](err); ok {
		return unknown.Problem()
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
