//go:build unix

package broker_test

import (
	"os/signal"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func setFileLimit(t *testing.T, bytes uint64) {
	signal.Ignore(syscall.SIGXFSZ) // so that the write fails, not the process
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: bytes, Max: bytes}); err != nil {
		t.Fatal(err)
	}
}
