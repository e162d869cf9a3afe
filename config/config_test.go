package config_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"orderd/config"
)

func TestLoad(t *testing.T) {
	t.Run("defaults", func(t *testing.T) {
		c, err := config.Load(nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.HTTP.Addr != ":8080" || c.Workers.Workers != 4 || c.Workers.MaxAttempts != 5 || c.Queue.MaxReceiveCount != 5 ||
			c.Store.Lease != 6*time.Second || !c.Roles.DLQ || len(c.Notify.EmailStatuses) != 2 || len(c.Notify.PushStatuses) != 0 ||
			c.Workers.ShutdownTimeout != 30*time.Second || c.Notify.RetryCap != time.Minute || len(c.HTTP.APIKeys) != 0 {
			t.Errorf("got %+v", c)
		}
	})
	t.Run("empty means default", func(t *testing.T) {
		c, err := config.Load([]string{"WORKERS=", "HTTP_ADDR="})
		if err != nil || c.Workers.Workers != 4 || c.HTTP.Addr != ":8080" {
			t.Errorf("got %+v, %v", c, err)
		}
	})
	t.Run("values", func(t *testing.T) {
		c, err := config.Load([]string{"WORKERS=7", "MAX_ATTEMPTS=2", "API_KEYS=a,b", "DLQ_ENABLED=false", "POLL_WAIT=3s"})
		if err != nil || c.Workers.Workers != 7 || c.Store.MaxAttempts != 2 || c.Workers.MaxAttempts != 2 || len(c.HTTP.APIKeys) != 2 || c.Roles.DLQ {
			t.Errorf("got %+v, %v", c, err)
		}
	})
}

func TestLoad_faults(t *testing.T) {
	for _, test := range []struct{ environ, want string }{
		{"WORKERS=abc MAX_ATTEMPTS=0 HTTP_ADDR=nonsense", `WORKERS="abc" MAX_ATTEMPTS="0" HTTP_ADDR="nonsense"`},
		{"LEASE=6", `LEASE="6": must be a duration`},
		{"API_ENABLED=maybe PUSH_ENABLED=2", `API_ENABLED="maybe": must be true PUSH_ENABLED="2"`},
		{"STEP_TIMEOUT=3m", `STEP_TIMEOUT="3m0s": must not be above VISIBILITY`},
		{"STEP_TIMEOUT=3m VISIBILITY=x", `VISIBILITY="x"`},
		{"ORDERS_CHANNEL=a/b", `ORDERS_CHANNEL="a/b"`},
		{"RETRY_CHANNEL=orders", "three different channels"},
		{"DATABASE_URL=mysql://u:secret@h/d", "DATABASE_URL: must be empty or postgres://"},
		{"SMTP_URL=smtp://h:25?tls=maybe EMAIL_STATUSES=confirmed,sent", `SMTP_URL EMAIL_STATUSES="confirmed,sent"`},
		{"KUBEMQ_ADDRESS=:50000 BROKER_ADDR=on", `KUBEMQ_ADDRESS=":50000" BROKER_ADDR="on"`},
		{"LOG_LEVEL=loud", `LOG_LEVEL="loud": must be one of trace, debug`},
		{"API_KEYS_FILE=/nowhere/at/all", "API_KEYS_FILE: open /nowhere/at/all"},
		{"RETRY_BASE=2m", `RETRY_CAP="1m0s": must not be below RETRY_BASE`},
	} {
		t.Run(test.environ, func(t *testing.T) {
			_, err := config.Load(strings.Fields(test.environ))
			if err == nil {
				t.Fatal("no error")
			}
			for want := range strings.SplitSeq(test.want, " ") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %q, which lacks %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the message shows a secret: %q", err)
			}
		})
	}
}

func TestLoad_secretFromFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load([]string{"KUBEMQ_AUTH_TOKEN_FILE=" + path})
	if err != nil || c.KubeMQ.AuthToken != "s3cret" {
		t.Errorf("got %q, %v", c.KubeMQ.AuthToken, err)
	}
	if _, err = config.Load([]string{"KUBEMQ_AUTH_TOKEN_FILE=" + path, "KUBEMQ_AUTH_TOKEN=x"}); err == nil {
		t.Error("both at once: no error")
	}
}

func TestUsage(t *testing.T) {
	var b bytes.Buffer
	if err := config.Usage(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"HTTP_ADDR=:8080", "DLQ_ENABLED=true", "PAYMENT_URL\n", "LOG_FORMAT=auto"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("lacks %q", want)
		}
	}
}

// The reference is made from the declarations: ORDERD_UPDATE_DOCS=1 writes it.
func TestTable_isInDocs(t *testing.T) {
	const path, begin = "../docs/settings.md", "<!-- made from config/config.go: make docs -->\n"
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, table, ok := strings.Cut(string(b), begin)
	if !ok {
		t.Fatalf("%s lacks the line %q", path, begin)
	}
	if table == config.Table() {
		return
	}
	if os.Getenv("ORDERD_UPDATE_DOCS") == "" {
		t.Fatalf("%s is out of date: make docs", path)
	}
	if err := os.WriteFile(path, []byte(head+begin+config.Table()), 0o644); err != nil {
		t.Fatal(err)
	}
}
