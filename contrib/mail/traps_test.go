package almanacmail_test

import (
	"context"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	almanacmail "github.com/almanac-go/almanac/contrib/mail"
)

// The tests of this file are about what a plain use of go-mail and of SMTP gets wrong.

const patient = 10 * time.Second

func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, patient, time.Millisecond)
}

// A client of go-mail sends one mail at a time.
func TestMailsAreSentSideBySide(t *testing.T) {
	t.Parallel()
	slow := make(chan struct{})
	s := serve(t, func(s *server) { s.slow = slow })
	settings := s.settings(t)
	settings.Server.Connections = 3
	d, _ := deliverer(t, settings)
	var all sync.WaitGroup
	for range 7 {
		all.Go(func() {
			if err := d.Deliver(t.Context(), greeting(ada())); err != nil {
				t.Error(err)
			}
		})
	}
	eventually(t, func() bool { return len(s.received()) == 3 })
	require.Equal(t, 3, s.called("data"), "no more than there are connections")
	close(slow)
	all.Wait()
	require.Len(t, s.received(), 7)
	require.Equal(t, 3, s.called("hello"), "connections are used again")
}

// go-mail takes a context for dialling only.
func TestADeliveryEndsWithItsContext(t *testing.T) {
	t.Parallel()
	stuck := make(chan struct{})
	t.Cleanup(func() { close(stuck) })
	hang := func(int) error { <-stuck; return nil }
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	tests := map[string]func(*server){
		"banner":    func(s *server) { s.address = silent.Addr().String() },
		"EHLO":      func(s *server) { s.hello = hang },
		"MAIL FROM": func(s *server) { s.from = hang },
		"RCPT TO":   func(s *server) { s.to = hang },
		"DATA":      func(s *server) { s.data = hang },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, seen := deliverer(t, serve(t, change).settings(t))
			ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer stop()
			began := time.Now()
			err := d.Deliver(ctx, greeting(ada()))
			require.Error(t, err)
			require.NotErrorIs(t, err, almanac.ErrPermanent)
			require.Less(t, time.Since(began), 5*time.Second)
			require.Contains(t, []almanacmail.Verdict{almanacmail.Unavailable, almanacmail.Unconfirmed}, seen.verdicts()[0])
		})
	}
}

// go-mail takes an error without a leading 4 for a permanent one.
func TestALostConnectionIsNotPermanent(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*server, func(int) error){
		"MAIL FROM": func(s *server, f func(int) error) { s.from = f },
		"RCPT TO":   func(s *server, f func(int) error) { s.to = f },
		"DATA":      func(s *server, f func(int) error) { s.data = f },
	}
	for name, set := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(s *server) {
				set(s, func(n int) error {
					if n == 1 {
						return errCut
					}
					return nil
				})
			})
			d, seen := deliverer(t, s.settings(t))
			stage := newStage(t, d)
			is := stage.attempt()
			require.Equal(t, almanac.Pending, is.Status, is.FailureReason)
			require.Equal(t, almanac.Completed, stage.attempt().Status)
			require.Equal(t, []almanacmail.Verdict{almanacmail.Unconfirmed, almanacmail.Accepted}, seen.verdicts())
			require.Len(t, s.received(), 1)
		})
	}
}

// go-mail leaves a connection open whose session cannot be opened.
func TestNoConnectionStaysOpenAfterAFailure(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // the collector closes lost connections, too
	s := serve(t, nil)
	settings := s.settings(t)
	settings.Server.Encryption = almanacmail.StartTLS // which the server does not offer
	d, _ := deliverer(t, settings)
	require.Error(t, d.Deliver(t.Context(), greeting(ada())))
	eventually(t, func() bool { return s.called("logout") == 1 })
}

// A refusal before DATA leaves the connection as it was. After DATA, another command could
// complete a part of a mail.
func TestAConnectionIsUsedAgainOnlyInGoodOrder(t *testing.T) {
	t.Parallel()
	s := serve(t, func(s *server) { s.to = first(550, smtp.EnhancedCode{5, 1, 1}) })
	d, _ := deliverer(t, s.settings(t))
	require.Error(t, d.Deliver(t.Context(), greeting(ada())))
	require.NoError(t, d.Deliver(t.Context(), greeting(ada())))
	require.Equal(t, 1, s.called("hello"))

	s = serve(t, func(s *server) { s.data = first(554, smtp.EnhancedCode{5, 6, 0}) })
	d, _ = deliverer(t, s.settings(t))
	require.Error(t, d.Deliver(t.Context(), greeting(ada())))
	require.NoError(t, d.Deliver(t.Context(), greeting(ada())))
	require.Equal(t, 2, s.called("hello"))
}

// A server closes connections that are idle, or that have taken many mails. That costs no
// attempt.
func TestAConnectionThatTheServerClosedIsReplaced(t *testing.T) {
	t.Parallel()
	var open atomic.Pointer[smtp.Conn]
	s := serve(t, func(s *server) { s.resets = func(c *smtp.Conn, _ int) { open.Store(c) } })
	d, _ := deliverer(t, s.settings(t))
	require.NoError(t, d.Deliver(t.Context(), greeting(ada())))
	eventually(t, func() bool { return open.Load() != nil })
	require.NoError(t, open.Load().Conn().Close())
	require.NoError(t, d.Deliver(t.Context(), greeting(ada())))
	require.Equal(t, 2, s.called("hello"))

	s = serve(t, func(s *server) {
		s.from = func(n int) error {
			if n == 2 {
				return refusal(421, smtp.EnhancedCode{4, 7, 0}) // too many mails on a connection
			}
			return nil
		}
	})
	d, seen := deliverer(t, s.settings(t))
	require.NoError(t, d.Deliver(t.Context(), greeting(ada())))
	require.NoError(t, d.Deliver(t.Context(), greeting(ada())))
	require.Equal(t, []almanacmail.Verdict{almanacmail.Accepted, almanacmail.Accepted}, seen.verdicts())
	require.Equal(t, 2, s.called("hello"))
}

// Each mail of a batch has an outcome of its own, and the connection is opened anew only if the server closed it.
func TestABatchIsSentOverOneConnection(t *testing.T) {
	t.Parallel()
	s := serve(t, func(s *server) {
		s.to = func(n int) error {
			if n == 2 {
				return refusal(550, smtp.EnhancedCode{5, 1, 1})
			}
			return nil
		}
		s.from = func(n int) error {
			if n == 4 {
				return refusal(421, smtp.EnhancedCode{4, 7, 0}) // too many mails on a connection
			}
			return nil
		}
	})
	d, seen := deliverer(t, s.settings(t))
	unknown := greeting(ada(almanactest.WithEmail("")))
	errs := d.DeliverBatch(t.Context(), []almanac.Delivery{greeting(ada()), greeting(ada()), unknown, greeting(ada()), greeting(ada())})
	require.Len(t, errs, 5)
	require.NoError(t, errs[0])
	require.ErrorIs(t, errs[1], almanac.ErrPermanent)
	require.Error(t, errs[2])
	require.NoError(t, errs[3])
	require.NoError(t, errs[4])
	require.Equal(t, []almanacmail.Verdict{almanacmail.Accepted, almanacmail.AddressRefused, almanacmail.NoAddress, almanacmail.Accepted, almanacmail.Accepted}, seen.verdicts())
	require.Len(t, s.received(), 3)
	require.Equal(t, 2, s.called("hello"))
}

// A server that is gone costs a batch one attempt to reach it.
func TestABatchTriesOnceToReachAServer(t *testing.T) {
	t.Parallel()
	s := serve(t, func(s *server) { s.hello = always(554, smtp.EnhancedCode{5, 3, 2}) })
	d, _ := deliverer(t, s.settings(t))
	require.Error(t, d.Deliver(t.Context(), greeting(ada())))
	once := s.called("hello")
	for _, err := range d.DeliverBatch(t.Context(), []almanac.Delivery{greeting(ada()), greeting(ada()), greeting(ada())}) {
		require.ErrorIs(t, err, almanac.ErrSnoozed)
	}
	require.Equal(t, 2*once, s.called("hello"))
}

func TestADeliveryWithoutAFreeConnectionIsPostponed(t *testing.T) {
	t.Parallel()
	slow := make(chan struct{})
	s := serve(t, func(s *server) { s.slow = slow })
	settings := s.settings(t)
	settings.Server.Connections = 1
	d, seen := deliverer(t, settings)
	var one sync.WaitGroup
	one.Go(func() {
		if err := d.Deliver(t.Context(), greeting(ada())); err != nil {
			t.Error(err)
		}
	})
	eventually(t, func() bool { return len(s.received()) == 1 })
	defer one.Wait()
	defer close(slow)
	ctx, stop := context.WithTimeout(t.Context(), 4*time.Second) // a busy machine may need a second
	defer stop()
	require.ErrorIs(t, d.Deliver(ctx, greeting(ada())), almanac.ErrSnoozed)
	require.NoError(t, ctx.Err(), "half of its time")
	require.Equal(t, []almanacmail.Verdict{almanacmail.Busy}, seen.verdicts())
	require.NoError(t, d.Health(), "the server is not to blame")
}

func TestCloseIdleConnectionsSaysGoodbye(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	d, _ := deliverer(t, s.settings(t))
	require.NoError(t, d.Deliver(t.Context(), greeting(ada())))
	require.Zero(t, s.called("logout"))
	d.CloseIdleConnections()
	eventually(t, func() bool { return s.called("logout") == 1 })
}

// A server may refuse to pass on a mail that is announced as international.
func TestOnlyInternationalAddressesAreAnnounced(t *testing.T) {
	t.Parallel()
	s := serve(t, func(s *server) { s.EnableSMTPUTF8 = true })
	d, _ := deliverer(t, s.settings(t))
	require.NoError(t, d.Deliver(t.Context(), greeting(ada())))
	require.NoError(t, d.Deliver(t.Context(), greeting(ada(almanactest.WithEmail("zoë@example.org")))))
	require.False(t, s.received()[0].utf8)
	require.True(t, s.received()[1].utf8)
	require.Equal(t, "zoë@example.org", s.received()[1].to)

	s = serve(t, nil)
	d, seen := deliverer(t, s.settings(t))
	require.ErrorIs(t, d.Deliver(t.Context(), greeting(ada(almanactest.WithEmail("zoë@example.org")))), almanac.ErrPermanent)
	require.Equal(t, []almanacmail.Verdict{almanacmail.Refused}, seen.verdicts())
	require.Zero(t, s.called("from"))
}

func TestConnectionsAreEncryptedAndLoggedIn(t *testing.T) {
	t.Parallel()
	config, trusted := certificate(t)
	for _, encryption := range []almanacmail.Encryption{almanacmail.StartTLS, almanacmail.ImplicitTLS} {
		t.Run(string(encryption), func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			if encryption == almanacmail.ImplicitTLS {
				l = encrypted(l, config)
			}
			s := serveOn(t, l, func(s *server) {
				s.TLSConfig, s.AllowInsecureAuth, s.password = config, false, "right"
			})
			settings := s.settings(t)
			settings.Server.Encryption, settings.Server.TLS = encryption, trusting(trusted)
			settings.Server.Username, settings.Server.Password = "almanac", "right"
			d, _ := deliverer(t, settings)
			require.NoError(t, d.Deliver(t.Context(), greeting(ada())))
			require.Len(t, s.received(), 1)
		})
	}
}
