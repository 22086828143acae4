// Package dashboard serves pages about users, events and time zones to people. Job
// dashboards show queues. This one shows the day: who is due where, when a wave of events
// reaches which zone, and why an event is at 03:30.
//
// [New] returns the dashboard as a handler. Everything works without script. With script,
// pages stay up to date by themselves. Nothing is loaded from elsewhere, and nothing is
// inline, so a strict Content-Security-Policy holds.
package dashboard
