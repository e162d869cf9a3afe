package orders_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"orderd/orders"
)

// postgresURL is a server for the tests, empty if there is none.
var postgresURL string

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	// Random histories: a run is some seconds, under the race detector too.
	checks := map[string]string{"ci": "12", "full": "500"}[os.Getenv("ORDERD_TEST_SIZE")]
	if err := flag.Set("rapid.checks", cmp.Or(checks, "25")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var stop func()
	var err error
	postgresURL, stop, err = startPostgres()
	if err != nil {
		fmt.Fprintln(os.Stderr, "PostgreSQL is not tested:", err)
		if os.Getenv("ORDERD_TEST_REQUIRE_POSTGRES") != "" {
			return 1
		}
	}
	defer stop()
	return m.Run()
}

// startPostgres returns the server that ORDERD_TEST_POSTGRES_URL names, or
// starts one of its own from an installation of Debian's layout.
func startPostgres() (string, func(), error) {
	none := func() {}
	if u := os.Getenv("ORDERD_TEST_POSTGRES_URL"); u != "" {
		return u, none, nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		return "", none, errors.New("set ORDERD_TEST_POSTGRES_URL or install postgresql")
	}
	bin := filepath.Dir(found[len(found)-1])
	dir, err := os.MkdirTemp("", "orderd-postgres-")
	if err != nil {
		return "", none, err
	}
	remove := func() { _ = os.RemoveAll(dir) }
	credential, err := unprivileged(dir)
	if err != nil {
		return "", remove, err
	}
	data := filepath.Join(dir, "data")
	run := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, name), args...)
		cmd.Dir = dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
		return cmd
	}
	if out, err := run("initdb", "-D", data, "-U", "orderd", "-A", "trust", "-E", "UTF8", "--no-sync").CombinedOutput(); err != nil {
		return "", remove, fmt.Errorf("initdb: %w: %s", err, out)
	}
	port, err := freePort()
	if err != nil {
		return "", remove, err
	}
	server := run("postgres", "-D", data, "-h", "127.0.0.1", "-p", strconv.Itoa(port), "-k", dir, "-c", "fsync=off")
	if err := server.Start(); err != nil {
		return "", remove, err
	}
	stop := func() {
		_ = server.Process.Signal(syscall.SIGINT)
		_ = server.Wait()
		remove()
	}
	u := fmt.Sprintf("postgres://orderd@127.0.0.1:%d/postgres?sslmode=disable", port)
	if err := awaitPostgres(u); err != nil {
		return "", stop, err
	}
	return u, stop, nil
}

// unprivileged gives dir to a user that is not root: PostgreSQL refuses root.
func unprivileged(dir string) (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		return nil, err
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(dir, uid, gid)
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func awaitPostgres(u string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, u)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("server did not start: %w", err)
		case <-tick.C:
		}
	}
}

var databases atomic.Int64

// each runs test on every database there is.
func each(t *testing.T, test func(t *testing.T, o orders.Options)) {
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		test(t, options(t))
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		if postgresURL == "" {
			t.Skip("no PostgreSQL: set ORDERD_TEST_POSTGRES_URL")
		}
		o := options(t)
		o.DatabaseURL = newDatabase(t)
		test(t, o)
	})
}

func newDatabase(t *testing.T) string {
	t.Helper()
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, postgresURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	name := fmt.Sprintf("t%d_%d", os.Getpid(), databases.Add(1))
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(postgresURL)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

func options(t *testing.T) orders.Options {
	return orders.Options{DataDir: t.TempDir(), Lease: 6 * time.Second, Expiration: 5 * time.Minute, MaxAttempts: 3, MaxDeaths: 2,
		IdempotencyTTL: time.Hour, EventRetention: time.Hour, BackorderMax: time.Hour}
}

// mustOpen opens a store, and checks and closes it at the end of the test.
func mustOpen(t *testing.T, o orders.Options) *orders.Store {
	t.Helper()
	s, err := orders.Open(t.Context(), o, zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.InfoLevel))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Check(context.Background()); err != nil && !t.Failed() {
			t.Errorf("check: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func mustDecode(t *testing.T, body string) orders.Order {
	t.Helper()
	o, err := orders.Decode([]byte(body), true)
	if err != nil {
		t.Fatalf("decode %s: %v", body, err)
	}
	return o
}

func mustAccept(t *testing.T, s *orders.Store, body string) orders.Order {
	t.Helper()
	a, err := s.Accept(t.Context(), mustDecode(t, body), "")
	if err != nil {
		t.Fatalf("accept %s: %v", body, err)
	}
	return a.Order
}

const seedOrder = `{"orderId":"ORD-2001","customer":"alice@example.com","items":3,"total":149.97,"createdAt":1700000000000}`

func mustGet(t *testing.T, s *orders.Store, id string) orders.Order {
	t.Helper()
	o, err := s.Get(t.Context(), id)
	if err != nil {
		t.Fatalf("get %s: %v", id, err)
	}
	return o
}

// mustClaim claims the order as a message of our own would.
func mustClaim(t *testing.T, s *orders.Store, o orders.Order) orders.Claim {
	t.Helper()
	claims, err := s.Claim(t.Context(), []orders.Arrival{{MessageID: "m", Body: o.AppendMessage(nil), Order: o, Origin: orders.Origin}})
	if err != nil {
		t.Fatalf("claim %s: %v", o.ID, err)
	}
	return claims[0]
}

func mustFinish(t *testing.T, s *orders.Store, o orders.Outcome) orders.Finished {
	t.Helper()
	out, err := s.Finish(t.Context(), []orders.Outcome{o})
	if err != nil {
		t.Fatalf("finish %s: %v", o.OrderID, err)
	}
	return out[0]
}

func mustConfirm(t *testing.T, s *orders.Store, o orders.Order) {
	t.Helper()
	c := mustClaim(t, s, o)
	if c.Verdict != orders.Claimed {
		t.Fatalf("claim %s: verdict %d, %s", o.ID, c.Verdict, c.Reason)
	}
	got := mustFinish(t, s, orders.Outcome{OrderID: o.ID, Token: c.Token, Kind: orders.OutcomeConfirm, Payment: orders.PaymentAuthorised})
	if got.Result != orders.ResultApplied {
		t.Fatalf("confirm %s: result %d", o.ID, got.Result)
	}
}

func wantStatus(t *testing.T, s *orders.Store, id string, want orders.Status) {
	t.Helper()
	if got := mustGet(t, s, id).Status; got != want {
		t.Errorf("status of %s: got %s, want %s", id, got, want)
	}
}

func wantKind(t *testing.T, err error, want orders.Kind) {
	t.Helper()
	if err == nil || orders.KindOf(err) != want {
		t.Errorf("error: got %v (%v), want %v", err, orders.KindOf(err), want)
	}
}
