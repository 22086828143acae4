package almanacmail_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	almanacmail "github.com/almanac-go/almanac/contrib/mail"
	"github.com/almanac-go/almanac/ops"
)

// The tests of this file are the rows of the README's table.

func TestAcceptedToTheFinalDotIsCompletedEvenIfResetFails(t *testing.T) {
	t.Parallel()
	s := serve(t, func(s *server) {
		s.resets = func(c *smtp.Conn, mails int) {
			if mails > 0 { // the reply is sent before
				_ = c.Conn().Close()
			}
		}
	})
	d, seen := deliverer(t, s.settings(t))
	is := newStage(t, d).attempt()
	require.Equal(t, almanac.Completed, is.Status, is.LastError)
	require.Equal(t, []almanacmail.Verdict{almanacmail.Accepted}, seen.verdicts())
	require.Len(t, s.received(), 1)
}

func TestSessionFailuresArePostponedAndReported(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	unsafe := smtp.EnhancedCode{5, 7, 0}
	tests := map[string]func(t *testing.T) almanacmail.Settings{
		"connecting": func(t *testing.T) almanacmail.Settings {
			settings := serve(t, nil).settings(t)
			settings.Server.Address = closed.Addr().String()
			return settings
		},
		"a banner of 5yz": func(t *testing.T) almanacmail.Settings {
			settings := serve(t, nil).settings(t)
			settings.Server.Address = banner(t, "554 5.7.1 not you\r\n")
			return settings
		},
		"no STARTTLS": func(t *testing.T) almanacmail.Settings {
			settings := serve(t, nil).settings(t)
			settings.Server.Encryption = almanacmail.StartTLS
			return settings
		},
		"a certificate that is not trusted": func(t *testing.T) almanacmail.Settings {
			settings := serve(t, func(s *server) { s.TLSConfig, _ = certificate(t) }).settings(t)
			settings.Server.Encryption = almanacmail.StartTLS
			return settings
		},
		"EHLO of 5yz": func(t *testing.T) almanacmail.Settings {
			return serve(t, func(s *server) { s.hello = always(550, unsafe) }).settings(t)
		},
		"a wrong password": func(t *testing.T) almanacmail.Settings {
			settings := serve(t, func(s *server) { s.password = "right" }).settings(t)
			settings.Server.Username, settings.Server.Password = "almanac", "wrong"
			return settings
		},
	}
	for name, settings := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, seen := deliverer(t, settings(t))
			require.NoError(t, d.Health())
			stage := newStage(t, d)
			is := stage.attempt()
			require.GreaterOrEqual(t, stage.wait(is), time.Minute)
			require.Zero(t, is.RetryCount, "no attempt is counted")
			require.Equal(t, []almanacmail.Verdict{almanacmail.Unavailable}, seen.verdicts())
			require.Error(t, d.Health())
			var failure *almanacmail.DeliveryError
			require.ErrorAs(t, d.Health(), &failure)
			require.Equal(t, almanacmail.StageSession, failure.Stage)
		})
	}
}

// banner is a server that greets with a line and hangs up.
func banner(t *testing.T, line string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = fmt.Fprint(c, line)
			_ = c.Close()
		}
	}()
	return l.Addr().String()
}

func TestAWrongPasswordNeverUsesUpABirthday(t *testing.T) {
	t.Parallel()
	s := serve(t, func(s *server) { s.password = "right" })
	settings := s.settings(t)
	settings.Server.Username, settings.Server.Password = "almanac", "wrong"
	wrong, _ := deliverer(t, settings)
	settings.Server.Password = "right"
	right, _ := deliverer(t, settings)
	repaired := false
	stage := newStage(t, almanac.DelivererFunc(func(ctx context.Context, d almanac.Delivery) error {
		if repaired {
			return right.Deliver(ctx, d)
		}
		return wrong.Deliver(ctx, d)
	}))
	began := stage.now
	for stage.now.Sub(began) < 7*24*time.Hour { // the handler has three attempts in six minutes
		is := stage.attempt()
		require.LessOrEqual(t, stage.wait(is), 36*time.Minute)
		require.Zero(t, is.RetryCount)
	}
	repaired = true
	require.Equal(t, almanac.Completed, stage.attempt().Status)
	require.Len(t, s.received(), 1)
}

func TestALoginThatIsMissedOnlyLaterIsOfTheSenderToo(t *testing.T) {
	t.Parallel()
	s := serve(t, func(s *server) { s.to = always(530, smtp.EnhancedCode{5, 7, 0}) })
	d, seen := deliverer(t, s.settings(t))
	is := newStage(t, d).attempt()
	require.Equal(t, almanac.Pending, is.Status)
	require.Equal(t, []almanacmail.Verdict{almanacmail.Unavailable}, seen.verdicts())
}

func TestMailFrom5yzConcernsTheSender(t *testing.T) {
	t.Parallel()
	s := serve(t, func(s *server) { s.from = first(550, smtp.EnhancedCode{5, 7, 1}) })
	d, seen := deliverer(t, s.settings(t))
	stage := newStage(t, d)
	is := stage.attempt()
	require.GreaterOrEqual(t, stage.wait(is), time.Minute)
	require.Zero(t, is.RetryCount)
	require.Error(t, d.Health())
	require.Equal(t, almanac.Completed, stage.attempt().Status)
	require.NoError(t, d.Health(), "it takes mail again")
	require.Equal(t, []almanacmail.Verdict{almanacmail.SenderRefused, almanacmail.Accepted}, seen.verdicts())
}

// A server may refuse the sender only after the command that names the recipient.
func TestABadSenderAtRcptConcernsTheSender(t *testing.T) {
	t.Parallel()
	for _, status := range []smtp.EnhancedCode{{5, 1, 7}, {5, 1, 8}} {
		s := serve(t, func(s *server) { s.to = always(550, status) })
		d, seen := deliverer(t, s.settings(t))
		require.Equal(t, almanac.Pending, newStage(t, d).attempt().Status)
		require.Equal(t, []almanacmail.Verdict{almanacmail.SenderRefused}, seen.verdicts())
	}
}

func TestMailFromTooLargeIsPermanent(t *testing.T) {
	t.Parallel()
	for _, reply := range []error{refusal(552, smtp.EnhancedCode{5, 0, 0}), refusal(550, smtp.EnhancedCode{5, 3, 4})} {
		s := serve(t, func(s *server) { s.from = func(int) error { return reply } })
		d, seen := deliverer(t, s.settings(t))
		require.Equal(t, almanac.Failed, newStage(t, d).attempt().Status)
		require.Equal(t, []almanacmail.Verdict{almanacmail.TooLarge}, seen.verdicts())
		require.NoError(t, d.Health())
	}
}

func TestRcptOrData5yzIsPermanent(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*server){
		"RCPT TO": func(s *server) { s.to = always(552, smtp.EnhancedCode{5, 0, 0}) }, // a full mailbox
		"DATA":    func(s *server) { s.data = always(554, smtp.EnhancedCode{5, 6, 0}) },
	}
	for stage, change := range tests {
		t.Run(stage, func(t *testing.T) {
			t.Parallel()
			d, seen := deliverer(t, serve(t, change).settings(t))
			is := newStage(t, d).attempt()
			require.Equal(t, almanac.Failed, is.Status)
			require.Contains(t, is.FailureReason, "mail: "+stage+": 55")
			require.NotContains(t, is.FailureReason, "ada", "what is stored has no address")
			require.Equal(t, []almanacmail.Verdict{almanacmail.Refused}, seen.verdicts())
			require.NoError(t, d.Health())
		})
	}
}

// A recipient's refusal shows that the server takes mails from the sender.
func TestHealthRecoversWithARefusalToo(t *testing.T) {
	t.Parallel()
	s := serve(t, func(s *server) {
		s.from, s.to = first(550, smtp.EnhancedCode{5, 7, 1}), always(550, smtp.EnhancedCode{5, 1, 1})
	})
	d, _ := deliverer(t, s.settings(t))
	require.Error(t, d.Deliver(t.Context(), greeting(ada())))
	require.Error(t, d.Health())
	require.Error(t, d.Deliver(t.Context(), greeting(ada())))
	require.NoError(t, d.Health())
}

func TestABadAddressIsReportedToTheHost(t *testing.T) {
	t.Parallel()
	s := serve(t, func(s *server) { s.to = always(550, smtp.EnhancedCode{5, 1, 1}) })
	d, seen := deliverer(t, s.settings(t))
	is := newStage(t, d).attempt()
	require.Equal(t, almanac.Failed, is.Status)
	require.Equal(t, "mail: RCPT TO: 550 5.1.1", is.FailureReason)
	require.Len(t, seen.all, 1)
	require.Equal(t, almanacmail.AddressRefused, seen.all[0].Verdict)
	require.Equal(t, "ada@example.org", seen.all[0].Delivery.User.Email)
	var failure *almanacmail.DeliveryError
	require.ErrorAs(t, seen.all[0].Err, &failure)
	require.Equal(t, "5.1.1", failure.Enhanced)
	require.ErrorContains(t, failure.Unwrap(), "is not wanted", "the cause has the server's text")
}

func TestPolicyAfterMailIsPermanentAndAlarms(t *testing.T) {
	t.Parallel()
	s := serve(t, func(s *server) { s.to = first(554, smtp.EnhancedCode{5, 7, 1}) })
	settings := s.settings(t)
	var log strings.Builder
	settings.Log = slog.New(slog.NewTextHandler(&log, nil))
	d, seen := deliverer(t, settings)
	stage := newStage(t, d)
	is := stage.attempt()
	require.Equal(t, almanac.Failed, is.Status)
	require.Equal(t, []almanacmail.Verdict{almanacmail.PolicyRefused}, seen.verdicts())
	require.Contains(t, log.String(), "level=ERROR msg=\"Mail refused by policy\"")

	requeued, err := ops.Operate(t.Context(), stage.scheduler, ops.Requeue, almanac.InStatus(almanac.Failed), ops.OperateOptions{})
	require.NoError(t, err)
	require.Len(t, requeued.Events, 1)
}

func TestGreylistingIsTriedAgainNoSoonerThanAMinute(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*server){
		"RCPT TO": func(s *server) { s.to = first(450, smtp.EnhancedCode{4, 2, 0}) },
		"DATA":    func(s *server) { s.data = first(451, smtp.EnhancedCode{4, 7, 1}) },
		"421":     func(s *server) { s.to = first(421, smtp.EnhancedCode{4, 3, 2}) },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, change)
			d, seen := deliverer(t, s.settings(t))
			stage := newStage(t, d)
			is := stage.attempt()
			require.GreaterOrEqual(t, stage.wait(is), time.Minute, "the handler's policy says ten seconds")
			require.Equal(t, 1, is.RetryCount)
			require.Equal(t, almanac.Completed, stage.attempt().Status)
			require.Equal(t, []almanacmail.Verdict{almanacmail.Deferred, almanacmail.Accepted}, seen.verdicts())
			require.Len(t, s.received(), 1)
		})
	}
}

func TestLostAfterTheFinalDotIsTriedAgainWithTheSameMail(t *testing.T) {
	t.Parallel()
	s := serve(t, func(s *server) {
		s.data = func(n int) error {
			if n == 1 {
				return errHangUp
			}
			return nil
		}
	})
	d, seen := deliverer(t, s.settings(t))
	stage := newStage(t, d)
	is := stage.attempt()
	require.GreaterOrEqual(t, stage.wait(is), time.Minute)
	require.Equal(t, 1, is.RetryCount)
	require.Equal(t, almanac.Completed, stage.attempt().Status)
	require.Equal(t, []almanacmail.Verdict{almanacmail.Unconfirmed, almanacmail.Accepted}, seen.verdicts())
	mails := s.received()
	require.Len(t, mails, 2)
	require.Equal(t, mails[0], mails[1], "byte by byte")
	require.Equal(t, "<"+stage.event.IdempotencyKey.String()+"@example.com>", mails[0].header(t).Get("Message-Id"))
}

func TestADeadlineAfterTheFinalDotIsTransient(t *testing.T) {
	t.Parallel()
	slow := make(chan struct{})
	s := serve(t, func(s *server) { s.slow = slow })
	t.Cleanup(func() { close(slow) })
	d, seen := deliverer(t, s.settings(t))
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		for len(s.received()) == 0 { // until the server has the mail
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Millisecond):
			}
		}
		stop()
	}()
	err := d.Deliver(ctx, greeting(ada()))
	require.Error(t, err)
	require.NotErrorIs(t, err, almanac.ErrPermanent)
	require.NotErrorIs(t, err, almanac.ErrSnoozed)
	require.Equal(t, []almanacmail.Verdict{almanacmail.Unconfirmed}, seen.verdicts())
}

func TestAnUnparsableAddressIsPermanentAndNothingIsSent(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"ada", "ada@", "Ada <ada@example.org>", "ada@example.org\r\nDATA", "ada@example.org, ben@example.org", "<ada@example.org>"} {
		s := serve(t, nil)
		settings := s.settings(t)
		settings.Address = func(context.Context, almanac.Delivery) (string, error) { return address, nil }
		d, seen := deliverer(t, settings)
		is := newStage(t, d).attempt()
		require.Equal(t, almanac.Failed, is.Status, address)
		require.Equal(t, []almanacmail.Verdict{almanacmail.AddressRefused}, seen.verdicts())
		require.Zero(t, s.called("hello"))
	}
}

func TestNoAddressAnyMoreIsNotOwed(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	d, seen := deliverer(t, s.settings(t))
	is := newStage(t, d, almanactest.WithEmail("")).attempt()
	require.Equal(t, almanac.Cancelled, is.Status)
	require.Contains(t, is.FailureReason, "no e-mail address")
	require.Equal(t, []almanacmail.Verdict{almanacmail.NoAddress}, seen.verdicts())
	require.Zero(t, s.called("hello"))
}

// mailed is the handler of the README that plans nothing for users without an address.
type mailed struct{ almanac.Birthday }

func (m mailed) Next(u almanac.User, after time.Time) (calendar.Occurrence, error) {
	if u.Email == "" {
		return calendar.Occurrence{}, calendar.ErrNoOccurrence
	}
	return m.Birthday.Next(u, after)
}

func TestAUserWithoutAnAddressIsNotPlanned(t *testing.T) {
	t.Parallel()
	registry, err := almanac.NewRegistry(mailed{almanac.Birthday{Via: almanacmail.Channel, Execution: almanacmail.Execution()}})
	require.NoError(t, err)
	scheduler, err := almanac.NewScheduler(almanactest.NewRepository(nil), registry)
	require.NoError(t, err)
	profile := almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Europe/London"}
	created, err := scheduler.CreateUser(t.Context(), profile)
	require.NoError(t, err)
	require.Empty(t, created.Events)
	address := "ada@example.org"
	edited, err := scheduler.UpdateUser(t.Context(), created.User.ID, almanac.ProfileChange{Email: &address})
	require.NoError(t, err)
	require.Len(t, edited.Added, 1)
}

func TestTheAddressHookEndsOrPostponesADelivery(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	for want, answer := range map[almanac.Status]error{
		almanac.Cancelled: almanac.NotOwed("the address bounced"),
		almanac.Failed:    almanac.Permanent(errors.New("the list of addresses says no")),
		almanac.Pending:   errors.New("the list of addresses cannot be read"),
	} {
		settings := s.settings(t)
		settings.Address = func(context.Context, almanac.Delivery) (string, error) { return "", answer }
		d, seen := deliverer(t, settings)
		require.Equal(t, want, newStage(t, d).attempt().Status)
		require.Equal(t, []almanacmail.Verdict{almanacmail.NoAddress}, seen.verdicts())
	}
	require.Zero(t, s.called("hello"))
}

// A template that fails is the sender's fault.
func TestAMailThatCannotBeComposedIsPostponed(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	settings := s.settings(t)
	var log strings.Builder
	settings.Log = slog.New(slog.NewTextHandler(&log, nil))
	d, seen := deliverer(t, settings)
	stage := newStage(t, d)
	stage.event.Payload = nil
	greet := greeting(ada())
	greet.Event.Payload = []byte(`{}`)
	err := d.Deliver(t.Context(), greet)
	require.ErrorIs(t, err, almanac.ErrSnoozed)
	require.ErrorContains(t, err, "message")
	require.Equal(t, []almanacmail.Verdict{almanacmail.NotComposed}, seen.verdicts())
	require.Contains(t, log.String(), "level=ERROR msg=\"Mail cannot be composed\"")
	require.Zero(t, s.called("hello"))
}
