package httpapi

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// RequireIfMatch refuses to change or delete people without an If-Match header:
// the answer is 428 (RFC 6585), so that no program overwrites what it has not seen.
// If-Match: * says that it does not matter. The default is that the header may be
// left out.
func RequireIfMatch() Option { return func(a *api) { a.mustMatch = true } }

// etagOf is the strong entity tag of a person: every change raises the version.
func etagOf(u almanac.User) string { return `"` + strconv.Itoa(u.Version) + `"` }

// conditions are the preconditions of a request (RFC 9110, section 13.1) that a
// version can answer; nil for those not given.
type conditions struct {
	match, noneMatch *entityTags
}

// entityTags is what a condition names: any state at all, or some.
type entityTags struct {
	any  bool
	tags []string // with their quotes, and W/ before weak ones
}

func conditionsOf(r *http.Request, bad *complaints) conditions {
	return conditions{entityTagsOf(r, "If-Match", bad), entityTagsOf(r, "If-None-Match", bad)}
}

// A tag, and a list of them as senders may write it (RFC 9110, sections 8.8.3 and
// 5.6.1): elements can be empty, and tags can hold commas.
var (
	entityTag     = regexp.MustCompile(`(?:W/)?"[^\x00-\x20"\x7f]*"`)
	entityTagList = regexp.MustCompile(`^(?:(?:` + entityTag.String() + `)?[ \t]*,[ \t]*)*(?:` + entityTag.String() + `)?$`)
)

func entityTagsOf(r *http.Request, header string, bad *complaints) *entityTags {
	lines := r.Header.Values(header)
	if len(lines) == 0 {
		return nil
	}
	text := strings.Trim(strings.Join(lines, ","), " \t")
	if text != "*" && !entityTagList.MatchString(text) {
		bad.add(header, "is neither * nor a list of entity tags")
	}
	return &entityTags{text == "*", entityTag.FindAllString(text, -1)}
}

// allow reports whether both conditions hold for the person.
func (c conditions) allow(u almanac.User) bool { return c.matches(u) && !c.excludes(u) }

// matches is If-Match. Its comparison is the strong one, in which a weak tag is
// like none.
func (c conditions) matches(u almanac.User) bool {
	return c.match == nil || c.match.any || slices.Contains(c.match.tags, etagOf(u))
}

// excludes is the opposite of If-None-Match, of which the comparison is weak.
func (c conditions) excludes(u almanac.User) bool {
	return c.noneMatch != nil && (c.noneMatch.any ||
		slices.ContainsFunc(c.noneMatch.tags, func(tag string) bool { return strings.TrimPrefix(tag, "W/") == etagOf(u) }))
}

func preconditionFailed() *problem {
	return newProblem(http.StatusPreconditionFailed, "the person is not at the version that the request is for")
}

// expected returns the version that a person must be at to be changed, for the
// change itself to compare once more; zero if it may be any.
func (a *api) expected(r *http.Request, id uuid.UUID, c conditions) (version int, err error) {
	if a.mustMatch && c.match == nil {
		return 0, newProblem(http.StatusPreconditionRequired, "the request must say by If-Match which version it is for")
	}
	if c == (conditions{}) {
		return 0, nil
	}
	u, err := a.reader.User(r.Context(), id)
	if err != nil {
		return 0, err
	}
	if !c.allow(u) {
		return 0, preconditionFailed()
	}
	if c.noneMatch == nil && c.match.any {
		return 0, nil
	}
	return u.Version, nil
}
