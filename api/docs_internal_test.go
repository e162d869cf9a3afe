package api

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const docsFile = "../docs/api.md"

// TestDocs keeps the tables of docs/api.md in step with the code.
func TestDocs(t *testing.T) {
	file, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	want := replaceBlock(t, string(file), "routes", routesDoc())
	want = replaceBlock(t, want, "metrics", metricsDoc())
	if os.Getenv("ORDERD_UPDATE_DOCS") == "1" {
		if err := os.WriteFile(docsFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(file)); diff != "" {
		t.Errorf("docs/api.md is out of step; ORDERD_UPDATE_DOCS=1 go test ./api mends it (-want +got):\n%s", diff)
	}
}

func replaceBlock(t *testing.T, doc, name, content string) string {
	t.Helper()
	begin := strings.Index(doc, "<!-- "+name+":")
	if begin < 0 {
		t.Fatalf("docs/api.md has no block %s", name)
	}
	begin += strings.Index(doc[begin:], "\n") + 1
	end := strings.Index(doc[begin:], "<!-- end -->")
	if end < 0 {
		t.Fatalf("block %s of docs/api.md has no end", name)
	}
	return doc[:begin] + content + doc[begin+end:]
}

func routesDoc() string {
	var b strings.Builder
	b.WriteString("| | | answers | query |\n|---|---|---|---|\n")
	for _, rt := range routes {
		var params []string
		for _, p := range rt.query {
			params = append(params, "`"+p.name+"`: "+p.means)
		}
		ok, _, _ := strings.Cut(rt.ok, " ")
		codes := strings.TrimSpace(ok + " " + rt.also)
		fmt.Fprintf(&b, "| `%s %s` | %s | %s | %s |\n", rt.method, rt.path, rt.does,
			strings.Join(strings.Fields(codes+" "+rt.fails), ", "), strings.Join(params, "<br>"))
	}
	return b.String()
}

func metricsDoc() string {
	var b strings.Builder
	b.WriteString("| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, m := range metricTable {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.name, m.kind, strings.Join(m.labels, ", "), m.means)
	}
	return b.String()
}
