// Package types holds the values that package kubemq shares with code that
// should not depend on the client: errors with their codes and categories,
// retry and reconnect policies, connection states, credentials, loggers and TLS
// settings. Package kubemq offers the same types as aliases under the same
// names; a program normally uses those.
//
// The package keeps no state and starts nothing. Everything in it may be used
// from several goroutines at once; ErrorSuggestions is meant to be read only.
package types
