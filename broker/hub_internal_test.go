package broker

import (
	"strings"
	"testing"
)

func TestMatches(t *testing.T) {
	channels := []string{"a", "a.b", "a.c", "a.b.c", "b.a", "a/b"}
	for pattern, want := range map[string]string{
		"a": "a", "a.b": "a.b", "*": "a a/b", ">": "a a.b a.c a.b.c b.a a/b", "a.*": "a.b a.c", "a.>": "a.b a.c a.b.c",
		"*.*": "a.b a.c b.a", "*.b.>": "a.b.c", "a.*.c": "a.b.c", "a*b": "", "b.>": "b.a", "a.b.*": "a.b.c", "a.>.c": "", "x.>": "",
	} {
		var got []string
		for _, c := range channels {
			if matches(pattern, c) {
				got = append(got, c)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s matches %v, want %s", pattern, got, want)
		}
	}
}
