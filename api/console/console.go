package console

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
)

//go:embed index.html
var html []byte

// Page is what to serve. Both fields are for reading only.
type Page struct {
	HTML []byte // text/html in UTF-8
	// CSP is the Content-Security-Policy to send along: it lets this page's own
	// script and style run and nothing else, whatever text an order may hold.
	CSP string
}

// Load returns the page.
func Load() Page {
	return Page{HTML: html, CSP: "default-src 'none'; script-src '" + hash("script") + "'; style-src '" + hash("style") +
		"'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"}
}

// hash names the content of the page's only element of that kind as CSP wants it.
func hash(element string) string {
	_, rest, _ := bytes.Cut(html, []byte("<"+element+">"))
	content, _, ok := bytes.Cut(rest, []byte("</"+element+">"))
	if !ok {
		panic("console: index.html has no <" + element + ">") // built in: a test would have seen it
	}
	sum := sha256.Sum256(content)
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
