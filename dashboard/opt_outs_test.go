package dashboard

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
)

// optOutsOf returns what a user refuses, as it is stored.
func (h host) optOutsOf(t *testing.T, u almanac.User) []almanac.OptOut {
	t.Helper()
	stored, err := h.repository.User(t.Context(), u.ID)
	require.NoError(t, err)
	return stored.OptOuts
}

func TestAUserOptsOutAndIn(t *testing.T) {
	t.Parallel()
	h := newHostFor(t, WithAuthentication(func(*http.Request) (string, bool) { return "grace", true }), everything())
	created := h.createUser(t, ada())
	page := "/users/" + created.User.ID.String()
	until := time.Now().AddDate(0, 2, 0).Format(time.DateOnly)

	status, body := h.get(t, page+"/opt-outs?do=out&type=BIRTHDAY&until="+until)
	require.Equal(t, http.StatusOK, status)
	requireRelative(t, body)
	require.Contains(t, body, "The user refuses BIRTHDAY by all channels until "+until)
	require.Empty(t, h.optOutsOf(t, created.User), "a question changes nothing")

	status, _ = h.post(t, page+"/opt-outs", url.Values{"do": {"out"}, "type": {"BIRTHDAY"}, "until": {until}, "reason": {"on leave"}})
	require.Equal(t, http.StatusSeeOther, status)
	stored := h.optOutsOf(t, created.User)
	require.Len(t, stored, 1)
	require.Equal(t, "grace", stored[0].Author)
	require.Equal(t, until, stored[0].Until.String())
	_, body = h.get(t, page+"?done=opted-out")
	for _, text := range []string{"The opt-out is stored.", "BIRTHDAY by all channels</th>", "<td>" + until + "</td>", "<bdi>grace</bdi>", "<bdi>on leave</bdi>", "Opt in to BIRTHDAY by all channels …"} {
		require.Contains(t, body, text)
	}

	status, _ = h.post(t, page+"/opt-outs", url.Values{"do": {"out"}, "all": {"true"}})
	require.Equal(t, http.StatusSeeOther, status)
	_, body = h.get(t, page+"?type=BIRTHDAY")
	require.Contains(t, body, "No occurrence comes next, because the user has opted out of events of this type.")
	require.Contains(t, body, "No event is open. The user has opted out of all types.")

	_, body = h.get(t, page+"/opt-outs?do=in&all=true")
	require.Contains(t, body, "The opt-out of all types by all channels is removed.")
	for _, form := range []url.Values{{"do": {"in"}, "all": {"true"}}, {"do": {"in"}, "type": {"BIRTHDAY"}}} {
		status, _ = h.post(t, page+"/opt-outs", form)
		require.Equal(t, http.StatusSeeOther, status)
	}
	require.Empty(t, h.optOutsOf(t, created.User))
	_, body = h.get(t, page+"/opt-outs?do=in&all=true")
	require.Contains(t, body, "so nothing changes")
}

// An empty type means all types for the scheduler. A form without a type must not mean that.
func TestAFormWithoutATypeRefusesNothing(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	u := h.createUser(t, ada()).User
	page := "/users/" + u.ID.String() + "/opt-outs"
	for sentence, form := range map[string]url.Values{
		"Choose a type, or all types.":                       {"do": {"out"}},
		"Choose one type, or all types, and not both.":       {"do": {"out"}, "type": {"BIRTHDAY"}, "all": {"true"}},
		"The form must say whether the user opts out or in.": {"type": {"BIRTHDAY"}},
		"The box all is neither ticked nor empty.":           {"do": {"out"}, "all": {"perhaps"}},
		"The channel is not a text of at most 50 bytes.":     {"do": {"out"}, "all": {"true"}, "channel": {strings.Repeat("x", 51)}},
		"The type is not a text of at most 50 bytes.":        {"do": {"out"}, "type": {"a\x00"}},
		"The reason is not a text of at most 200 bytes.":     {"do": {"out"}, "all": {"true"}, "reason": {strings.Repeat("x", 201)}},
		"Enter the day as YYYY-MM-DD, such as 2027-03-01.":   {"do": {"out"}, "all": {"true"}, "until": {"tomorrow"}},
		"The day must be after today, which is ":             {"do": {"out"}, "all": {"true"}, "until": {"2020-01-01"}},
	} {
		status, body := h.post(t, page, form)
		require.Equal(t, http.StatusBadRequest, status, sentence)
		require.Contains(t, body, sentence)
		status, body = h.get(t, page+"?"+form.Encode())
		require.Equal(t, http.StatusBadRequest, status, sentence)
		require.Contains(t, body, sentence)
		require.Empty(t, h.optOutsOf(t, u))
	}
}

func TestOptOutsAreShownWithoutWhatAViewerMayNotSee(t *testing.T) {
	t.Parallel()
	h := newHost(t, allowing(Look))
	u := almanactest.User(almanactest.LivingIn("Europe/London"))
	u.OptOuts = []almanac.OptOut{
		{Channel: "sms", Until: calendar.Date{Year: 2020, Month: 3, Day: 1}, Since: time.Date(2020, 1, 1, 9, 0, 0, 0, time.UTC), Reason: "Ada asked"},
	}
	u = h.store(t, u)
	_, body := h.get(t, "/users/"+u.ID.String())
	require.Contains(t, body, "all types by sms</th><td>2020-03-01 <span class=\"soft\">(has passed)</span></td>")
	require.Contains(t, body, "2020-01-01T09:00:00")
	require.NotContains(t, body, "Ada asked")
	require.NotContains(t, body, "/opt-outs")
	require.Contains(t, body, "You may see opt-outs, and not change them.")
}
