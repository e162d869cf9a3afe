package kubemq

import (
	"math"
	"strings"
	"unicode"
)

// checkChannel refuses names that no broker takes. Wildcards are only for
// subscriptions to plain events.
func checkChannel(op, channel string, wildcards bool) error {
	switch {
	case channel == "":
		return invalid(op, channel, "channel must not be empty")
	case strings.ContainsFunc(channel, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }):
		// A broker of release 2.4 never answers a tab or newline.
		return invalid(op, channel, "channel %q must not contain white space or control characters", channel)
	case !wildcards && strings.ContainsAny(channel, "*>"):
		return invalid(op, channel, "channel %q must not contain wildcards", channel)
	case strings.HasSuffix(channel, "."):
		return invalid(op, channel, "channel %q must not end with a dot", channel)
	default:
		return nil
	}
}

func checkContent(op, channel, metadata string, body []byte) error {
	if metadata == "" && len(body) == 0 {
		return invalid(op, channel, "metadata and body must not both be empty")
	}
	return nil
}

// checkCount refuses numbers that do not fit the wire.
func checkCount(op, channel, name string, n int) error {
	if n < 0 || n > math.MaxInt32 {
		return invalid(op, channel, "%s %d must be from 0 to %d", name, n, math.MaxInt32)
	}
	return nil
}
