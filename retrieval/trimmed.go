package retrieval

import (
	"time"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/processor"
)

// leastRetention is less than any stream keeps its records (24 h is the shortest that can be set), by the hour that clocks may be
// wrong. A reader that has been answered within that time has missed nothing.
const leastRetention = 23 * time.Hour

// mayBeTrimmed reports whether what follows the last record may have been trimmed since: the reader was, or is by now, further behind
// than what every stream keeps. Wall time counts, not the monotonic clock, which stands still while the machine is suspended.
func (r *reader) mayBeTrimmed() bool {
	return !r.heard.IsZero() && r.lag+r.clock.Now().Round(0).Sub(r.heard.Round(0)) > leastRetention
}

// recheck makes the next position one that shows whether it is still there, if it may not be. Otherwise reading goes on after the last
// record, which may have been trimmed long ago without any loss, as in a shard in which nothing happened.
//
// A shard of a LineageAPI takes no records any more long before its first ones are trimmed. So a reader that stands at a record of it
// which is trimmed has not read all that came after.
func (r *reader) recheck() {
	_, lineage := r.api().(LineageAPI)
	if r.mayBeTrimmed() || lineage && r.place.last == "" {
		r.place.recheck()
	}
}

// trimmed looks at a page before it is handed over, and tells if records between the position that was asked for and the first
// record that came may be lost. The error says that nothing is to be handed over any more.
func (r *reader) trimmed(page []processor.Record) error {
	if !r.place.lacks(page) {
		return nil
	}
	return r.skip(config.TrimmedEvent{First: page[0].SequenceNumber, FirstArrival: page[0].ApproximateArrival})
}

// skip tells of records that may be lost. The error is the configuration's no to going on without them.
func (r *reader) skip(ev config.TrimmedEvent) error {
	ev.Worker, ev.LeaseKey = r.polling.opts.Worker, r.start.LeaseKey
	ev.Stream, ev.ShardID = r.start.Stream, r.start.ShardID
	ev.Position = r.place.position()
	ev.Failed = r.polling.cfg.OnTrimmed == config.FailRun
	if f := r.polling.opts.Hooks.Trimmed; f != nil {
		f(ev)
	}
	if ev.Failed {
		return &processor.TrimmedError{TrimmedEvent: ev}
	}
	return nil
}
