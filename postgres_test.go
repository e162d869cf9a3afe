package main

import (
	"context"
	"errors"
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
)

// postgresURL is a server for the tests; if it is empty, postgresMissing says why.
var (
	postgresURL     string
	postgresBin     string // folder of its programs, empty if the server is not ours
	postgresMissing = "set ORDERD_TEST_POSTGRES_URL or install postgresql"
	databases       atomic.Int64
)

// startPostgres uses the server that ORDERD_TEST_POSTGRES_URL names, or starts
// one from an installation of Debian's layout.
func startPostgres(dir string) (stop func()) {
	if postgresURL = os.Getenv("ORDERD_TEST_POSTGRES_URL"); postgresURL != "" {
		return func() {}
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		return func() {}
	}
	bin := filepath.Dir(found[len(found)-1])
	url, stop, err := runPostgres(bin, filepath.Join(dir, "postgres"), 0)
	if err != nil {
		postgresMissing = err.Error()
		return stop
	}
	postgresURL, postgresBin = url, bin
	return stop
}

// runPostgres starts a server with its data in dir, which is made if it is not
// there, on a port, or a free one if that is 0.
func runPostgres(bin, dir string, port int) (url string, stop func(), err error) {
	stop = func() {}
	_, statErr := os.Stat(dir)
	fresh := errors.Is(statErr, os.ErrNotExist)
	if fresh {
		if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(filepath.Dir(filepath.Dir(dir)), 0o755)); err != nil {
			return "", stop, err
		}
	}
	credential, err := nobody(dir)
	if err != nil {
		return "", stop, err
	}
	run := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, name), args...)
		cmd.Dir = dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
		return cmd
	}
	data := filepath.Join(dir, "data")
	if fresh {
		if out, err := run("initdb", "-D", data, "-U", "orderd", "-A", "trust", "-E", "UTF8", "--no-sync").CombinedOutput(); err != nil {
			return "", stop, fmt.Errorf("initdb: %w: %s", err, out)
		}
	}
	if port == 0 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", stop, err
		}
		port = l.Addr().(*net.TCPAddr).Port
		if err := l.Close(); err != nil {
			return "", stop, err
		}
	}
	server := run("postgres", "-D", data, "-h", "127.0.0.1", "-p", strconv.Itoa(port), "-k", dir, "-c", "fsync=off")
	if err := server.Start(); err != nil {
		return "", stop, err
	}
	stop = func() {
		_ = server.Process.Signal(syscall.SIGINT)
		_ = server.Wait()
	}
	u := fmt.Sprintf("postgres://orderd@127.0.0.1:%d/postgres?sslmode=disable", port)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, u)
		if err == nil {
			return u, stop, conn.Close(ctx)
		}
		select {
		case <-ctx.Done():
			return "", stop, fmt.Errorf("postgres did not start: %w", err)
		case <-tick.C:
		}
	}
}

// nobody gives dir to a user that is not root: PostgreSQL refuses root.
func nobody(dir string) (*syscall.Credential, error) {
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

// newDatabase returns the URL of an empty database.
func newDatabase(t *testing.T) string {
	t.Helper()
	if postgresURL == "" {
		if os.Getenv("ORDERD_TEST_REQUIRE_POSTGRES") != "" {
			t.Fatal("PostgreSQL is not tested: " + postgresMissing)
		}
		t.Skip("PostgreSQL is not tested: " + postgresMissing)
	}
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, postgresURL)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("e2e_%d_%d", os.Getpid(), databases.Add(1))
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(ctx); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(postgresURL)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

// eachDatabase runs a test on SQLite and on PostgreSQL; settings is what the
// processes need for it.
func eachDatabase(t *testing.T, test func(t *testing.T, settings ...string)) {
	t.Run("SQLite", func(t *testing.T) { t.Parallel(); test(t) })
	t.Run("PostgreSQL", func(t *testing.T) { t.Parallel(); test(t, "DATABASE_URL="+newDatabase(t)) })
}
