package broker

import (
	"context"
	"errors"
	"io"
)

// incoming is what a client sends on a stream. gRPC's Recv cannot be broken off
// but by the end of the stream's handler, so it has a goroutine of its own.
type incoming[T any] struct {
	requests chan *T
	err      error // why requests was closed; io.EOF if the client closed its half
}

// receive reads a stream until that fails or ctx ends, which must happen when
// the handler returns.
func receive[T any](ctx context.Context, b *Broker, recv func() (*T, error)) *incoming[T] {
	in := &incoming[T]{requests: make(chan *T)}
	b.readers.Go(func() {
		defer close(in.requests)
		for {
			r, err := recv()
			if err != nil {
				in.err = err
				return
			}
			select {
			case in.requests <- r:
			case <-ctx.Done():
				in.err = ctx.Err()
				return
			}
		}
	})
	return in
}

// each calls fn with every request. It returns nil when the client has closed
// its half of the stream, and otherwise what the stream is to end with.
func (in *incoming[T]) each(b *Broker, fn func(*T)) error {
	for {
		select {
		case <-b.stopping:
			return stoppingStatus()
		case r, ok := <-in.requests:
			switch {
			case ok:
				fn(r)
			case errors.Is(in.err, io.EOF):
				return nil
			default:
				return in.err
			}
		}
	}
}
