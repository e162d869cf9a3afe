package store

import "testing"

// A segment goes only when the next one says what it said: one that was just
// begun has no checkpoint yet.
func TestMayClean_needsCheckpoint(t *testing.T) {
	s := &Store{segments: []*segment{{first: 1, size: 100}, {first: 5}}}
	if s.mayClean() {
		t.Error("the front may go although the next segment is empty")
	}
	s.segments[1].size = 50
	if !s.mayClean() {
		t.Error("the front holds nothing and the next segment has its checkpoint, yet it may not go")
	}
	s.segments = append(s.segments, &segment{first: 9})
	if !s.mayClean() {
		t.Error("the newest segment need not have its checkpoint for the front to go")
	}
}
