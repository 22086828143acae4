package chaos_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/chaos"
)

// A worker that sends mails is killed at each point between the last byte of a mail and the
// end of the settlement, and another takes over: mails come again, and each is the same.
func TestMailerKilledAtEachPoint(t *testing.T) {
	t.Parallel()
	for _, point := range []chaos.Point{chaos.BeforeSend, chaos.MidSend, chaos.AfterSend, chaos.BeforeSettle, chaos.MidSettle} {
		t.Run(string(point), func(t *testing.T) {
			row(t, func(t *testing.T, seed uint64) {
				r := calm(t, seed)
				address, stop, err := r.Receiver.ServeMail()
				require.NoError(t, err)
				t.Cleanup(stop)
				figures := killMailer(r, point, address, func(context.Context) error { return nil })
				if point == chaos.AfterSend || point == chaos.BeforeSettle {
					require.Positive(t, figures.Repeats, "what was accepted comes again")
				}
			})
		})
	}
}

// The same behind a real mail server, which has accepted the mails.
func TestMailerKilledBehindPostfix(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		r := calm(t, seed)
		behind, stop, err := r.Receiver.ServeMail()
		require.NoError(t, err)
		t.Cleanup(stop)
		ctx, done := context.WithTimeout(t.Context(), 30*time.Second)
		defer done()
		p, err := chaos.NewPostfix(ctx, map[string]string{
			"mynetworks": "127.0.0.0/8", "smtpd_relay_restrictions": "permit_mynetworks, reject_unauth_destination",
			"virtual_mailbox_domains": "", "default_transport": "smtp:" + bracketed(behind),
		})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p.Close()) })
		figures := killMailer(r, chaos.AfterSend, p.Address, p.Drained)
		require.Positive(t, figures.Repeats, "what was accepted comes again")
	})
}

// bracketed is an address as Postfix wants it, to look up no MX records.
func bracketed(address string) string {
	host, port, _ := strings.Cut(address, ":")
	return "[" + host + "]:" + port
}

// killMailer kills a worker that sends mails to a server at a point, lets another finish, waits
// until the server is drained, too, and checks every invariant.
func killMailer(r *chaos.Run, point chaos.Point, server string, drained func(context.Context) error, change ...func(*chaos.Orders)) chaos.Figures {
	r.Helper()
	keep, answer := hold(r)
	defer answer()
	r.CreateUsers(10, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 6})
	keep(point == chaos.MidSend)
	victim := r.Work("victim", append(change, func(o *chaos.Orders) {
		o.Mail, o.Patience = server, 20*time.Second
		if point != chaos.MidSend {
			o.StopAt, o.StopAfter = point, 1+r.Random.IntN(times(point))
		}
		if o.Batch > 0 {
			o.StopAfter = min(o.StopAfter, 3) // of some calls
		}
	})...)
	if point == chaos.MidSend { // the receiver has the whole mail, and does not reply
		for ctx := r.Within(20 * time.Second); r.Receiver.Arrived() == 0; {
			require.NoError(r, ctx.Err(), "nothing arrives")
			time.Sleep(10 * time.Millisecond)
		}
	} else {
		arrive(r, victim, point)
	}
	keep(false)
	survivor := r.Work("survivor", append(change, func(o *chaos.Orders) { o.Mail = server })...)
	arrive(r, survivor, chaos.Ready)
	death := r.Kill(victim)
	answer()

	r.Drained(40 * time.Second)
	require.NoError(r, drained(r.Within(20*time.Second)))
	r.Recovered(death, 0)
	return r.Check("killed", "held", "recovered")
}
