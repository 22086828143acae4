package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/httpapi"
)

// member is a line of an import with an external id.
func member(n int, more string) string {
	return fmt.Sprintf(`{"externalId":"m%d","firstName":"Ada","lastName":"L%d","dateOfBirth":"1990-12-10","timezone":"Europe/London"%s}`, n, n, more)
}

// counts returns the numbers of an answer: lines, created, edited, unchanged, refused, next line.
func counts(a map[string]any) [6]int {
	var all [6]int
	for i, name := range []string{"lines", "created", "edited", "unchanged", "refusedLines", "nextLine"} {
		all[i] = int(a[name].(float64))
	}
	return all
}

// refusals returns the refused lines of an answer: "line status field detail, field detail".
func refusals(a map[string]any) (all []string) {
	for _, one := range a["refused"].([]any) {
		r := one.(map[string]any)
		text := fmt.Sprint(r["line"], " ", r["status"])
		errs, ok := r["errors"].([]any)
		if !ok {
			text += " " + r["detail"].(string)
		}
		for i, e := range errs {
			text += strings.Repeat(",", min(i, 1)) + fmt.Sprint(" ", e.(map[string]any)["field"], " ", e.(map[string]any)["detail"])
		}
		all = append(all, text)
	}
	return all
}

// events returns how many events are stored.
func (s *site) events() int {
	s.t.Helper()
	n, err := s.repository.Count(s.t.Context(), nil)
	require.NoError(s.t, err)
	return n
}

func TestAnImportStoresEveryLineButTheBadOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // so that no time passes
		o := openOffice(t, newRepository())
		var body strings.Builder
		for n := 1; n <= 3000; n++ {
			switch {
			case n%300 == 0:
				body.WriteString(member(n, `,"email":"`+"\xff"+`"`) + "\n")
			case n%100 == 0:
				body.WriteString(member(n, `,"locale":"??"`) + "\n")
			default:
				body.WriteString(member(n, "") + "\r\n")
			}
		}

		a := o.ok("POST", "/imports", body.String())

		require.Equal(t, [6]int{3000, 2970, 0, 0, 30, 3001}, counts(a))
		require.Nil(t, a["stopped"])
		bad := refusals(a)
		require.Equal(t, []string{"100 400 locale is not a language tag (BCP 47)", "200 400 locale is not a language tag (BCP 47)", "300 400 line is not valid UTF-8"}, bad[:3])
		require.Len(t, bad, 30)
		require.Equal(t, 2970, o.events(), "a birthday each")

		a = o.ok("POST", "/imports?line=5001", body.String())
		require.Equal(t, [6]int{3000, 0, 0, 2970, 30, 8001}, counts(a), "a repeated import changes nothing")
		require.Equal(t, "5100 400 locale is not a language tag (BCP 47)", refusals(a)[0])
		require.Equal(t, 2970, o.events())
	})
}

func TestAnImportListsTheFirstThousandRefusedLines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // so that no time passes
		o := openOffice(t, newRepository())
		a := o.ok("POST", "/imports", strings.Repeat("x\n", 5000)+member(1, ""))
		require.Equal(t, [6]int{5001, 1, 0, 0, 5000, 5002}, counts(a))
		require.Len(t, a["refused"], 1000)
	})
}

func TestAnImportSaysWhatIsWrongWithEachLine(t *testing.T) {
	t.Parallel()
	o := openOffice(t, newRepository())
	grace, _ := o.hire("grace")
	id := grace.ID.String()
	of := func(id string) string { return strings.Replace(member(1, ""), `"externalId":"m1"`, `"id":"`+id+`"`, 1) }
	tests := []struct{ line, want string }{
		{`[]`, "400 line is not a JSON object"},
		{`{"a":1} {}`, "400 line is not one JSON value: invalid character '{' after top-level value"},
		{`{"firstName":"\ud800"}`, "400 line escapes half of a character"},
		{"{" + strings.Repeat(" ", 256<<10) + "}", "400 line is larger than 256 KiB"},
		{`{}`, "400 id is required, unless there is an externalId, firstName is required, lastName is required, dateOfBirth is required, timezone is required"},
		{`{"externalId":"9","firstName":1,"firstName":"A","x":1,"zoneSource":"guessed","timezone":"Mars","lastName":"","dateOfBirth":"2027-01-01"}`,
			"400 firstName must be a string, firstName is given more than once"},
		{of("00000000-0000-0000-0000-000000000000"), "400 id is not a UUID"},
		{of("{" + id[1:]), "400 id is not a UUID"},
		{of(id), "409 firstName differs from that of the user, lastName differs from that of the user, dateOfBirth differs from that of the user, " +
			"timezone differs from that of the user, email differs from that of the user, externalId differs from that of the user"},
		{strings.Replace(of(stranger), `}`, `,"externalId":"grace"}`, 1), "409 externalId belongs to another user"},
		{strings.Replace(member(1, ""), "m1", "grace", 1), "409 firstName differs from that of the user, lastName differs from that of the user, " +
			"dateOfBirth differs from that of the user, timezone differs from that of the user, email differs from that of the user"},
	}
	for _, tt := range tests {
		a := o.ok("POST", "/imports", "\n"+tt.line+"\n"+member(7, ""))
		require.Equal(t, 1.0, a["refusedLines"], tt.line)
		if strings.Contains(tt.line, "Mars") {
			continue // many fields, see below
		}
		require.Equal(t, []string{"2 " + tt.want}, refusals(a), "%.200s", tt.line)
		require.Equal(t, 4.0, a["nextLine"])
	}
	all := refusals(o.ok("POST", "/imports", tests[5].line))[0]
	for _, field := range []string{"firstName must be a string", "lastName ", "dateOfBirth ", "timezone ", "x is not a known field", "zoneSource is not a known field"} {
		require.Contains(t, all, field)
	}
	stored, err := o.repository.User(t.Context(), grace.ID)
	require.NoError(t, err)
	require.Equal(t, grace, stored)
}

func TestAnImportCanEdit(t *testing.T) {
	t.Parallel()
	o := openOffice(t, newRepository())
	grace, birthday := o.hire("grace")
	lines := strings.Join([]string{
		`{"id":"` + grace.ID.String() + `","timezone":"Asia/Tokyo","attributes":{"team":7,"none":null}}`,
		`{"externalId":"grace","locale":"en"}`, // of the same user, named in another way
		member(1, `,"attributes":{"a":1,"none":null}`),
		member(1, `,"attributes":{"a":null,"b":2}`), // after the line before
		`{"externalId":"new","timezone":"Mars"}`,
		`{"externalId":"grace","email":""}`,
	}, "\n")

	a := o.ok("POST", "/imports?existing=edit", lines)

	require.Equal(t, [6]int{6, 1, 4, 0, 1, 7}, counts(a))
	require.Regexp(t, `^5 400 firstName is required, lastName is required, dateOfBirth is required, timezone is not a known time zone`, refusals(a)[0])
	is := o.ok("GET", "/users/"+grace.ID.String(), "")["user"].(map[string]any)
	require.Equal(t, []any{"Asia/Tokyo", map[string]any{"team": 7.0}, "en", nil, "Hopper"}, []any{is["timezone"], is["attributes"], is["locale"], is["email"], is["lastName"]})
	moved, err := o.repository.Event(t.Context(), birthday.ID)
	require.NoError(t, err)
	require.Equal(t, "Asia/Tokyo", moved.Zone)
	made := o.ok("GET", "/users?externalId=m1", "")["users"].([]any)[0].(map[string]any)
	require.Equal(t, map[string]any{"b": 2.0}, made["attributes"])

	a = o.ok("POST", "/imports?existing=edit", strings.Join(strings.Split(lines, "\n")[:2], "\n"))
	require.Equal(t, [6]int{2, 0, 0, 2, 0, 3}, counts(a))
	again := o.ok("GET", "/users/"+grace.ID.String(), "")["user"].(map[string]any)
	require.Equal(t, is["version"], again["version"], "what does not differ is not written")
}

// A user has other names in other lines, and gives an external id to another user.
func TestLinesOfOneUserUnderOtherNamesAreDoneInTheirOrder(t *testing.T) {
	t.Parallel()
	o := openOffice(t, newRepository())
	grace, _ := o.hire("grace")
	id := `"id":"` + grace.ID.String() + `"`
	lines := []string{
		`{` + id + `,"locale":"en"}`,
		`{"externalId":"grace","locale":"de"}`,
		`{` + id + `,"locale":"fr"}`,
		`{` + id + `,"externalId":"hopper"}`,
		strings.Replace(member(1, ""), "m1", "grace", 1),
		`{"externalId":"hopper","locale":"es"}`,
		`{` + id + `,"locale":"it"}`,
		`{` + id + `,"externalId":"murray"}`, // before another user takes the one before
		strings.Replace(member(2, ""), `"externalId":"m2"`, `"id":"`+stranger+`","externalId":"hopper"`, 1),
	}

	a := o.ok("POST", "/imports?existing=edit", strings.Join(lines, "\n"))

	require.Equal(t, [6]int{9, 2, 7, 0, 0, 10}, counts(a), refusals(a))
	stored, err := o.repository.User(t.Context(), grace.ID)
	require.NoError(t, err)
	require.Equal(t, []any{"it", "murray", 8}, []any{stored.Locale, stored.ExternalID, stored.Version})
	require.Equal(t, "Ada", o.ok("GET", "/users?externalId=grace", "")["users"].([]any)[0].(map[string]any)["firstName"])
}

func TestADryRunOfAnImportCountsAndStoresNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // so that no time passes
		o := openOffice(t, newRepository())
		grace, _ := o.hire("grace")
		o.hire("ada")
		lines := strings.Join([]string{
			member(1, ""), member(2, ""),
			`{"externalId":"grace","locale":"de"}`,
			`{"externalId":"ada","lastName":"Hopper"}`,
			member(3, `,"locale":"??"`),
			`{"id":"` + grace.ID.String() + `","externalId":"ada"}`,
			strings.Replace(member(4, ""), `"externalId":"m4"`, `"id":"`+stranger+`","externalId":"grace"`, 1),
			`{"externalId":"new","locale":"de"}`,
		}, "\n")
		stored := o.events()

		dry := o.ok("POST", "/imports?existing=edit&dryRun=true", lines)

		require.Equal(t, true, dry["dryRun"])
		require.Equal(t, [6]int{8, 2, 1, 1, 4, 9}, counts(dry))
		require.Equal(t, stored, o.events())
		is, err := o.repository.User(t.Context(), grace.ID)
		require.NoError(t, err)
		require.Equal(t, grace, is)
		real := o.ok("POST", "/imports?existing=edit&dryRun=false", lines)
		require.Equal(t, false, real["dryRun"])
		require.Equal(t, counts(dry), counts(real))
		require.Equal(t, dry["refused"], real["refused"])

		dry = o.ok("POST", "/imports?dryRun=true", lines)
		real = o.ok("POST", "/imports", lines)
		require.Equal(t, counts(dry), counts(real))
		require.Equal(t, dry["refused"], real["refused"])
	})
}

func TestTwoLinesOfOneUserAreDoneInTheirOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // so that no time passes
		o := openOffice(t, newRepository())
		var body strings.Builder
		for n := range 1500 {
			body.WriteString(member(n%500, fmt.Sprintf(`,"locale":"%s"`, []string{"en", "de", "fr"}[n/500])) + "\n")
		}

		a := o.ok("POST", "/imports?existing=edit", body.String())

		require.Equal(t, [6]int{1500, 500, 1000, 0, 0, 1501}, counts(a))
		for _, n := range []string{"m0", "m250", "m499"} {
			require.Equal(t, "fr", o.ok("GET", "/users?externalId="+n, "")["users"].([]any)[0].(map[string]any)["locale"])
		}
		a = o.ok("POST", "/imports", member(1, `,"locale":"fr"`)+"\n"+member(1, ""))
		require.Equal(t, []string{"2 409 locale differs from that of the user"}, refusals(a))
	})
}

func TestAnImportKnowsUsersByTheirIDFirst(t *testing.T) {
	t.Parallel()
	o := openOffice(t, newRepository())
	id := uuid.New().String()
	line := func(externalID string) string {
		return strings.Replace(member(1, ""), `"externalId":"m1"`, `"id":"`+id+`","externalId":"`+externalID+`"`, 1)
	}
	require.Equal(t, 1.0, o.ok("POST", "/imports?existing=edit", line("one"))["created"])
	require.Equal(t, 1.0, o.ok("POST", "/imports?existing=edit", line("two"))["edited"])
	found := o.ok("GET", "/users?externalId=two", "")["users"]
	require.Equal(t, []string{id}, ids(found))
	require.Equal(t, 1.0, o.ok("POST", "/imports", line("two")+"\n"+strings.Replace(line("two"), id, stranger, 1))["unchanged"])
}

func TestAnImportHoldsTheRulesOfTheHost(t *testing.T) {
	t.Parallel()
	r := newRepository()
	attribute := httpapi.WithAttribute("size", func(json.RawMessage) string { return "is too small" })
	o := openOffice(t, r, attribute)
	require.Equal(t, []string{"1 400 attributes.size is too small"}, refusals(o.ok("POST", "/imports?existing=edit", member(1, `,"attributes":{"size":1}`))))
	require.Equal(t, []string{"1 400 attributes.size is too small"}, refusals(o.ok("POST", "/imports", member(1, `,"attributes":{"size":1}`))))

	s := openOn(t, newRepository(), httpapi.NoAuthentication{}, httpapi.WithOptionalProfile(), httpapi.WithOptionalTimezone())
	lenient := &office{site: s.administration()}
	for _, want := range []string{"created", "unchanged"} {
		require.Equal(t, 1.0, lenient.ok("POST", "/imports", `{"externalId":"1","locale":"de-AT"}`)[want])
	}
	require.Equal(t, 1.0, lenient.ok("POST", "/imports?existing=edit", `{"externalId":"1","locale":"de-AT","timezone":"Europe/Vienna"}`)["edited"], "the zone is declared")
	require.Equal(t, []string{"1 409 timezone differs from that of the user"}, refusals(lenient.ok("POST", "/imports", `{"externalId":"1","locale":"de-AT"}`)))
	for _, want := range []string{"edited", "unchanged"} {
		require.Equal(t, 1.0, lenient.ok("POST", "/imports?existing=edit", `{"externalId":"1","timezone":""}`)[want], "the zone is no longer declared")
	}
}

func TestAnImportRefusesOtherParameters(t *testing.T) {
	t.Parallel()
	o := openOffice(t, newRepository())
	require.Equal(t, map[string]string{
		"existing": "is not one of refuse, edit", "dryRun": "is not one of true, false", "line": "is not a whole number between 1 and 2000000000", "x": "is not a known parameter",
	}, o.complaints(o.send("POST", "/imports?existing=replace&line=0&x=1&dryRun=1", member(1, ""))))
	require.Equal(t, [6]int{0, 0, 0, 0, 0, 4}, counts(o.ok("POST", "/imports?line=4", "")))
	o.nothing()
}

// cutOff is a body that fails after its text.
type cutOff struct{ io.Reader }

func (b cutOff) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func TestAnImportOfABrokenBodyStoresTheWholeLines(t *testing.T) {
	t.Parallel()
	o := openOffice(t, newRepository())
	send := func(text string) answer {
		return o.do(httptest.NewRequestWithContext(t.Context(), "POST", "/imports", cutOff{strings.NewReader(text)}))
	}

	a := send(member(1, "") + "\n" + member(2, "") + "\n" + member(3, ""))

	require.Equal(t, http.StatusOK, a.status, a.body)
	require.Equal(t, [6]int{2, 2, 0, 0, 0, 3}, counts(o.object(a)))
	require.Equal(t, "the body could not be read to its end", o.object(a)["stopped"])
	require.Equal(t, 2, o.events())
	require.Equal(t, map[string]string{"body": "could not be read to its end"}, o.complaints(send(member(3, ""))))
	require.Equal(t, 2, o.events())
}

func TestAnImportIsSentAgainAfterABrokenConnection(t *testing.T) {
	t.Parallel()
	o := openOffice(t, newRepository())
	client := start(t, o.handler, func(s *http.Server) []*time.Duration {
		return []*time.Duration{&s.ReadHeaderTimeout, &s.ReadTimeout, &s.WriteTimeout, &s.IdleTimeout}
	})
	_, err := io.WriteString(client, "POST /imports HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\n"+member(1, "")+"\n"+member(2, ""))
	require.NoError(t, err)
	require.NoError(t, client.(*net.TCPConn).CloseWrite())

	_, err = io.ReadAll(client)

	require.NoError(t, err)
	require.LessOrEqual(t, o.events(), 1, "of the line that has ended")
	again := counts(o.ok("POST", "/imports", member(1, "")+"\n"+member(2, "")))
	require.Equal(t, 2, again[1]+again[3])
	require.Equal(t, 2, o.events())
}

// stalling is a writer whose server can end a read of the body.
type stalling struct {
	*httptest.ResponseRecorder
	body *io.PipeReader
}

func (s stalling) SetReadDeadline(time.Time) error {
	return s.body.CloseWithError(errors.New("deadline"))
}

func TestAnImportEndsInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := openOffice(t, newRepository())
		body, client := io.Pipe()
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/imports", body)
		r.Host = "localhost"
		go func() { _, _ = io.WriteString(client, member(1, "")+"\n"+member(2, "")+"\n"+member(3, "")) }()
		w, begun := stalling{httptest.NewRecorder(), body}, time.Now()

		o.handler.ServeHTTP(w, r)

		require.Equal(t, 8*time.Second, time.Since(begun))
		a := o.object(answer{body: w.Body.String()})
		require.Equal(t, [6]int{2, 2, 0, 0, 0, 3}, counts(a))
		require.Equal(t, "the time of a request is over", a["stopped"])
	})
}

// slow is a repository whose edits take three seconds, and those of one user for ever.
type slow struct {
	almanac.Repository
	stuck uuid.UUID
}

func (s slow) EditUser(ctx context.Context, id uuid.UUID, edit func(almanac.Roster) (almanac.Edit, error)) (almanac.Edit, error) {
	if id == s.stuck {
		<-ctx.Done()
		return almanac.Edit{}, ctx.Err()
	}
	return s.Repository.EditUser(ctx, id, edit)
}

func (s slow) EditUsers(ctx context.Context, ids []uuid.UUID, edit func(int, almanac.Roster) (almanac.Edit, error)) ([]almanac.Edit, []error) {
	if slices.Contains(ids, s.stuck) {
		<-ctx.Done()
		return make([]almanac.Edit, len(ids)), slices.Repeat([]error{ctx.Err()}, len(ids))
	}
	time.Sleep(3 * time.Second)
	return s.Repository.EditUsers(ctx, ids, edit)
}

func TestAnImportGoesOnWhereItsTimeWasOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 2200
		o := openOffice(t, slow{Repository: newRepository()})
		var users, edits []string
		for k := range n {
			users = append(users, member(k, ""))
			edits = append(edits, member(k, `,"locale":"de"`))
		}
		o.ok("POST", "/imports", strings.Join(users, "\n"))
		edited, next := 0, 1
		for calls := 0; next <= n; calls++ {
			require.Less(t, calls, 2)
			a := o.ok("POST", fmt.Sprintf("/imports?existing=edit&line=%d", next), strings.Join(edits[next-1:], "\n"))
			require.Zero(t, a["unchanged"], "a line that was edited is before the next line")
			edited += int(a["edited"].(float64))
			next = int(a["nextLine"].(float64))
			require.Equal(t, next > n, a["stopped"] == nil)
		}
		require.Equal(t, n, edited)
	})
}

// panics is a repository that panics when it edits users.
type panics struct{ almanac.Repository }

func (panics) EditUsers(context.Context, []uuid.UUID, func(int, almanac.Roster) (almanac.Edit, error)) ([]almanac.Edit, []error) {
	panic("a bug")
}

func TestAPanicEndsTheRequestOfAnImportAlone(t *testing.T) {
	t.Parallel()
	r := newRepository()
	o := openOffice(t, r)
	o.ok("POST", "/imports", member(1, "")+"\n"+member(2, ""))
	o = openOffice(t, panics{r})
	o.problem(o.send("POST", "/imports?existing=edit", member(1, `,"locale":"de"`)+"\n"+member(2, `,"locale":"de"`)), http.StatusInternalServerError)
	require.Equal(t, 2.0, o.ok("POST", "/imports", member(1, "")+"\n"+member(2, ""))["unchanged"])
}

// One user whose edit does not end is refused, and the others are edited in the same request.
func TestAnImportPassesOverAUserWhoIsLocked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRepository()
		o := openOffice(t, r)
		grace, _ := o.hire("grace")
		o = openOffice(t, slow{r, grace.ID})
		lines := []string{`{"externalId":"grace","locale":"de"}`}
		for n := range 300 {
			o.ok("POST", "/imports", member(n, ""))
			lines = append(lines, member(n, `,"locale":"de"`))
		}
		begun := time.Now()

		a := o.ok("POST", "/imports?existing=edit", strings.Join(lines, "\n"))

		require.Less(t, time.Since(begun), 8*time.Second)
		require.Equal(t, [6]int{301, 0, 300, 0, 1, 302}, counts(a))
		require.Equal(t, []string{"1 409 the user is locked by another transaction, or takes a handler too long, at this moment; try again"}, refusals(a))
	})
}

// outage is a repository whose CreateUsers fails after some calls.
type outage struct {
	almanac.Repository
	left atomic.Int64
}

func (f *outage) CreateUsers(ctx context.Context, users []almanac.UserWithEvents) ([]almanac.CreateUserResult, error) {
	if f.left.Add(-1) < 0 {
		return nil, driverError{"57P01"}
	}
	return f.Repository.CreateUsers(ctx, users)
}

func TestAnImportStopsWhenTheRepositoryFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // so that no time passes
		r := &outage{Repository: newRepository()}
		r.left.Store(8)
		o := openOffice(t, r)
		var body strings.Builder
		for n := range 4500 {
			body.WriteString(member(n, "") + "\n")
		}

		a := o.ok("POST", "/imports", body.String())

		require.Equal(t, "the request cannot be served at the moment; try again", a["stopped"])
		require.Equal(t, 4001.0, a["nextLine"], "all of a page, or nothing of it")
		require.Equal(t, 4000.0, a["created"])
		require.Equal(t, 4000, o.events())
		o.problem(o.send("POST", "/imports", member(20_000, "")), http.StatusServiceUnavailable)
		r.left.Store(1000)
		rest := o.ok("POST", "/imports", body.String())
		require.EqualValues(t, 4500, rest["created"].(float64)+rest["unchanged"].(float64))
		require.Equal(t, a["created"], rest["unchanged"])
		require.Equal(t, 4500, o.events())
	})
}

func TestAnImportCountsNoLineAfterTheNextOne(t *testing.T) {
	t.Parallel()
	r := &outage{Repository: newRepository()}
	r.left.Store(1)
	o := openOffice(t, r)
	o.ok("POST", "/imports", member(1, ""))
	lines := "x\n" + member(2, "") + "\n" + member(1, "")

	a := o.ok("POST", "/imports", lines) // the second line fails, and the third is unchanged

	require.Equal(t, [6]int{1, 0, 0, 0, 1, 2}, counts(a))
	require.NotNil(t, a["stopped"])
	r.left.Store(1)
	a = o.ok("POST", "/imports?line=2", strings.SplitN(lines, "\n", 2)[1])
	require.Equal(t, [6]int{2, 1, 0, 1, 0, 4}, counts(a))
}

// FuzzImports sends arbitrary bodies. Each line has one outcome, and a second import changes nothing.
func FuzzImports(f *testing.F) {
	for _, body := range []string{"", "\n\n", member(1, "") + "\n" + member(1, `,"locale":"de"`), `{"externalId":"1"}`, "{}\r\n[]\n\xff\nnull", member(2, `,"id":"`+stranger+`"`)} {
		f.Add(body, false)
		f.Add(body, true)
	}
	f.Fuzz(func(t *testing.T, body string, edit bool) {
		o := openOffice(t, newRepository())
		target := "/imports"
		if edit {
			target += "?existing=edit"
		}
		lines, blank := strings.Split(body, "\n"), 0
		if lines[len(lines)-1] == "" {
			lines = lines[:len(lines)-1]
		}
		for _, line := range lines {
			if strings.TrimSpace(line) == "" {
				blank++
			}
		}
		a := counts(o.ok("POST", target, body))
		require.Equal(t, len(lines), a[0])
		require.Equal(t, len(lines)-blank, a[1]+a[2]+a[3]+a[4])
		stored := o.events()
		b := counts(o.ok("POST", target, body))
		require.Equal(t, a[0], b[0])
		if !edit { // two edits of one external id can make it free for a third line
			require.Zero(t, b[1]+b[2], "created or edited again")
			require.Equal(t, stored, o.events())
			require.Equal(t, a[4], b[4])
			require.Equal(t, a[1]+a[3], b[3])
		}
	})
}
