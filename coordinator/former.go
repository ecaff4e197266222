package coordinator

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shardlease/shardlease/config"
)

// formerStreams is what is known of streams whose leases are there although nobody wants them read.
type formerStreams struct {
	// Since is when each stream was first found so, by this worker's own clock. A stream stays in it until it is wanted again
	// or has no leases any more. Every worker keeps its own, so that another leader does not wait anew.
	Since map[string]time.Time
	// Due are those whose leases are to be deleted now, in order.
	Due []string
}

// look decides what becomes of former streams, given those that have leases, and of them those that are wanted and those
// that the service has deleted. It is pure. listed are the streams that config.DeleteListed is about.
//
// A wanted stream is never due, whatever else is said of it.
func (f formerStreams) look(now time.Time, policy config.FormerStreamsConfig, listed, inTable []string, wanted, deleted func(string) bool) formerStreams {
	next := formerStreams{Since: map[string]time.Time{}}
	for _, id := range slices.Sorted(slices.Values(inTable)) {
		if wanted(id) {
			continue
		}
		since, before := f.Since[id]
		if !before {
			since = now
		}
		next.Since[id] = since
		may := policy.Deletion == config.DeleteAfterWait || policy.Deletion == config.DeleteListed && slices.Contains(listed, id)
		if may && (now.Sub(since) >= policy.Wait || deleted(id)) {
			next.Due = append(next.Due, id)
		}
	}
	return next
}

// merge makes of the streams that are named now, and those that were wanted before, those that are wanted now: what was
// found out of a stream's identifier, and told of it, is kept as long as it is named, also if that is by its name now and was by its ARN
// before. removed are those that are wanted no more. Of two that are, or may be, the same stream the second has a fault; only one that is configured in
// the very same way is left out without a fault. It is pure.
func merge(before []wanted, named []config.StreamConfig) (now, removed []wanted) {
	var kept []int // of before
	for n, cfg := range named {
		w := wanted{cfg: cfg, fault: cfg.Validate()}
		w.id, w.whole = cfg.Identifier()
		if slices.ContainsFunc(named[:n], func(o config.StreamConfig) bool { return sameName(o, cfg) && samePosition(o, cfg) }) {
			continue
		}
		// Not of now, where a position may be that of an earlier answer.
		if first := slices.IndexFunc(named[:n], func(o config.StreamConfig) bool { return sameName(o, cfg) }); first >= 0 {
			w.again = true
			w.fault = cmp.Or(w.fault, againError(cfg, named[first]))
		}
		if i := slices.IndexFunc(now, func(o wanted) bool { return o.fault == nil && o.cfg.MayBe(cfg) }); i >= 0 && w.fault == nil {
			w.fault = twiceError(cfg, now[i].cfg)
		}
		i := slices.IndexFunc(before, func(o wanted) bool { return sameName(o.cfg, cfg) && o.again == w.again })
		if i >= 0 {
			w.blamed = before[i].blamed
		}
		if w.fault == nil && (i < 0 || !before[i].added) {
			if other := respelled(before, named, cfg); other >= 0 {
				i = other
			}
		}
		if i >= 0 {
			kept = append(kept, i)
			if w.added = before[i].added; before[i].whole {
				w.id, w.whole = before[i].id, true
			}
			w.cfg.InitialPosition = positionOf(w, before[i])
		}
		now = append(now, w)
	}
	for i, w := range before {
		if !slices.Contains(kept, i) {
			removed = append(removed, w)
		}
	}
	return now, removed
}

// respelled is the index of the stream of cfg among those that were wanted before and are not named any more as they were, -1 if there is none.
func respelled(before []wanted, named []config.StreamConfig, cfg config.StreamConfig) int {
	return slices.IndexFunc(before, func(o wanted) bool {
		return o.added && o.cfg.MayBe(cfg) && (!o.whole || cfg.IsOf(o.id)) &&
			!slices.ContainsFunc(named, func(c config.StreamConfig) bool { return sameName(c, o.cfg) })
	})
}

// againError says that a stream was named with two positions. It has no times, which a tracker may compute anew for each answer: another fault is told again.
func againError(cfg, first config.StreamConfig) error {
	kind := func(c config.StreamConfig) string {
		kind, _, _ := strings.Cut(c.InitialPosition.String(), " ")
		return kind
	}
	return fmt.Errorf("it is named %s again, with another InitialPosition (%s after %s), want each stream once: the first counts", spelled(cfg), kind(cfg), kind(first))
}

// twiceError says that two configurations name one stream, as far as can be known.
func twiceError(cfg, first config.StreamConfig) error {
	err := fmt.Errorf("it is named %s, want each stream once: %s is or may be the same", spelled(cfg), spelled(first))
	if apart := cfg.ToTellApart(first); apart != "" {
		err = fmt.Errorf("%w: %s", err, apart)
	}
	return err
}

// spelled is how a configuration names its stream.
func spelled(cfg config.StreamConfig) string {
	return strconv.Quote(cmp.Or(cfg.StreamARN, cfg.StreamName))
}

// positionOf is where a stream starts that is named again. A tracker may compute a time anew for each answer; that of the first one counts,
// or what works on the stream would be made anew each minute, and with it what audits and cleanup remember.
func positionOf(now, before wanted) config.InitialPosition {
	_, moving := now.cfg.InitialPosition.Timestamp()
	if _, moved := before.cfg.InitialPosition.Timestamp(); moving && moved && now.fault == nil && before.fault == nil {
		return before.cfg.InitialPosition
	}
	return now.cfg.InitialPosition
}

// sameName reports whether two configurations name a stream in the same way; they may differ in the rest.
func sameName(a, b config.StreamConfig) bool {
	x, _ := a.Identifier()
	y, _ := b.Identifier()
	return x == y && a.StreamARN == b.StreamARN
}

// samePosition reports whether two configurations start at one position.
func samePosition(a, b config.StreamConfig) bool {
	return a.InitialPosition.String() == b.InitialPosition.String()
}
