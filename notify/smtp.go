package notify

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/wneessen/go-mail"

	"orderd/orders"
)

// smtpServer is what SMTP_URL says.
type smtpServer struct {
	host           string
	port           int
	user, password string
	tls            string // starttls, implicit or none
}

func parseSMTP(text string) (smtpServer, error) {
	u, err := url.Parse(text)
	if err != nil {
		return smtpServer{}, errors.New("is no URL") // the library's error shows the password
	}
	s := smtpServer{host: u.Hostname(), user: u.User.Username(), tls: u.Query().Get("tls")}
	s.password, _ = u.User.Password()
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if u.Scheme != "smtp" || s.host == "" || err != nil {
		return smtpServer{}, errors.New("must be smtp://[user:password@]host:port")
	}
	s.port = int(port)
	switch s.tls {
	case "":
		s.tls = "starttls"
	case "starttls", "implicit", "none":
	default:
		return smtpServer{}, fmt.Errorf("tls=%s: must be starttls, implicit or none", s.tls)
	}
	return s, nil
}

// mailer sends mails over one SMTP server, each over a connection of its own.
type mailer struct {
	from   string
	server smtpServer
	sendTo func(ctx context.Context, m *mail.Msg) error
}

func newMailer(o Options) (*mailer, error) {
	server, err := parseSMTP(o.SMTPURL)
	if err != nil {
		return nil, err
	}
	m := &mailer{from: o.EmailFrom, server: server}
	options := []mail.Option{mail.WithPort(server.port), mail.WithTimeout(o.SendTimeout)}
	switch server.tls {
	case "implicit":
		options = append(options, mail.WithSSL())
	case "none":
		options = append(options, mail.WithTLSPolicy(mail.NoTLS))
	default: // whenever the server offers it
		options = append(options, mail.WithTLSPolicy(mail.TLSOpportunistic))
	}
	if server.user != "" {
		auth := mail.SMTPAuthAutoDiscover
		if server.tls == "none" {
			// Asked for by name: the password goes over the wire as it is.
			auth = mail.SMTPAuthPlainNoEnc
		}
		options = append(options, mail.WithSMTPAuth(auth), mail.WithUsername(server.user), mail.WithPassword(server.password))
	}
	m.sendTo = func(ctx context.Context, msg *mail.Msg) error {
		client, err := mail.NewClient(server.host, options...)
		if err != nil {
			return err
		}
		return client.DialAndSendWithContext(ctx, msg)
	}
	return m, nil
}

func (m *mailer) send(ctx context.Context, d orders.Delivery) answer {
	msg := mail.NewMsg()
	if err := errors.Join(msg.From(m.from), msg.To(d.To)); err != nil {
		return answer{status: orders.DeliveryFailed, answer: err.Error()}
	}
	msg.Subject(subjectOf(d))
	// The same for every try, so that a mail that arrives twice is recognised.
	msg.SetMessageIDWithValue(d.Event.EventID() + "@orderd")
	msg.SetDate()
	msg.SetBodyString(mail.TypeTextPlain, textOf(d))
	err := m.sendTo(ctx, msg)
	if err == nil {
		return answer{status: orders.DeliverySent, answer: "accepted by " + m.server.host}
	}
	var refused *mail.SendError
	if errors.As(err, &refused) && !refused.IsTemp() && refused.ErrorCode() >= 500 {
		return answer{status: orders.DeliveryFailed, answer: err.Error()}
	}
	return answer{status: orders.DeliveryPending, answer: err.Error()}
}
