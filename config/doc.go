// Package config holds every setting of orderd, once: the environment variable,
// its default, its meaning, its range.
//
// # Life
//
// Load reads the environment at start; the result is passed on by value, group
// by group, and never changes.
//
// # Promises
//
// Load reports every fault at once, each with its variable, its value and what
// is allowed. Usage and the table in docs/settings.md come from the same
// declarations.
//
// # Not promised
//
// That what a setting names can be reached: the rooms find that out.
package config
