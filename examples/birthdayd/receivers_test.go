package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgtest"
)

// celebrant is a user with a birthday and an anniversary at a moment.
func celebrant(moment time.Time) string {
	return fmt.Sprintf(`{"firstName":"Zoë \"Z\"","lastName":"O'Neil","dateOfBirth":"1992-%s","timezone":"UTC","email":"zoe@example.com",
		"attributes":{"deliverAt":%q,"hired":"2020-%s"}}`, moment.Format("01-02"), moment.Format(time.TimeOnly), moment.Format("01-02"))
}

func TestEachTypeHasAReceiverOfItsOwn(t *testing.T) {
	t.Parallel()
	all, own := listen(t, http.StatusOK), listen(t, http.StatusOK)
	path := written(t, fmt.Sprintf(`{
		"anniversary": "hired", "webhook-url": %q, "webhook-secret": %q, "webhook-allow-private": true,
		"webhook-cloudevents": "https://example.com/greetings", "webhook-cloudevents-type": "com.example.",
		"receivers": {"ANNIVERSARY": {"url": %q, "secret": %q, "allow-private": true, "template": "testdata/chat.json"}}
	}`, all.server.URL, secret, own.server.URL, secret), 0o600)
	p := launch(t, "-config", path, "-database-url", pgtest.URL(t))
	moment := soon(2 * time.Second)
	status, answer := p.send("POST", "/user", celebrant(moment))
	require.Equal(t, http.StatusCreated, status, answer)
	user := answer["user"].(map[string]any)["id"]

	r := all.next()
	require.Equal(t, "application/cloudevents+json", r.header.Get("Content-Type"))
	var cloud map[string]any
	require.NoError(t, json.Unmarshal([]byte(r.body), &cloud))
	data := cloud["data"].(map[string]any)
	require.NotEmpty(t, data["eventId"])
	require.Equal(t, map[string]any{
		"specversion": "1.0", "id": r.key(), "source": "https://example.com/greetings", "type": "com.example.BIRTHDAY",
		"time": moment.Format(time.RFC3339), "datacontenttype": "application/json",
		"data": map[string]any{"eventId": data["eventId"], "eventType": "BIRTHDAY", "userId": user, "message": `Hey, Zoë "Z" O'Neil it's your birthday`},
	}, cloud)

	r = own.next()
	require.Equal(t, "application/json", r.header.Get("Content-Type"))
	var chat map[string]string
	require.NoError(t, json.Unmarshal([]byte(r.body), &chat))
	years := moment.Year() - 2020
	require.Equal(t, map[string]string{"channel": "#birthdays",
		"text": fmt.Sprintf(`Hey, Zoë "Z" O'Neil it's your anniversary: %d years (%s, UTC)`, years, moment.Format("2006-01-02T15:04:05"))}, chat)
	all.silent()
	own.silent()

	status, answer = p.send("POST", "/user", newborn(`{"hired":"last spring"}`))
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, fmt.Sprint(answer["errors"]), "is not a date of the form YYYY-MM-DD")
	path = fmt.Sprintf("/user/%s", user)
	status, _ = p.send("POST", path+"/opt-out", `{}`)
	require.Equal(t, http.StatusOK, status)
	status, answer = p.send("PUT", path, `{"attributes":{"hired":"last spring"}}`)
	require.Equal(t, http.StatusBadRequest, status, "who refuses greetings may want them again")
	require.Contains(t, fmt.Sprint(answer["errors"]), "attributes.hired")
	require.Equal(t, 0, p.stop())
}

func TestABodyThatIsNoJSONFailsItsEvent(t *testing.T) {
	t.Parallel()
	h := listen(t, http.StatusOK)
	template := filepath.Join(t.TempDir(), "bad.json")
	require.NoError(t, os.WriteFile(template, []byte(`{"text": {{.Payload.message}}}`), 0o600))
	p := launch(t, append(h.flags(), "-database-url", pgtest.URL(t), "-webhook-template", template)...)
	event, _ := p.enrol("UTC")
	event = p.ends(event, "FAILED")
	require.Contains(t, event["failureReason"], "the template wrote what is not JSON")
	h.silent()
	require.Equal(t, 0, p.stop())
}

// Users who exist already get the events of a type that is switched on later.
func TestBackfillStoresWhatExistingUsersLack(t *testing.T) {
	t.Parallel()
	h, url := listen(t, http.StatusOK), pgtest.URL(t)
	flags := append(h.flags(), "-database-url", url)
	p := launch(t, flags...)
	status, answer := p.send("POST", "/user", newborn(`{"hired":"2020-02-29"}`))
	require.Equal(t, http.StatusCreated, status, answer)
	event := answer["nextBirthdayEvent"].(map[string]any)
	require.Len(t, p.series(event), 1)

	filled := begin(t, append(flags, "-anniversary", "hired", "-backfill")...)
	require.Equal(t, 0, filled.wait())
	require.Equal(t, "ANNIVERSARY: 1 events stored for 1 users, 0 refused\nBIRTHDAY: 0 events stored for 1 users, 0 refused\n", filled.out.String())
	require.Len(t, p.series(event), 2)

	status, answer = p.send("POST", "/user", newborn(`{"left":"soon"}`))
	require.Equal(t, http.StatusCreated, status, answer)
	refused := begin(t, append(flags, "-anniversary", "left", "-backfill")...)
	require.Equal(t, 1, refused.wait())
	require.Contains(t, refused.out.String(), "ANNIVERSARY: 0 events stored for 2 users, 1 refused\nBIRTHDAY: ", "other types go on")
	user := answer["user"].(map[string]any)["id"].(string)
	require.Contains(t, refused.log.String(), "ANNIVERSARY: refused "+user+": ")
	require.Contains(t, refused.log.String(), "1 users refused")
	require.Equal(t, 0, p.stop())
}
