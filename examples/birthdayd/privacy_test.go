package main

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgtest"
)

// person is a user with distinctive data: no word of it occurs anywhere else.
type person struct{ first, last, born, zone, hobby string }

func (s person) json() string {
	return fmt.Sprintf(`{"firstName":%q,"lastName":%q,"dateOfBirth":%q,"timezone":%q,"attributes":{"hobby":%[5]q},"locale":"de",
		"email":"%[5]s@home.example","externalId":"id of %[5]s"}`, s.first, s.last, s.born, s.zone, s.hobby)
}

// The users, by the fate of their greeting.
var (
	served   = person{"Xanthippe", "Quillfeather", "1937-03-14", "Asia/Tokyo", "falconry-4417"}
	unknown  = person{"Zebulon", "Ravenscroft", "1941-07-22", "America/Lima", "spelunking-8823"}
	patient  = person{"Ottoline", "Vandersloot", "1946-10-05", "Europe/Oslo", "marquetry-5190"}
	hungUp   = person{"Peregrine", "Abernathy", "1952-02-11", "Africa/Lagos", "bellringing-7306"}
	babbled  = person{"Philomena", "Wigglesworth", "1957-05-30", "Asia/Dhaka", "taxidermy-2951"}
	moved    = person{"Thaddeus", "Featherstone", "1963-08-17", "Asia/Seoul", "cryptography-6648"}
	childish = person{"Ludmila", "Oberholtzer", "1968-12-03", "America/Bogota", "beekeeping-3372"} // the database refuses her successor
	refusedP = person{"Gudrun", "Silberschatz", "1974-04-26", "Europe/Rome", "calligraphy-9085"}   // and hers
	edited   = person{"Bartholomew", "Cholmondeley", "1979-09-09", "Asia/Manila", "ventriloquism-1764"}
	edit     = person{"Cassiopeia", "Drinkwater", "1985-01-19", "Europe/Paris", "glassblowing-4029"}
	deleted  = person{"Wilhelmina", "Zuckerkandl", "1990-06-28", "Asia/Dubai", "puppetry-8511"}
)

const (
	hookToken = "tok-5f1e8c0b7a"
	apiToken  = "api-c93d27e614"
)

// Names, birth dates and messages are personal. birthdayd writes only ids and keys of
// users, whatever happens and at every log level.
func TestNothingPersonalIsWritten(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"json", "text"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			w := newWitness(t, format)
			for _, s := range []person{served, unknown, patient, hungUp, babbled, moved, childish} {
				w.enrol(s)
			}
			w.insult()
			w.keep()
			w.forbidSuccessor(childish)
			w.letAllBeDue()
			w.awaitEnds()
			require.Equal(t, 0, w.stop())

			w.requireSilence("standard output", w.out.String())
			w.requireSilence("standard error", w.log.String())
			for _, reason := range w.column("SELECT concat_ws(' / ', failure_reason, last_error) FROM almanac.events") {
				w.requireSilence("a reason in the database", reason)
			}
			for _, answer := range w.refusals {
				w.requireSilence("a refusal", answer)
			}
			w.requireItHappened()
		})
	}
}

// Errors about refused settings and unreachable databases contain no secrets.
func TestNoSecretIsWrittenAtTheStart(t *testing.T) {
	t.Parallel()
	const hunter = "hunter2-6a0c1f"
	hook := []string{"-addr", "127.0.0.1:0", "-api-token", hunter, "-log-level", "debug", "-webhook-url", "https://example.com/" + hunter}
	wrong, err := url.Parse(pgtest.EmptyURL(t))
	require.NoError(t, err)
	wrong.User = url.UserPassword("nobody", hunter)
	for name, tt := range map[string]struct {
		args []string
		want string // part of its output
	}{
		"a secret that is none":             {[]string{"-webhook-secret", "whsec_" + hunter + "§"}, "-webhook-secret"},
		"a short secret":                    {[]string{"-webhook-secret", hunter}, "-webhook-secret"},
		"a receiver with a password":        {[]string{"-webhook-url", "https://" + hunter + ":" + hunter + "@example.com"}, "-webhook-url"},
		"a receiver that is no URL":         {[]string{"-webhook-url", "https://example.com:port/" + hunter}, "-webhook-url"},
		"a database that is no URL":         {[]string{"-database-url", "postgres://nobody:" + hunter + "@h:port/"}, "-database-url"},
		"a database with an odd setting":    {[]string{"-database-url", "postgres://nobody:" + hunter + "@h/?sslmode=odd"}, "-database-url"},
		"a database that is not there":      {[]string{"-database-url", "postgres://nobody:" + hunter + "@127.0.0.1:1/"}, "does not answer yet"},
		"a database that refuses the login": {[]string{"-database-url", wrong.String()}, "nobody"},
		"a database in another's notation":  {[]string{"-database-url", "user=nobody password=" + hunter + " host=h port=port"}, "-database-url"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			waits := tt.want == "does not answer yet"
			p := begin(t, append(slices.Clone(hook), tt.args...)...)
			require.Eventually(t, func() bool { return strings.Contains(p.log.String(), tt.want) }, patience, pollEvery)
			if waits {
				p.signal(syscall.SIGTERM)
			}
			p.wait()
			require.NotContains(t, p.out.String()+p.log.String(), hunter)
		})
	}
}

// witness is a birthdayd whose output is checked.
type witness struct {
	*process
	db       *pgxpool.Pool
	receiver *httptest.Server
	secrets  []string // what the output must not contain
	refusals []string // unsuccessful answers
}

func newWitness(t *testing.T, format string) *witness {
	t.Helper()
	address := pgtest.URL(t)
	db, err := pgxpool.New(t.Context(), address)
	require.NoError(t, err)
	t.Cleanup(db.Close)
	w := &witness{db: db, receiver: httptest.NewServer(indiscreet())}
	t.Cleanup(w.receiver.Close)
	w.process = begin(t, "-addr", "127.0.0.1:0", "-api-token", apiToken, "-database-url", address,
		"-webhook-url", w.receiver.URL+"/in/"+hookToken+"?key="+hookToken, "-webhook-secret", secret, "-webhook-allow-private",
		"-attempts", "2", "-retry-first", "10ms", "-log-format", format, "-log-level", "debug")
	listening := regexp.MustCompile(`listening.*?(http://127\.0\.0\.1:\d+)`)
	require.Eventually(t, func() bool {
		if found := listening.FindStringSubmatch(w.log.String()); found != nil {
			w.url = found[1]
		}
		return w.url != "" || w.ended()
	}, patience, pollEvery, "it never listened")
	require.False(t, w.ended(), "it ended: %s", w.log)
	w.collectSecrets(address)
	return w
}

func (w *witness) collectSecrets(address string) {
	for _, s := range []person{served, unknown, patient, hungUp, babbled, moved, childish, refusedP, edited, edit, deleted} {
		w.secrets = append(w.secrets, s.first, s.last, s.born, strings.ReplaceAll(s.born, "-", ""), s.hobby)
	}
	bare := strings.TrimPrefix(secret, "whsec_")
	key, err := base64.StdEncoding.DecodeString(bare)
	require.NoError(w.t, err)
	w.secrets = append(w.secrets, "your birthday", bare, string(key), hookToken, apiToken)
	w.secrets = append(w.secrets, "Imprudence", "Bickerstaff", "1800-13-77", "Mars/Zanzibarovia", "lockpicking-6033", "nickname-2288")
	u, err := url.Parse(address)
	require.NoError(w.t, err)
	if password, ok := u.User.Password(); ok && len(password) > 8 { // a configured server may have one like "test"
		w.secrets = append(w.secrets, password)
	}
	for _, word := range w.secrets { // as %v and %x write bytes
		w.secrets = append(w.secrets, strings.Trim(fmt.Sprint([]byte(word)), "[]"), hex.EncodeToString([]byte(word)))
	}
}

// indiscreet is a receiver that repeats the request in every possible part of its response.
func indiscreet() http.Handler {
	var mu sync.Mutex
	busy := true
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a truncated body matches no user
		about := func(s person) bool { return strings.Contains(string(body), s.last) }
		mu.Lock()
		defer mu.Unlock()
		switch {
		case about(unknown):
			hijack(w, "HTTP/1.1 404 %[1]s\r\nX-Echo: %[1]s\r\nContent-Type: application/json\r\nContent-Length: %[2]d\r\n\r\n%[1]s", body, len(body))
		case about(patient) && busy:
			busy = false
			w.Header().Set("Retry-After", string(body))
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write(body)
		case about(hungUp):
			hijack(w, "")
		case about(babbled):
			hijack(w, "%s\r\n", body)
		case about(moved):
			hijack(w, "HTTP/1.1 302 Found\r\nLocation: http://[%[1]s\r\nContent-Length: 0\r\n\r\n", body)
		default:
			_, _ = w.Write(body)
		}
	})
}

// hijack writes on the raw connection and closes it.
func hijack(w http.ResponseWriter, format string, args ...any) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	if format != "" {
		_, _ = fmt.Fprintf(conn, format, args...)
	}
}

// ask sends a request to the API, and returns the status and the Location header.
func (w *witness) ask(method, path, body string) (status int, location string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, strings.NewReader(body))
	require.NoError(w.t, err)
	r.Header.Set("Authorization", "Bearer "+apiToken)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	response, err := client.Do(r)
	require.NoError(w.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(w.t, err)
	if response.StatusCode >= 400 {
		w.refusals = append(w.refusals, string(text))
	}
	return response.StatusCode, response.Header.Get("Location")
}

func (w *witness) enrol(s person) (location string) {
	w.t.Helper()
	status, location := w.ask("POST", "/user", s.json())
	require.Equal(w.t, http.StatusCreated, status)
	return location
}

// insult sends invalid requests.
func (w *witness) insult() {
	w.t.Helper()
	for body, want := range map[string]int{
		`{"firstName":"Imprudence","lastName":"` + strings.Repeat("Bickerstaff", 20) + `","dateOfBirth":"1800-13-77",` +
			`"timezone":"Mars/Zanzibarovia","attributes":["lockpicking-6033"]}`: http.StatusBadRequest,
		`{"firstName":"Imprudence\u0000","lastName":"Bickerstaff","dateOfBirth":"1990-01-01","timezone":"UTC",` +
			`"attributes":{"x":"lockpicking-6033\u0000","deliverAt":"nickname-2288"}}`: http.StatusBadRequest,
		`{"firstName":["Imprudence"],"lastName":{"Bickerstaff":1},"dateOfBirth":true,"timezone":"Bickerstaff"}`: http.StatusBadRequest,
		`{"firstName":"Imprudence","lastName":"Bickerstaff" nickname-2288`:                                      http.StatusBadRequest,
		`{"firstName":"A","lastName":"B","dateOfBirth":"1990-01-01","timezone":"UTC","locale":"Bickerstaff",` +
			`"email":"Imprudence <lockpicking-6033@home.example>","externalId":"nickname-2288\u0000"}`: http.StatusBadRequest,
		strings.Replace(childish.json(), childish.hobby+`"}`, served.hobby+`"}`, 1): http.StatusConflict,
		`Imprudence Bickerstaff`: http.StatusBadRequest,
	} {
		status, _ := w.ask("POST", "/user", body)
		require.Equal(w.t, want, status, "%s", body)
	}
	status, _ := w.ask("GET", "/people/Imprudence/Bickerstaff", "")
	require.Equal(w.t, http.StatusNotFound, status)
	status, _ = w.ask("GET", "/user/Imprudence", "")
	require.Equal(w.t, http.StatusBadRequest, status)
	status, _ = w.ask("PATCH", "/user?name=Bickerstaff", "Imprudence")
	require.Equal(w.t, http.StatusMethodNotAllowed, status)
	for _, words := range []string{"Imprudence Bickerstaff\r\n\r\n", "GET /Imprudence HTTP/7.7\r\nBickerstaff\r\n\r\n"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
		require.NoError(w.t, err)
		require.NoError(w.t, conn.SetDeadline(time.Now().Add(patience)))
		_, err = io.WriteString(conn, words)
		require.NoError(w.t, err)
		_, err = io.Copy(io.Discard, conn)
		require.NoError(w.t, err)
		require.NoError(w.t, conn.Close())
	}
}

// keep edits a user, deletes one, and makes the database refuse one.
func (w *witness) keep() {
	w.t.Helper()
	location := w.enrol(edited)
	status, _ := w.ask("PUT", location, edit.json())
	require.Equal(w.t, http.StatusOK, status)
	status, _ = w.ask("PUT", location, `{"externalId":"id of `+served.hobby+`"}`)
	require.Equal(w.t, http.StatusConflict, status)
	status, _ = w.ask("PUT", location, `{"firstName":"","timezone":"Mars/Zanzibarovia","dateOfBirth":"1800-13-77","attributes":"lockpicking-6033"}`)
	require.Equal(w.t, http.StatusBadRequest, status)
	for _, path := range []string{location, location + "/events", "/events?status=PENDING"} {
		status, _ = w.ask("GET", path, "")
		require.Equal(w.t, http.StatusOK, status)
	}
	location = w.enrol(deleted)
	status, _ = w.ask("DELETE", location, "")
	require.Equal(w.t, http.StatusNoContent, status)
	status, _ = w.ask("GET", location, "")
	require.Equal(w.t, http.StatusNotFound, status)

	w.exec("ALTER TABLE almanac.users ADD CONSTRAINT unwelcome CHECK (last_name <> '" + refusedP.last + "')")
	status, _ = w.ask("POST", "/user", refusedP.json())
	require.Equal(w.t, http.StatusInternalServerError, status)
}

// forbidSuccessor makes the database refuse the successor of a user's event.
func (w *witness) forbidSuccessor(s person) {
	w.t.Helper()
	key := w.column("SELECT e.occurrence_key FROM almanac.events e JOIN almanac.users u ON u.id = e.user_id WHERE u.last_name = '" + s.last + "'")[0]
	w.exec("ALTER TABLE almanac.series ADD CONSTRAINT childless CHECK (delivery_payload::text NOT LIKE '%" + s.last + "%' OR occurrence_key = '" + key + "')")
}

// letAllBeDue makes all events due. It moves the wall times too, because reconciling would
// otherwise restore the instants.
func (w *witness) letAllBeDue() {
	w.t.Helper()
	w.exec(`
		UPDATE almanac.series SET target_timestamp_utc = date_trunc('second', now()),
			target_timestamp_local = date_trunc('second', now()) AT TIME ZONE target_timezone, version = version + 1;
		DELETE FROM almanac.queue;
		INSERT INTO almanac.queue SELECT target_timestamp_utc, event_id, id, event_type FROM almanac.series`)
}

// awaitEnds waits until no event is due.
func (w *witness) awaitEnds() {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		open := w.column("SELECT count(*)::text FROM almanac.events WHERE status = 'PROCESSING' OR available_at < now() + interval '1 hour'")
		return open[0] == "0"
	}, patience, pollEvery, "deliveries never ended")
}

// requireItHappened requires that the tested failures happened.
func (w *witness) requireItHappened() {
	w.t.Helper()
	got := w.column(`
		SELECT u.last_name || ' ' || e.status || ' ' || e.retry_count || ' '
			|| regexp_replace(coalesce(e.failure_reason, e.last_error, ''), 'no answer: .*', 'no answer')
		FROM almanac.events e JOIN almanac.users u ON u.id = e.user_id WHERE e.status <> 'PENDING'`)
	require.ElementsMatch(w.t, []string{
		served.last + " COMPLETED 0 ",
		unknown.last + " FAILED 1 webhook: receiver answered 404 Not Found",
		patient.last + " COMPLETED 1 webhook: receiver answered 503 Service Unavailable",
		hungUp.last + " FAILED 2 webhook: no answer",
		babbled.last + " FAILED 2 webhook: no answer",
		moved.last + " FAILED 2 webhook: receiver answered 302 Found",
		childish.last + " COMPLETED 0 ",
		edit.last + " COMPLETED 0 ",
	}, got)
	for _, said := range []string{"event.completed", "event.failed", "event.released", "event.created", "event.claimed", "event.rescheduled",
		"user.created", "user.deleted", "user.timezone_changed", "user.birthday_changed", "series has stalled", "request failed", "PUT", "DELETE"} {
		require.Contains(w.t, w.log.String(), said)
	}
}

func (w *witness) requireSilence(where, text string) {
	w.t.Helper()
	for _, word := range w.secrets {
		for line := range strings.Lines(text) {
			if strings.Contains(strings.ToLower(line), strings.ToLower(word)) {
				w.t.Errorf("%s tells %q: %s", where, word, line)
			}
		}
	}
}

func (w *witness) exec(sql string) {
	w.t.Helper()
	_, err := w.db.Exec(w.t.Context(), sql)
	require.NoError(w.t, err, "%s", sql)
}

func (w *witness) column(sql string) []string {
	w.t.Helper()
	rows, err := w.db.Query(w.t.Context(), sql)
	require.NoError(w.t, err, "%s", sql)
	values, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(w.t, err, "%s", sql)
	return values
}
