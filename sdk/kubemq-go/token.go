package kubemq

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// tokenMargin is how long before its end a token is not used any more, for the
// way to the broker and clocks that differ.
const tokenMargin = 10 * time.Second

// tokenSource puts the token on calls and keeps it until it ends or is refused.
type tokenSource struct {
	provider CredentialProvider
	turn     chan struct{} // capacity 1: holding it protects the fields below
	token    string
	expires  time.Time // zero for never
	known    bool
}

func newTokenSource(p CredentialProvider) *tokenSource {
	return &tokenSource{provider: p, turn: make(chan struct{}, 1)}
}

// get returns the token for a call with ctx.
func (s *tokenSource) get(ctx context.Context) (string, error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return "", status.FromContextError(ctx.Err()).Err()
	}
	defer func() { <-s.turn }()
	if s.known && (s.expires.IsZero() || time.Until(s.expires) > tokenMargin) {
		return s.token, nil
	}
	token, expires, err := s.provider.GetToken(ctx)
	if err != nil {
		if end := ctx.Err(); end != nil {
			return "", status.FromContextError(end).Err()
		}
		return "", status.Error(codes.Unauthenticated, fmt.Sprintf("get token: %v", err))
	}
	s.token, s.expires, s.known = token, expires, true
	return token, nil
}

// refused forgets token if err says that the broker does not take it.
func (s *tokenSource) refused(token string, err error) {
	if status.Code(err) != codes.Unauthenticated {
		return
	}
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	if s.token == token {
		s.known = false
	}
}

func (s *tokenSource) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	token, err := s.get(ctx)
	if err != nil {
		return err
	}
	err = invoke(metadata.AppendToOutgoingContext(ctx, "authorization", token), method, req, reply, cc, opts...)
	s.refused(token, err)
	return err
}

func (s *tokenSource) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	token, err := s.get(ctx)
	if err != nil {
		return nil, err
	}
	opts = append(opts, grpc.OnFinish(func(err error) { s.refused(token, err) }))
	return open(metadata.AppendToOutgoingContext(ctx, "authorization", token), desc, cc, method, opts...)
}
