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

// RequireIfMatch refuses changes and deletions of users without an If-Match header with 428
// (RFC 6585). A program then cannot overwrite a version that it has not seen. If-Match: *
// allows any version. By default the header is optional.
func RequireIfMatch() Option { return func(a *api) { a.mustMatch = true } }

// etagOf returns the strong entity tag of a user: every change raises the version.
func etagOf(u almanac.User) string { return `"` + strconv.Itoa(u.Version) + `"` }

// conditions are the preconditions of a request (RFC 9110, section 13.1) on a version. A
// nil field means that the header is missing.
type conditions struct {
	match, noneMatch *entityTags
}

// entityTags is the value of a condition: any state, or a list of tags.
type entityTags struct {
	any  bool
	tags []string // with their quotes, and W/ before weak ones
}

func conditionsOf(r *http.Request, bad *complaints) conditions {
	return conditions{entityTagsOf(r, "If-Match", bad), entityTagsOf(r, "If-None-Match", bad)}
}

// An entity tag, and a list of tags (RFC 9110, sections 8.8.3 and 5.6.1). Elements of the
// list may be empty, and tags may contain commas.
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

// allow reports whether both conditions hold for the user.
func (c conditions) allow(u almanac.User) bool { return c.matches(u) && !c.excludes(u) }

// matches evaluates If-Match. It uses the strong comparison, in which weak tags never match.
func (c conditions) matches(u almanac.User) bool {
	return c.match == nil || c.match.any || slices.Contains(c.match.tags, etagOf(u))
}

// excludes evaluates the opposite of If-None-Match. It uses the weak comparison.
func (c conditions) excludes(u almanac.User) bool {
	return c.noneMatch != nil && (c.noneMatch.any ||
		slices.ContainsFunc(c.noneMatch.tags, func(tag string) bool { return strings.TrimPrefix(tag, "W/") == etagOf(u) }))
}

func preconditionFailed() *problem {
	return newProblem(http.StatusPreconditionFailed, "the user is not at the version that the request is for")
}

// expected returns the version that the user must have for the change, so that the transaction
// compares it again. Zero means any version. The error is the refusal when a precondition fails.
func (a *api) expected(r *http.Request, id uuid.UUID, c conditions) (version int, err error) {
	if a.mustMatch && c.match == nil {
		return 0, newProblem(http.StatusPreconditionRequired, "the request must say by If-Match which version it is for")
	}
	if c.noneMatch == nil && (c.match == nil || c.match.any) { // the change itself finds out whether there is a user
		return 0, nil
	}
	u, err := a.reader.User(r.Context(), id)
	if err != nil {
		return 0, err
	}
	if !c.allow(u) {
		return 0, preconditionFailed()
	}
	return u.Version, nil
}
