package config

import (
	"fmt"
	"io"
	"strings"
)

// Usage writes every setting with its default and meaning, for -h.
func Usage(w io.Writer) error {
	var b strings.Builder
	group := ""
	for _, s := range settings() {
		if s.group != group {
			group = s.group
			fmt.Fprintf(&b, "\n%s\n", group)
		}
		fmt.Fprintf(&b, "  %s", s.name)
		if d := s.tag.Get("envDefault"); d != "" {
			fmt.Fprintf(&b, "=%s", d)
		}
		fmt.Fprintf(&b, "\n        %s\n", s.meaning())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// meaning is the declared meaning with the range.
func (s *setting) meaning() string {
	text := s.tag.Get("doc")
	if least := s.tag.Get("min"); least != "" {
		text += fmt.Sprintf(" From %s to %s.", least, s.tag.Get("max"))
	}
	if words := s.tag.Get("oneof"); words != "" {
		text += " One of " + strings.ReplaceAll(words, " ", ", ") + "."
	}
	if s.secret() {
		text += " " + s.name + "_FILE: a file that holds it."
	}
	return text
}

// Table returns the settings as the tables of docs/settings.md.
func Table() string {
	var b strings.Builder
	group := ""
	for _, s := range settings() {
		if s.group != group {
			group = s.group
			fmt.Fprintf(&b, "\n## %s\n\n| variable | default | meaning |\n|---|---|---|\n", group)
		}
		value := ""
		if d := s.tag.Get("envDefault"); d != "" {
			value = "`" + d + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", s.name, value, strings.ReplaceAll(s.meaning(), "|", "\\|"))
	}
	return b.String()
}
