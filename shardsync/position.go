package shardsync

import (
	"fmt"
	"time"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/leases"
)

// Pin is where a lease starts that is taken for the first time by a Go worker and whose row does not say it, because a Java
// worker made it: Unix milliseconds, 0 for no pin. rows returns the stream's leases as last seen, ok is false if they were
// not read yet; it is called only if it matters.
//
// LATEST means the smallest StartAtMillis in the table, else the service's time when it last told it, less a second; the
// first answer holds for the life of the syncer. AT_TIMESTAMP means the time in the configuration; without one there the
// shard will start at TRIM_HORIZON. It does no I/O and may be called from any goroutine.
func (s *HierarchicalShardSyncer) Pin(l leases.Lease, rows func() (have []leases.Lease, ok bool)) int64 {
	if l.StartAtMillis != 0 {
		return l.StartAtMillis
	}
	switch l.Checkpoint {
	case checkpoint.AtTimestamp:
		if t, ok := s.opts.From.Timestamp(); ok {
			return t.UnixMilli()
		}
		s.log.Warn("a lease that another library made is to start AT_TIMESTAMP, which its row does not tell and InitialPosition does not either; the shard starts at TRIM_HORIZON",
			"lease", l.Key, "initial_position", positionText(s.opts.From))
	case checkpoint.Latest:
		return s.pinOfLatest(rows)
	}
	return 0
}

func (s *HierarchicalShardSyncer) pinOfLatest(rows func() ([]leases.Lease, bool)) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest != 0 {
		return s.latest
	}
	if have, ok := rows(); ok {
		s.latest = smallestPin(have)
	}
	if s.latest == 0 {
		s.latest, _ = s.latestNow()
	}
	return s.latest
}

// latestNow is what LATEST means now. A second less than the service's clock shows: its Date header has no fractions, and
// the clocks of its hosts differ a little. Without the service's time it is not known: our own clock may be ahead, and what
// is put until then would be missed.
func (s *HierarchicalShardSyncer) latestNow() (millis int64, ok bool) {
	now, ok := s.detector.ServiceTime()
	if !ok {
		if s.timeless.CompareAndSwap(false, true) {
			s.log.Warn("leases start at LATEST without a time, because the service does not tell its own; what is put before their first checkpoint is missed after a restart",
				"stream", s.opts.Stream)
		}
		return 0, false
	}
	return now.Add(-time.Second).UnixMilli(), true
}

// pin gives the leases that start at LATEST the time that it means.
func (s *HierarchicalShardSyncer) pin(missing []leases.Lease) {
	for i := range missing {
		l := &missing[i]
		if l.Checkpoint != checkpoint.Latest || l.StartAtMillis != 0 {
			continue
		}
		millis, ok := s.latestNow()
		if !ok {
			return
		}
		l.StartAtMillis = millis
	}
}

// adopt gives the leases of a decision that start at LATEST the time that another worker found for it.
func adopt(missing []leases.Lease, millis int64) {
	for i := range missing {
		if l := &missing[i]; l.Checkpoint == checkpoint.Latest && millis != 0 {
			l.StartAtMillis = millis
		}
	}
}

// warnOfOtherPosition says, once, that the table was begun at another position than the configured one, which therefore
// means nothing: a lease stays where it is.
func (s *HierarchicalShardSyncer) warnOfOtherPosition(have []leases.Lease) {
	began := otherPosition(have, s.opts.From)
	if began == "" || !s.moved.CompareAndSwap(false, true) {
		return
	}
	s.log.Warn("InitialPosition has no effect: the leases were begun at another one and keep their places; to start anew, stop the workers and delete the rows, or choose another ApplicationName",
		"stream", s.opts.Stream, "initial_position", positionText(s.opts.From), "begun", began)
}

// otherPosition describes the position at which the leases were begun if that is another one than from, "" if it is not, or
// if they do not tell. It is pure.
//
// A lease at a sentinel tells it, unless it is a child's, which starts at TRIM_HORIZON in any case. Later on the pin is left,
// which children inherit: there is none if the application began at TRIM_HORIZON, or if a Java worker made the leases.
func otherPosition(have []leases.Lease, from config.InitialPosition) string {
	var (
		begun  string
		pinned int64
		moved  bool // some lease has a checkpoint that tells nothing
	)
	for _, l := range have {
		switch {
		case l.Checkpoint == checkpoint.Latest:
			begun = "LATEST"
		case l.Checkpoint == checkpoint.AtTimestamp && l.StartAtMillis != 0:
			begun = "AT_TIMESTAMP " + timeText(time.UnixMilli(l.StartAtMillis))
		case l.Checkpoint == checkpoint.AtTimestamp:
			begun = "AT_TIMESTAMP"
		case l.Checkpoint == checkpoint.TrimHorizon && len(l.ParentShardIDs) == 0 && l.StartAtMillis == 0 && begun == "":
			begun = "TRIM_HORIZON"
		case !l.Checkpoint.IsSentinel():
			moved = true
		}
		if l.StartAtMillis != 0 {
			pinned = l.StartAtMillis
		}
	}
	t, timed := from.Timestamp()
	switch {
	case begun == "AT_TIMESTAMP" && timed: // a Java worker's: ours is the time that it gets
		return ""
	case begun != "":
		if begun == positionText(from) {
			return ""
		}
		return begun
	case pinned != 0 && timed && smallestPin(have) == t.UnixMilli(), pinned != 0 && from.IsLatest():
		return ""
	case pinned != 0:
		return "LATEST or AT_TIMESTAMP, as of " + timeText(time.UnixMilli(smallestPin(have)))
	case moved && (timed || from.IsLatest()):
		return "TRIM_HORIZON, or by another library, which does not write it down"
	}
	return ""
}

// future returns an error if AT_TIMESTAMP names a time that has not come yet by the service's own clock, which refuses to
// read from there: rows that start there could not be read, and would keep that time when the configuration is corrected.
func (s *HierarchicalShardSyncer) future() error {
	at, is := s.opts.From.Timestamp()
	now, known := s.detector.ServiceTime()
	if !is || !known || !at.After(now.Add(time.Minute)) {
		return nil
	}
	return &PermanentError{
		Doing:  "start at InitialPosition",
		Advice: "choose a time in the past, or LATEST",
		Err:    fmt.Errorf("it is %s, and the service's clock shows %s", timeText(at), timeText(now)),
	}
}

func positionText(from config.InitialPosition) string {
	if t, ok := from.Timestamp(); ok {
		return "AT_TIMESTAMP " + timeText(time.UnixMilli(t.UnixMilli()))
	}
	return from.String()
}

func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
