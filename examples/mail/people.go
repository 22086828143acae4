package main

import (
	"context"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// people are the users, in five languages and five zones. No templates are for "en-GB" or
// "pt-AO": these users get those for "en" and "pt".
var people = []almanac.Profile{
	{FirstName: "Ada", LastName: "Lovelace", Timezone: "Europe/London", Locale: "en-GB", Email: "ada@example.com"},
	{FirstName: "Konrad", LastName: "Zuse", Timezone: "Europe/Berlin", Locale: "de", Email: "konrad@example.com"},
	{FirstName: "Marian", LastName: "Rejewski", Timezone: "Europe/Warsaw", Locale: "pl", Email: "marian@example.com"},
	{FirstName: "Ana", LastName: "Domingos", Timezone: "Africa/Luanda", Locale: "pt-AO", Email: "ana@example.com"},
	{FirstName: "悦子", LastName: "山田", Timezone: "Asia/Tokyo", Locale: "ja", Email: "etsuko@example.com"},
}

// greet stores the people, whose birthdays are due in a moment, and runs until ctx ends.
func greet(ctx context.Context, store almanac.Repository, server string) error {
	now, err := store.Now(ctx)
	if err != nil {
		return err
	}
	due := now.Add(3 * time.Second)
	scheduler, err := newScheduler(store, server, func(u almanac.User) calendar.Clock {
		return u.Timezone.WallTime(due).Clock // each by the clock where they live
	})
	if err != nil {
		return err
	}
	for i, p := range people {
		zone, err := calendar.LoadTimezone(p.Timezone)
		if err != nil {
			return err
		}
		birthday := zone.WallTime(due).Date
		birthday.Year = 1984 + 4*i // a leap year has every day
		p.DateOfBirth = birthday.String()
		if _, err := scheduler.CreateUser(ctx, p); err != nil {
			return err
		}
	}
	return scheduler.Run(ctx)
}
