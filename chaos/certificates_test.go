package chaos_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/chaos"
)

// authority signs certificates.
type authority struct {
	key  *ecdsa.PrivateKey
	root *x509.Certificate
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "chaos"}, DNSNames: []string{"localhost"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	root, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return authority{key, root}
}

// file is where the authority's own certificate is to be found.
func (a authority) file(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "root.pem")
	require.NoError(t, os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.root.Raw}), 0o600))
	return name
}

// issue returns a certificate for a name until some time from now.
func (a authority) issue(t *testing.T, name string, lasts time.Duration) tls.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: []string{name}, NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(lasts),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.root, a.key.Public(), a.key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.key}
}

// secure serves what handler answers over TLS, by the name of localhost.
func secure(t *testing.T, handler http.Handler, config *tls.Config) (url string) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.TLS, server.EnableHTTP2 = config, config.MaxVersion == 0
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
}

// Receivers with a certificate of another name, an expired one, or one without a known issuer,
// and a receiver that speaks an old version: nothing is sent to them. A receiver with a valid
// certificate gets everything, by HTTP/2.
func TestBrokenTLS(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		r := calm(t, seed)
		ours := newAuthority(t)
		var told atomic.Int64
		stranger := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { told.Add(1) })
		with := func(a authority, name string, lasts time.Duration, newest uint16) string {
			certificate := a.issue(t, name, lasts)
			return secure(t, stranger, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS10, MaxVersion: newest})
		}
		good := &tls.Config{Certificates: []tls.Certificate{ours.issue(t, "localhost", time.Hour)}}
		const no = "webhook: no answer: "
		faces := map[string]face{
			"good":        {url: secure(t, r.Receiver, good), status: "COMPLETED"},
			"expired":     {url: with(ours, "localhost", -time.Hour, 0), status: "FAILED", retries: attempts, reason: no + "tls: failed to verify certificate: x509: certificate has expired"},
			"not-theirs":  {url: with(ours, "receiver.example", time.Hour, 0), status: "FAILED", retries: attempts, reason: no + "tls: failed to verify certificate: x509: certificate is valid for receiver.example, not localhost"},
			"of-nobodys":  {url: with(newAuthority(t), "localhost", time.Hour, 0), status: "FAILED", retries: attempts, reason: no + "tls: failed to verify certificate: x509: certificate signed by unknown authority"},
			"tls-1.1":     {url: with(ours, "localhost", time.Hour, tls.VersionTLS11), status: "FAILED", retries: attempts, reason: no + "remote error: tls: protocol version"},
			"no-tls":      {url: strings.Replace(r.Receiver.URL(), "http:", "https:", 1), status: "FAILED", retries: attempts, reason: no + "tls: first record does not look like a TLS handshake"},
			"self-signed": {url: secure(t, stranger, &tls.Config{Certificates: []tls.Certificate{selfSigned(t)}}), status: "FAILED", retries: attempts, reason: no + "tls: failed to verify certificate: x509: certificate signed by unknown authority"},
		}
		confront(r, faces, unhurried, func(o *chaos.Orders) { o.Roots = ours.file(t) })
		require.Zero(t, told.Load(), "nothing is sent to a stranger")
	})
}

// selfSigned is a certificate that vouches for itself.
func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	a := newAuthority(t)
	return tls.Certificate{Certificate: [][]byte{a.root.Raw}, PrivateKey: a.key}
}

// A receiver's name resolves to a private address: its events are FAILED, and no connection
// is opened. The workers have no leave for private addresses, so there is no receiver
// to deliver anything to.
func TestAReceiverOnAPrivateAddress(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		r := calm(t, seed)
		target, contacted := elsewhere(t)
		to, err := netip.ParseAddrPort(strings.TrimPrefix(target, "http://"))
		require.NoError(t, err)
		r.CreateUsers(people, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 2})
		r.Work("one", unhurried, func(o *chaos.Orders) {
			o.Public, o.Receiver = to.Port(), fmt.Sprintf("https://localhost:%d", to.Port())
		})
		r.Drained(60 * time.Second)
		var refused int
		require.NoError(t, r.Pool().QueryRow(t.Context(), `SELECT count(*) FROM almanac.events
			WHERE status = 'FAILED' AND retry_count = 1 AND failure_reason LIKE 'webhook: no answer: dial tcp %: webhook: prohibited address: %'`).Scan(&refused))
		r.Count("refused", refused)
		require.Equal(t, r.Check("refused").Expected, refused)
		require.Zero(t, contacted.Load())
	})
}
