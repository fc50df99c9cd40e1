//go:build unix

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/testenv"
)

// newCertificate writes a certificate for this machine, signed by itself, with a name of its own.
func newCertificate(t *testing.T, certFile, keyFile string, serial int64) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for file, data := range map[string][]byte{certFile: certPEM, keyFile: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})} {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certPEM)
	return pool
}

// TestServeTLS serves https by HTTP/1.1 and HTTP/2, nothing below TLS 1.2, and takes over a new
// certificate: when the files change, and on SIGHUP. Files that do not fit change nothing.
func TestServeTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	roots := newCertificate(t, certFile, keyFile, 1)
	r := startReplica(t, "--tls-cert", certFile, "--tls-key", keyFile, "--store", "memory", "--admin-listen", "127.0.0.1:0", "--drain-delay", "0s")
	addr := strings.TrimPrefix(r.url, "https://")
	for _, http2 := range []bool{false, true} {
		r.http.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: http2, DisableKeepAlives: !http2}
		useIt(t, r)
		r.want(200, "GET", r.adminURL+"/metrics", "")
		r.http.CloseIdleConnections()
	}
	r.want(400, "GET", "http://"+addr+"/livez", "")
	if c, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}); err == nil {
		c.Close()
		t.Error("TLS 1.1 is spoken")
	}
	if got := protocol(t, addr, roots); got != "h2" {
		t.Errorf("the protocol is %q, want h2", got)
	}
	serial := func() int64 {
		c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	newCertificate(t, certFile, keyFile, 2)
	testenv.Eventually(t, patience, "the new certificate", func() bool { return serial() == 2 })
	if err := os.WriteFile(keyFile, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.signal(syscall.SIGHUP)
	testenv.Eventually(t, patience, "a word about it", func() bool { return strings.Contains(r.log.String(), "the one before it stays") })
	if got := serial(); got != 2 {
		t.Errorf("the certificate is number %d, want 2", got)
	}
	newCertificate(t, certFile, keyFile, 3)
	r.signal(syscall.SIGHUP)
	testenv.Eventually(t, patience, "the certificate after SIGHUP", func() bool { return serial() == 3 })
	r.stop()
}

func protocol(t *testing.T, addr string, roots *x509.CertPool) string {
	t.Helper()
	c, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: roots, NextProtos: []string{"h2", "http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.ConnectionState().NegotiatedProtocol
}
