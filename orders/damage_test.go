package orders_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"orderd/orders"
)

// damagedCopy copies a database with one byte flipped into a folder whose last
// process, it seems, ended without a word.
func damagedCopy(t *testing.T, file []byte, at int) (o orders.Options, path string) {
	t.Helper()
	o = options(t)
	path = filepath.Join(o.DataDir, "orderd.db")
	broken := bytes.Clone(file)
	broken[at] ^= 0x40
	if err := os.WriteFile(path, broken, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(o.DataDir, "instances"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(o.DataDir, "instances", "1"), []byte("1-test 12345\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return o, path
}

// A byte that changed where SQLite keeps its structure is found before anything
// is written.
func TestOpen_damagedDatabase(t *testing.T) {
	t.Parallel()
	o := options(t)
	s, err := orders.Open(t.Context(), o, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		mustConfirm(t, s, mustAccept(t, s, fmt.Sprintf(`{"orderId":"o%d","customer":"c","items":1,"total":1}`, i)))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(filepath.Join(o.DataDir, "orderd.db"))
	if err != nil {
		t.Fatal(err)
	}
	const page = 4096
	if len(file)%page != 0 || len(file) < 10*page {
		t.Fatalf("the database has %d bytes", len(file))
	}
	var places []int
	for at := range 16 { // the header's magic
		places = append(places, at)
	}
	places = append(places, 16, 18, 19, 20, 21, 22, 23) // page size, formats, fractions
	// SQLite looks at the low byte only of what these are part of: nothing is lost.
	harmless := map[int]bool{44: true, 45: true, 46: true, 56: true}
	for at := range harmless {
		places = append(places, at)
	}
	for n := range len(file) / page {
		start := n * page
		if n == 0 {
			start = 100
		}
		for _, field := range []int{0, 3, 4, 5, 6} { // kind of page, cells, start of cells
			places = append(places, start+field)
		}
	}
	missed := 0
	for _, at := range places {
		o, path := damagedCopy(t, file, at)
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s, err := orders.Open(t.Context(), o, zerolog.Nop())
		if err == nil && harmless[at] {
			if err := s.Check(t.Context()); err != nil {
				t.Errorf("byte %d: %v", at, err)
			}
			wantStatus(t, s, "o59", orders.StatusConfirmed)
			s.Abandon()
			continue
		}
		if err == nil {
			missed++
			t.Errorf("byte %d (page %d, byte %d of it): not found", at, at/page+1, at%page)
			s.Abandon()
			continue
		}
		if !strings.Contains(err.Error(), path) {
			t.Errorf("byte %d: the message does not name the file: %v", at, err)
		}
		after, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(before, after) {
			t.Errorf("byte %d: the damaged file was changed", at)
		}
	}
	t.Logf("%d flipped bytes, %d missed", len(places), missed)
}

// After a clean stop the check runs beside the work.
func TestStore_Damaged(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, options(t))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	mustAccept(t, s, seedOrder)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if s.Damaged() {
		t.Error("a whole database is called damaged")
	}
}
