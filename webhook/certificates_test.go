package webhook_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
)

// certified is a time at which the certificate of package httptest is valid. The clock of a
// synctest bubble starts long before that.
func certified() time.Time { return time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC) }

// rootsOf trusts a server's own certificate.
func rootsOf(server *httptest.Server) *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return roots
}

// authority signs certificates.
type authority struct {
	key   *ecdsa.PrivateKey
	root  *x509.Certificate
	roots *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{roots: x509.NewCertPool()}
	var err error
	a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	require.NoError(t, err)
	a.root, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	a.roots.AddCert(a.root)
	return a
}

// issue returns a certificate for a name until some time from now.
func (a *authority) issue(t *testing.T, name string, lasts time.Duration) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: []string{name}, NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(lasts),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.root, key.Public(), a.key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// secure starts a receiver with a certificate and versions of TLS.
func secure(t *testing.T, config *tls.Config) *receiver {
	t.Helper()
	r := new(receiver)
	r.Server = httptest.NewUnstartedServer(r.answering(status(http.StatusOK)))
	r.TLS, r.Config.ErrorLog = config, log.New(io.Discard, "", 0)
	r.StartTLS()
	t.Cleanup(r.Close)
	return r
}

func TestDeliverAcceptsOnlyCertificatesOfTheURLsHost(t *testing.T) {
	t.Parallel()
	ours, others := newAuthority(t), newAuthority(t)
	config := func(a *authority, name string, lasts time.Duration, newest uint16) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{a.issue(t, name, lasts)}, MinVersion: tls.VersionTLS10, MaxVersion: newest}
	}
	tests := map[string]struct {
		config *tls.Config
		want   any // the expected error type; nil means delivered
		says   string
	}{
		"its own certificate":             {config(ours, "localhost", time.Hour, 0), nil, ""},
		"the oldest version that is good": {config(ours, "localhost", time.Hour, tls.VersionTLS12), nil, ""},
		"a version that is not":           {config(ours, "localhost", time.Hour, tls.VersionTLS11), nil, "protocol version"},
		"a certificate that ran out":      {config(ours, "localhost", -time.Hour, 0), new(x509.CertificateInvalidError), "expired"},
		"a certificate of another host":   {config(ours, "receiver.example", time.Hour, 0), new(x509.HostnameError), "localhost"},
		"the certificate of a subdomain":  {config(ours, "*.localhost", time.Hour, 0), new(x509.HostnameError), "localhost"},
		"an unknown authority":            {config(others, "localhost", time.Hour, 0), new(x509.UnknownAuthorityError), "unknown authority"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := secure(t, tt.config)
			d := deliverer(t, strings.Replace(r.URL, "127.0.0.1", "localhost", 1))
			d.Transport().TLSClientConfig.RootCAs = ours.roots

			err := d.Deliver(t.Context(), greeting(time.Now()))

			if tt.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.says)
			require.NotErrorIs(t, err, almanac.ErrPermanent, "certificates are renewed")
			require.Empty(t, r.received(), "nothing is sent to a stranger")
			if tt.want != nil {
				require.ErrorAs(t, err, tt.want)
			}
		})
	}
}
