package leases

import "time"

// flow measures how fast a shard is read, for the attribute throughputKBps: strategies that share leases by load go by it. It is
// a value and reads no clock. (KCL: LeaseStatsRecorder)
type flow struct {
	bytes int64     // of records handled since then
	since time.Time // when the last figure was made
	kBps  float64   // smoothed
	known bool      // kBps is a figure; false until the first byte
}

// flowOf is the flow of a lease just taken. It goes on from the figure of the owner before, which is better than none.
func flowOf(l Lease, at time.Time) flow {
	return flow{since: at, kBps: l.ThroughputKBps, known: l.HasThroughput}
}

// next makes a figure once about an interval has passed since the one before, however often the row is written: the mean of that
// one and what came since. Before the first byte there is none, and the row counts as any other. ok is false if there is
// nothing to write.
func (f flow) next(now time.Time, interval time.Duration) (_ flow, ok bool) {
	passed := now.Sub(f.since)
	if passed < interval*9/10 || passed <= 0 || !f.known && f.bytes == 0 {
		return f, false
	}
	rate := float64(f.bytes) / 1024 / passed.Seconds()
	if f.known {
		rate = (f.kBps + rate) / 2
	}
	return flow{since: now, kBps: rate, known: true}, true
}

// Processed tells how many bytes of records were handled under the lease. The row shows the rate, smoothed, from the next renewals
// or checkpoints on.
func (h *Held) Processed(bytes int) {
	h.renewer.mu.Lock()
	defer h.renewer.mu.Unlock()
	h.flow.bytes += int64(bytes)
}

// throughput is what a write that is about to be sent says about it; nil if nothing.
func (h *Held) throughput(now time.Time) *float64 {
	h.renewer.mu.Lock()
	defer h.renewer.mu.Unlock()
	next, ok := h.flow.next(now, h.renewer.cfg.RenewInterval)
	h.flow = next
	if !ok {
		return nil
	}
	return &next.kBps
}
