package kubemq_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/kubemq-io/kubemq-go/v2"
)

// identity is a certificate with its key, as PEM and as files.
type identity struct {
	cert, key         []byte
	certFile, keyFile string
	parsed            *x509.Certificate
	private           *ecdsa.PrivateKey
}

// newIdentity makes a certificate for name, signed by ca, by itself if that is
// nil.
func newIdentity(tb testing.TB, name string, ca *identity) *identity {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(time.Now().UnixNano()),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		DNSNames:              []string{name},
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  ca == nil,
	}
	if ip := net.ParseIP(name); ip != nil {
		template.IPAddresses = []net.IP{ip}
	}
	parent, signer := template, key
	if ca != nil {
		parent, signer = ca.parsed, ca.private
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		tb.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	id := &identity{
		cert:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:     pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}),
		private: key,
	}
	if id.parsed, err = x509.ParseCertificate(der); err != nil {
		tb.Fatal(err)
	}
	dir := tb.TempDir()
	id.certFile, id.keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, content := range map[string][]byte{id.certFile: id.cert, id.keyFile: id.key} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	return id
}

// secureBroker returns a broker that shows server, and wants a certificate of
// clients if they is not nil.
func secureBroker(tb testing.TB, server, they *identity) *broker {
	tb.Helper()
	pair, err := tls.X509KeyPair(server.cert, server.key)
	if err != nil {
		tb.Fatal(err)
	}
	cfg := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if they != nil {
		cfg.ClientAuth, cfg.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		cfg.ClientCAs.AddCert(they.parsed)
	}
	return newBroker(tb, grpc.Creds(credentials.NewTLS(cfg)))
}

func TestTLS(t *testing.T) {
	t.Parallel()
	ca := newIdentity(t, "test authority", nil)
	byAddress := secureBroker(t, newIdentity(t, "127.0.0.1", ca), nil)
	byName := secureBroker(t, newIdentity(t, "broker.test", ca), nil)
	mutual := secureBroker(t, newIdentity(t, "127.0.0.1", ca), ca)
	me := newIdentity(t, "me", ca)
	stranger := newIdentity(t, "stranger", nil)

	for name, tc := range map[string]struct {
		broker *broker
		opts   []kubemq.Option
		ok     bool
	}{
		"plain to tls":        {byAddress, nil, false},
		"unknown authority":   {byAddress, []kubemq.Option{kubemq.WithTLS("")}, false},
		"wrong authority":     {byAddress, []kubemq.Option{kubemq.WithTLS(stranger.certFile)}, false},
		"file":                {byAddress, []kubemq.Option{kubemq.WithTLS(ca.certFile)}, true},
		"pem":                 {byAddress, []kubemq.Option{kubemq.WithTLSFromPEM(ca.cert)}, true},
		"config":              {byAddress, []kubemq.Option{kubemq.WithTLSConfig(&kubemq.TLSConfig{CACertPEM: ca.cert, MinVersion: tls.VersionTLS13})}, true},
		"not checked":         {byAddress, []kubemq.Option{kubemq.WithInsecureSkipVerify()}, true},
		"other name":          {byName, []kubemq.Option{kubemq.WithTLS(ca.certFile)}, false},
		"name overridden":     {byName, []kubemq.Option{kubemq.WithTLS(ca.certFile), kubemq.WithServerNameOverride("broker.test")}, true},
		"name in config":      {byName, []kubemq.Option{kubemq.WithTLSConfig(&kubemq.TLSConfig{CACertPEM: ca.cert, ServerName: "broker.test"})}, true},
		"credentials":         {byName, []kubemq.Option{kubemq.WithCredentials(ca.certFile, "broker.test")}, true},
		"certificate":         {byName, []kubemq.Option{kubemq.WithCertificate(string(ca.cert), "broker.test")}, true},
		"mutual without":      {mutual, []kubemq.Option{kubemq.WithTLS(ca.certFile)}, false},
		"mutual":              {mutual, []kubemq.Option{kubemq.WithMTLS(me.certFile, me.keyFile, ca.certFile)}, true},
		"mutual pem":          {mutual, []kubemq.Option{kubemq.WithMTLSFromPEM(me.cert, me.key, ca.cert)}, true},
		"mutual stranger":     {mutual, []kubemq.Option{kubemq.WithMTLS(stranger.certFile, stranger.keyFile, ca.certFile)}, false},
		"key of another":      {mutual, []kubemq.Option{kubemq.WithMTLSFromPEM(me.cert, stranger.key, ca.cert)}, false},
		"no such file":        {byAddress, []kubemq.Option{kubemq.WithTLS("/does/not/exist")}, false},
		"nonsense in the PEM": {byAddress, []kubemq.Option{kubemq.WithTLSFromPEM([]byte("nonsense"))}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wait := 300 * time.Millisecond // enough for a loopback that refuses
			if tc.ok {
				wait = 10 * time.Second
			}
			opts := append(tc.opts, fast(), kubemq.WithCheckConnection(true), kubemq.WithConnectionTimeout(wait))
			c, err := kubemq.NewClientFromAddress(tc.broker.addr, opts...)
			if (err == nil) != tc.ok {
				t.Fatalf("got %v, want success %t", err, tc.ok)
			}
			if c != nil {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	_, err := kubemq.NewClientFromAddress(byAddress.addr, kubemq.WithTLS("/does/not/exist"))
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: got %v", err)
	}
}
