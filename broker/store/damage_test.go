package store_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orderd/broker/store"
)

// copyDir copies a store's log as a crash would leave it.
func copyDir(t testing.TB, from string) string {
	t.Helper()
	to, ok := tryCopy(t, from)
	if !ok {
		t.Fatalf("%s changed while it was copied", from)
	}
	return to
}

// tryCopy copies a folder, and says whether no file was removed meanwhile.
func tryCopy(t testing.TB, from string) (to string, ok bool) {
	t.Helper()
	to = t.TempDir()
	files, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(from, f.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			return "", false
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, f.Name()), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return to, true
}

// However much of the last frame a crash has left, the frames before it are
// there, and nothing of it.
func TestStore_TornEnd(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, store.Options{})
	put(t, s, "q", "kept")
	want := contents(t, s)
	file := segments(t, dir)[0]
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	do(t, s, func(tx *store.Tx) {
		tx.Put("q", &store.Message{}, []byte("torn"))
		tx.Event("e", []byte("torn"))
	})
	after, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	whole := contents(t, s)
	for n := len(before); n <= len(after); n++ {
		for _, zeros := range []int{0, len(after) - n} { // a file may have got its length before its bytes
			crashed := copyDir(t, dir)
			path := filepath.Join(crashed, filepath.Base(file))
			if err := os.WriteFile(path, append(bytes.Clone(after[:n]), make([]byte, zeros)...), 0o600); err != nil {
				t.Fatal(err)
			}
			s := open(t, crashed, store.Options{})
			expect := want
			if n == len(after) {
				expect = whole
			}
			if diff := cmp.Diff(expect, contents(t, s)); diff != "" {
				t.Fatalf("%d of %d bytes and %d zeros (-want +got):\n%s", n, len(after), zeros, diff)
			}
			put(t, s, "q", "goes on")
			check(t, s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A byte that changes anywhere before the last frame is found, and where.
func TestStore_Damage(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, store.Options{})
	put(t, s, "q", "one")
	put(t, s, "q", "two")
	file := segments(t, dir)[0]
	end, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "q", "three")
	for at := range end.Size() {
		damaged := copyDir(t, dir)
		path := filepath.Join(damaged, filepath.Base(file))
		flip(t, path, at)
		_, err := store.Open(damaged, store.Options{})
		if !errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), path+", byte ") {
			t.Fatalf("byte %d changed: %v, want ErrDamaged that names the file and a byte", at, err)
		}
	}
}

// After a clean end even the last frame is known to have been there.
func TestStore_DamageAfterClose(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, store.Options{})
	put(t, s, "q", "one")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	file := segments(t, dir)[0]
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	for n := range info.Size() {
		damaged := copyDir(t, dir)
		if err := os.Truncate(filepath.Join(damaged, filepath.Base(file)), n); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Open(damaged, store.Options{}); !errors.Is(err, store.ErrDamaged) {
			t.Fatalf("cut to %d bytes: %v, want ErrDamaged", n, err)
		}
	}
}

func flip(t testing.TB, path string, at int64) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[at] ^= 0x40
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
