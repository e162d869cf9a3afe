package kubemq

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// WithTLS secures the connection and trusts the authorities in the PEM file
// caCertFile, those of the system if it is empty.
func WithTLS(caCertFile string) Option { return WithTLSConfig(&TLSConfig{CACertFile: caCertFile}) }

// WithTLSFromPEM is WithTLS with the file's content.
func WithTLSFromPEM(caPEM []byte) Option { return WithTLSConfig(&TLSConfig{CACertPEM: caPEM}) }

// WithMTLS secures the connection and shows the certificate of certFile and
// keyFile; caFile is as for WithTLS.
func WithMTLS(certFile, keyFile, caFile string) Option {
	return WithTLSConfig(&TLSConfig{CertFile: certFile, KeyFile: keyFile, CACertFile: caFile})
}

// WithMTLSFromPEM is WithMTLS with the files' contents.
func WithMTLSFromPEM(certPEM, keyPEM, caPEM []byte) Option {
	return WithTLSConfig(&TLSConfig{CertPEM: certPEM, KeyPEM: keyPEM, CACertPEM: caPEM})
}

// WithTLSConfig secures the connection as cfg says, not at all if it is nil. The
// last of the TLS options counts. Files are read when the client is made.
func WithTLSConfig(cfg *TLSConfig) Option {
	return optionFunc(func(o *Options) {
		o.tls = nil
		if cfg != nil {
			c := *cfg
			o.tls = &c
		}
	})
}

// WithCredentials is WithTLS with a name for the broker's certificate; an empty
// name means the address.
func WithCredentials(certFile, serverOverrideDomain string) Option {
	return WithTLSConfig(&TLSConfig{CACertFile: certFile, ServerName: serverOverrideDomain})
}

// WithCertificate is WithCredentials with the file's content.
func WithCertificate(certData, serverOverrideDomain string) Option {
	return WithTLSConfig(&TLSConfig{CACertPEM: []byte(certData), ServerName: serverOverrideDomain})
}

// WithInsecureSkipVerify secures the connection without checking who is at the
// other end. For trials only.
func WithInsecureSkipVerify() Option { return optionFunc(func(o *Options) { o.skipVerify = true }) }

// WithServerNameOverride sets the name that the broker's certificate must have.
// It secures nothing by itself.
func WithServerNameOverride(name string) Option {
	return optionFunc(func(o *Options) { o.serverName = name })
}

func validateTLS(c *TLSConfig) error {
	switch {
	case c == nil:
		return nil
	case c.CertFile != "" && c.CertPEM != nil, c.KeyFile != "" && c.KeyPEM != nil, c.CACertFile != "" && c.CACertPEM != nil:
		return invalid("NewClient", "", "tls: a file and its PEM bytes exclude each other")
	case (c.CertFile != "" || c.CertPEM != nil) != (c.KeyFile != "" || c.KeyPEM != nil):
		return invalid("NewClient", "", "tls: certificate and key go together")
	case c.MinVersion != 0 && (c.MinVersion < tls.VersionTLS12 || c.MinVersion > tls.VersionTLS13):
		return invalid("NewClient", "", "tls: minimum version %#x is not 1.2 or 1.3", c.MinVersion)
	default:
		return nil
	}
}

// transportCredentials returns how the connection is secured.
func (o *Options) transportCredentials() (credentials.TransportCredentials, error) {
	if o.tls == nil && !o.skipVerify {
		return insecure.NewCredentials(), nil
	}
	c := o.tls
	if c == nil {
		c = &TLSConfig{}
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName, InsecureSkipVerify: o.skipVerify}
	if c.MinVersion != 0 {
		out.MinVersion = c.MinVersion
	}
	if o.serverName != "" {
		out.ServerName = o.serverName
	}
	if err := loadAuthorities(out, c); err != nil {
		return nil, err
	}
	if err := loadCertificate(out, c); err != nil {
		return nil, err
	}
	return credentials.NewTLS(out), nil
}

func loadAuthorities(out *tls.Config, c *TLSConfig) error {
	pem, err := fileOr(c.CACertFile, c.CACertPEM)
	if err != nil {
		return fmt.Errorf("read CA certificate: %w", err)
	}
	if pem == nil {
		return nil
	}
	out.RootCAs = x509.NewCertPool()
	if !out.RootCAs.AppendCertsFromPEM(pem) {
		return invalid("NewClient", "", "tls: no certificate in the CA's PEM")
	}
	return nil
}

func loadCertificate(out *tls.Config, c *TLSConfig) error {
	certPEM, err := fileOr(c.CertFile, c.CertPEM)
	if err != nil {
		return fmt.Errorf("read client certificate: %w", err)
	}
	keyPEM, err := fileOr(c.KeyFile, c.KeyPEM)
	if err != nil {
		return fmt.Errorf("read client key: %w", err)
	}
	if certPEM == nil {
		return nil
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return fmt.Errorf("load client certificate: %w", err)
	}
	out.Certificates = []tls.Certificate{pair}
	return nil
}

func fileOr(name string, content []byte) ([]byte, error) {
	if name == "" {
		return content, nil
	}
	return os.ReadFile(name)
}
