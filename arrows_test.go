package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// arrows says which of our rooms a room may import.
var arrows = map[string][]string{
	".":                 {"api", "broker", "config", "notify", "orders", "queue", "workers"},
	"api":               {"api/console", "orders"},
	"api/console":       {},
	"broker":            {"broker/store", "broker/queuesinfo"},
	"broker/store":      {},
	"config":            {},
	"notify":            {"orders"},
	"orders":            {},
	"queue":             {"orders"},
	"workers":           {"orders", "queue"},
	"broker/queuesinfo": {},
}

// fences says where a library may be used, outside of tests.
var fences = map[string][]string{
	"github.com/go-chi/chi":       {"api"},
	"github.com/jackc/pgx":        {"orders"},
	"modernc.org/sqlite":          {"orders"},
	"github.com/pressly/goose":    {"orders"},
	"github.com/caarlos0/env":     {"config"},
	"github.com/kubemq-io/kubemq": {"queue", "notify"},
	"github.com/kubemq-io/proto":  {"broker", "broker/queuesinfo"},
	"github.com/wneessen/go-mail": {"notify"},
	"google.golang.org/grpc":      {"broker", "broker/queuesinfo"},
	"github.com/prometheus":       {".", "api"},
}

// Who imports whom, in every file but the tests.
func TestArrows(t *testing.T) {
	t.Parallel()
	for path, file := range goFiles(t) {
		if strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".pb.go") {
			continue
		}
		room := filepath.ToSlash(filepath.Dir(path))
		allowed, known := arrows[room]
		if !known {
			t.Errorf("%s: room %s is not in the table: DESIGN names the rooms, docs/architecture.md says why there are more", path, room)
			continue
		}
		for _, spec := range file.Imports {
			name, _ := strconv.Unquote(spec.Path.Value)
			if ours, ok := strings.CutPrefix(name, "orderd/"); ok && !slices.Contains(allowed, ours) {
				t.Errorf("%s: %s must not import %s", path, room, ours)
			}
			for prefix, rooms := range fences {
				if strings.HasPrefix(name, prefix) && !slices.Contains(rooms, room) {
					t.Errorf("%s: %s is for %v only", path, name, rooms)
				}
			}
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s: no init functions: what happens before main is hard to follow", path)
			}
		}
	}
}

// The entrance stays a list.
func TestMainIsShort(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"main.go", "roles.go"} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(b), "\n"); n >= 120 {
			t.Errorf("%s has %d lines, want under 120", name, n)
		}
	}
}

// Every room says at its door what it is for.
func TestRoomsHaveDocs(t *testing.T) {
	t.Parallel()
	for room := range arrows {
		if _, err := os.Stat(room); err != nil || room == "." {
			continue
		}
		b, err := os.ReadFile(filepath.Join(room, "doc.go"))
		if err != nil {
			t.Errorf("%s: %v", room, err)
			continue
		}
		for _, chapter := range []string{"# Life", "# Promises", "# Not promised"} {
			if room != "api/console" && room != "broker/queuesinfo" && !strings.Contains(string(b), chapter) {
				t.Errorf("%s/doc.go lacks %q", room, chapter)
			}
		}
	}
}

// goFiles parses the Go files of this module.
func goFiles(t *testing.T) map[string]*ast.File {
	t.Helper()
	out := make(map[string]*ast.File)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "." {
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil || strings.HasPrefix(d.Name(), ".") || d.Name() == "data" {
				return fs.SkipDir
			}
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		out[path] = file
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
