package icalendar_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/icalendar"
	"github.com/almanac-go/almanac/signedlink"
)

// A calendar program reads the birthdays of a user.
func ExampleNew() {
	now := time.Date(2027, time.March, 1, 0, 0, 0, 0, time.UTC)
	repository := almanactest.NewRepository(func() time.Time { return now })
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	if err != nil {
		panic(err)
	}
	scheduler, err := almanac.NewScheduler(repository, registry)
	if err != nil {
		panic(err)
	}
	created, err := scheduler.CreateUser(context.Background(), almanac.Profile{
		ID:        uuid.MustParse("6f1e6c0e-5d0c-4a55-9d3c-0d6f6a2f9b11"),
		FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Europe/London",
	})
	if err != nil {
		panic(err)
	}

	feed, err := icalendar.New(scheduler, repository, registry, icalendar.Settings{
		Name: "Acme", Ahead: 1,
		Summary: func(u almanac.User, _ almanac.Event) string { return "Birthday of " + u.Name() },
	})
	if err != nil {
		panic(err)
	}
	secret := []byte("thirty-two bytes from a safe place") // at least 32 random bytes
	links, err := icalendar.NewLinks("https://example.com/calendar/", signedlink.Key{ID: "2027", Secret: secret})
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/calendar/", feed.Handler(links))

	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, links.URL(created.User.ID), nil))
	fmt.Println(answer.Code, answer.Header().Get("Content-Type"))
	fmt.Print(strings.ReplaceAll(answer.Body.String(), "\r\n", "\n"))
	// Output:
	// 200 text/calendar; charset=utf-8
	// BEGIN:VCALENDAR
	// VERSION:2.0
	// PRODID:-//Almanac//Calendar feed//EN
	// CALSCALE:GREGORIAN
	// NAME:Acme
	// X-WR-CALNAME:Acme
	// REFRESH-INTERVAL;VALUE=DURATION:PT360M
	// X-PUBLISHED-TTL:PT360M
	// BEGIN:VEVENT
	// UID:a7f4e3f7-5303-5931-9334-b521e07c5ae2
	// SEQUENCE:1001
	// DTSTAMP:20270301T000000Z
	// LAST-MODIFIED:20270301T000000Z
	// DTSTART:20271210T090000Z
	// SUMMARY:Birthday of Ada Lovelace
	// STATUS:CONFIRMED
	// TRANSP:TRANSPARENT
	// END:VEVENT
	// END:VCALENDAR
}

// The URL is the secret, so give it to the user only. With the first key new URLs are signed;
// the others still verify.
func ExampleNewLinks() {
	young := signedlink.Key{ID: "2027", Secret: []byte("thirty-two bytes from a safe place")}
	old := signedlink.Key{ID: "2026", Secret: []byte("the key of last year, 32 bytes too")}
	links, err := icalendar.NewLinks("https://example.com/calendar/", young, old)
	if err != nil {
		panic(err)
	}
	fmt.Println(strings.HasPrefix(links.URL(uuid.New()), "https://example.com/calendar/2027."))
	// Output: true
}
