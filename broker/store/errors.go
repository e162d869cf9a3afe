package store

import "errors"

// ErrLocked is returned by Open when another process, or another Store of this
// one, has the folder open.
var ErrLocked = errors.New("the store is open in another process")

// ErrDamaged is returned by Open and Check for damage that is not the torn end
// of the log. The error's text names the file and the offset.
var ErrDamaged = errors.New("the store is damaged")

// ErrGone is returned for a message that was settled.
var ErrGone = errors.New("the message is settled")

// ErrClosed is returned by everything after Close.
var ErrClosed = errors.New("the store is closed")
