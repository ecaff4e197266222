package loop

import "sync"

// Latch is closed once, and can be waited for as a channel can. It has one only once somebody waits, so that ten thousand of them for which
// nobody does cost little. The zero value is open; it must not be copied. All methods are safe for concurrent use.
type Latch struct {
	mu     sync.Mutex
	closed bool
	done   chan struct{} // nil unless somebody waits
}

// Close closes the latch, if it is open.
func (l *Latch) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed && l.done != nil {
		close(l.done)
	}
	l.closed = true
}

// Closed reports whether it is.
func (l *Latch) Closed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// Done is closed with the latch.
func (l *Latch) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done == nil {
		l.done = make(chan struct{})
		if l.closed {
			close(l.done)
		}
	}
	return l.done
}
