package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

// stops records the order in which roles end.
type stops struct {
	mu    sync.Mutex // protects names
	names []string
}

func (s *stops) role(name string, drain time.Duration) role {
	return role{name, true, func(ctx context.Context) error {
		<-ctx.Done()
		time.Sleep(drain) // fake time: the role's own work, not a wait for another
		s.mu.Lock()
		defer s.mu.Unlock()
		s.names = append(s.names, name)
		return nil
	}}
}

func TestServe_StopsStagesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s stops
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := serve(ctx, 30*time.Second, zerolog.Nop(),
			[]role{s.role("api", 2*time.Second)},
			[]role{s.role("relay", time.Second), {"email", false, nil}},
			[]role{s.role("broker", 0)})
		if err != nil {
			t.Fatalf("serve: %v", err)
		}
		if got, want := s.names, []string{"api", "relay", "broker"}; !slices.Equal(got, want) {
			t.Errorf("stop order %v, want %v", got, want)
		}
	})
}

func TestServe_RoleThatFailsStopsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s stops
		broken := errors.New("disk on fire")
		err := serve(t.Context(), 30*time.Second, zerolog.Nop(),
			[]role{s.role("api", 0)},
			[]role{{"relay", true, func(context.Context) error { return broken }}},
			[]role{s.role("broker", 0)})
		if !errors.Is(err, broken) || !strings.Contains(err.Error(), "relay") {
			t.Errorf("serve: %v, want the relay's fault", err)
		}
		if got, want := s.names, []string{"api", "broker"}; !slices.Equal(got, want) {
			t.Errorf("stop order %v, want %v", got, want)
		}
	})
}

func TestServe_RoleThatEndsByItselfIsAFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := serve(t.Context(), time.Second, zerolog.Nop(),
			[]role{{"api", true, func(context.Context) error { return nil }}})
		if err == nil || !strings.Contains(err.Error(), "api") {
			t.Errorf("serve: %v, want a fault that names api", err)
		}
	})
}

func TestServe_HangingRoleIsNamedAndTheNextStageStillDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s stops
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		release := make(chan struct{})
		begun := time.Now()
		err := serve(ctx, 8*time.Second, zerolog.Nop(),
			[]role{{"workers", true, func(context.Context) error { <-release; return nil }}},
			[]role{s.role("email", time.Second)})
		close(release)
		if !errors.Is(err, errLeft) || !strings.Contains(err.Error(), "workers") || strings.Contains(err.Error(), "email") {
			t.Errorf("serve: %v, want workers named and email not", err)
		}
		if !slices.Equal(s.names, []string{"email"}) {
			t.Errorf("drained %v, want email", s.names)
		}
		if took := time.Since(begun); took > 8*time.Second {
			t.Errorf("took %v, want at most the timeout", took)
		}
	})
}
