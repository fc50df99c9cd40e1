package main

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificate is that of the files, as they were when they last fitted together.
type certificate struct {
	certFile, keyFile string
	log               *slog.Logger

	mu     sync.Mutex // guards what is below; files are read under it
	pair   *tls.Certificate
	looked time.Time
	seen   [2]stamp // of the files that were read last
}

// stamp tells whether a file has changed.
type stamp struct {
	modified time.Time
	size     int64
}

// lookAgain is how long a certificate is used before its files are looked at again.
const lookAgain = time.Second

// certificate reads the files; nil without TLS.
func (f listenFlags) certificate(log *slog.Logger) (*certificate, error) {
	if f.TLSCert == "" {
		return nil, nil
	}
	c := &certificate{certFile: f.TLSCert, keyFile: f.TLSKey, log: log}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c, c.read()
}

// config serves the certificate of the moment.
func (c *certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			if time.Since(c.looked) >= lookAgain && c.stamps() != c.seen {
				c.tell(c.read())
			}
			return c.pair, nil
		},
	}
}

// reload reads the files, whether they seem to have changed or not.
func (c *certificate) reload() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tell(c.read())
}

func (c *certificate) tell(err error) {
	if err != nil {
		c.log.Error("the certificate could not be read again; the one before it stays", "error", err)
		return
	}
	c.log.Info("the certificate was read again", "file", c.certFile)
}

// read takes the files in if they fit together. Files that do not are not read again until they
// change. c.mu is held.
func (c *certificate) read() error {
	c.looked, c.seen = time.Now(), c.stamps()
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("--tls-cert %s, --tls-key %s: %w", c.certFile, c.keyFile, err)
	}
	c.pair = &pair
	return nil
}

func (c *certificate) stamps() (s [2]stamp) {
	for i, name := range []string{c.certFile, c.keyFile} {
		if info, err := os.Stat(name); err == nil {
			s[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	return s
}
