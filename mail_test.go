package main

import (
	"io"
	"net"
	"net/mail"
	"sync"
	"testing"

	"github.com/emersion/go-smtp"
)

// mailbox is an SMTP server that keeps what it is sent.
type mailbox struct {
	addr string

	mu    sync.Mutex // protects mails and busy
	mails []received
	busy  int // transactions to be put off
}

type received struct {
	from, to  string
	subject   string
	messageID string
	text      string
}

func startMailbox(t *testing.T) *mailbox {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &mailbox{addr: l.Addr().String()}
	s := smtp.NewServer(m)
	s.Domain = "localhost"
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() {
		_ = s.Close()
		<-done
	})
	return m
}

// NewSession is for go-smtp.
func (m *mailbox) NewSession(*smtp.Conn) (smtp.Session, error) { return &mailSession{m: m}, nil }

func (m *mailbox) to(address string) []received {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []received
	for _, r := range m.mails {
		if r.to == address {
			out = append(out, r)
		}
	}
	return out
}

type mailSession struct {
	m        *mailbox
	from, to string
}

func (s *mailSession) Mail(from string, _ *smtp.MailOptions) error { s.from = from; return nil }
func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error   { s.to = to; return nil }
func (s *mailSession) Reset()                                      {}
func (s *mailSession) Logout() error                               { return nil }

func (s *mailSession) Data(r io.Reader) error {
	msg, err := mail.ReadMessage(r)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(msg.Body)
	if err != nil {
		return err
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if s.m.busy > 0 {
		s.m.busy--
		return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "try again"}
	}
	s.m.mails = append(s.m.mails, received{from: s.from, to: s.to, subject: msg.Header.Get("Subject"),
		messageID: msg.Header.Get("Message-Id"), text: string(text)})
	return nil
}
