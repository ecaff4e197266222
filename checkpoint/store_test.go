package checkpoint

import (
	"context"
	"errors"
	"sync"
)

var errTable = errors.New("table unreachable")

// outcome is how a write ends.
type outcome int

const (
	lands     outcome = iota
	replyLost         // it lands, and the caller hears errTable
	dropped           // it does not land, and the caller hears errTable
	notOwner          // it does not land: the lease is lost
)

// memoryStore keeps a row, and remembers what was written to it.
type memoryStore struct {
	mu      sync.Mutex
	row     ExtendedSequenceNumber
	pending *Pending
	writes  []ExtendedSequenceNumber // checkpoints that landed
	calls   int                      // all writes tried
	next    outcome                  // of the next writes
	busy    bool

	entered chan ExtendedSequenceNumber // if not nil, each write sends here
	release chan struct{}               // and then waits for this
}

func (s *memoryStore) WriteCheckpoint(ctx context.Context, at ExtendedSequenceNumber) error {
	return s.write(ctx, at, func() {
		s.row, s.pending = at, nil
		s.writes = append(s.writes, at)
	})
}

func (s *memoryStore) WritePending(ctx context.Context, p Pending) error {
	return s.write(ctx, p.At, func() { s.pending = &p })
}

func (s *memoryStore) write(ctx context.Context, at ExtendedSequenceNumber, apply func()) error {
	s.mu.Lock()
	if s.busy {
		s.mu.Unlock()
		return errors.New("two writes at once")
	}
	s.busy = true
	s.mu.Unlock()
	if s.entered != nil {
		s.entered <- at
		select {
		case <-s.release:
		case <-ctx.Done():
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = false
	s.calls++
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.next == lands || s.next == replyLost {
		apply()
	}
	switch s.next {
	case replyLost, dropped:
		return errTable
	case notOwner:
		return ErrLeaseLost
	case lands:
	}
	return nil
}
