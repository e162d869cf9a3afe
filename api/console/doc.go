// Package console is the web page of orderd: one HTML file with its style and
// script, built into the binary and loading nothing from elsewhere.
//
// It talks to the API like any other client, from the same origin, with the API
// key that its reader types in. It promises no stable structure: programs use
// the API.
package console
