package leases

import (
	"errors"
	"fmt"
	"time"

	"github.com/shardlease/shardlease/checkpoint"
)

// late is a checkpoint that was accepted and waits for its write.
type late struct {
	at    checkpoint.ExtendedSequenceNumber
	by    time.Time // when it is to be written at the latest
	ended func(at checkpoint.ExtendedSequenceNumber, elapsed time.Duration, err error)
}

// DeferCheckpoint implements [checkpoint.Deferrer], if LeaseManagement.CheckpointInterval is set: the next write of the row, which
// is the next renewal unless CheckpointInterval is over sooner, carries the newest checkpoint. A write of unknown outcome
// is repeated with it. When the lease ends it is dropped; [LeaseRenewer.Release] writes it before.
func (h *Held) DeferCheckpoint(
	at checkpoint.ExtendedSequenceNumber, ended func(at checkpoint.ExtendedSequenceNumber, elapsed time.Duration, err error),
) (bool, error) {
	r := h.renewer
	if r.cfg.CheckpointInterval == 0 {
		return false, nil
	}
	now := stampOf(h.clock)
	if r.overdue(h, now) {
		<-h.ctx.Done() // whoever ends a lease cancels it right after
		return false, h.ended()
	}
	l := &late{at: at, by: now.mono.Add(r.cfg.CheckpointInterval), ended: ended}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch old := h.late; {
	case h.gone:
		return false, fmt.Errorf("lease %s: %w", h.key, ErrLeaseLost)
	case old != nil && old.at.Compare(at) > 0: // of an earlier consumer of this tenure
		return true, nil
	case old != nil && old != h.sent: // its time is up first
		l.by = old.by
	}
	h.late = l
	if r.hasten(h) {
		r.wake()
	}
	return true, nil
}

// hasten makes the next renewal due when the checkpoint that waits has to be written, and reports whether that is sooner. A row
// that does not answer keeps its pauses. The caller holds mu.
func (r *LeaseRenewer) hasten(h *Held) bool {
	if h.late == nil || h.late == h.sent || h.failures > 0 || !h.late.by.Before(h.due) {
		return false
	}
	h.due = h.late.by
	r.agenda.reschedule(h)
	return true
}

// lags reports whether a checkpoint waits for its write.
func (h *Held) lags() bool {
	h.renewer.mu.Lock()
	defer h.renewer.mu.Unlock()
	return h.late != nil
}

// load puts what waits into a write, unless that has a checkpoint of its own, and returns it. The caller holds the slot.
func (h *Held) load(u *Update) *late {
	h.renewer.mu.Lock()
	defer h.renewer.mu.Unlock()
	if u.Checkpoint != nil || h.late == nil {
		return nil
	}
	h.sent = h.late
	u.Checkpoint = &h.sent.at
	return h.sent
}

// unload takes in how the write ended that l was loaded into. A checkpoint accepted meanwhile goes on waiting. A write that
// failed leaves l waiting for the next one, unless the row is ahead of it.
func (h *Held) unload(l *late, u Update, asked stamp, err error) {
	_, ahead := errors.AsType[*RegressError](err)
	r := h.renewer
	r.mu.Lock()
	h.sent = nil
	durable := err == nil && !h.gone
	if waits := h.late; waits != nil && u.Checkpoint != nil && (durable && waits.at.Compare(*u.Checkpoint) <= 0 || ahead && waits == l) {
		h.late = nil
	}
	r.hasten(h) // before the renewal that this write has put off
	r.mu.Unlock()
	if l != nil && (durable || ahead) {
		l.ended(l.at, h.clock.Now().Sub(asked.mono), err)
	}
}

var _ checkpoint.Deferrer = (*Held)(nil)
