package retrieval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/hashkey"
	"github.com/shardlease/shardlease/internal/loop"
	"github.com/shardlease/shardlease/processor"
	"github.com/shardlease/shardlease/shardsync"
)

// trouble counts what has failed since the last page.
type trouble struct {
	failures int
	pause    loop.Backoff
	iterator int // how often the iterator was not accepted
}

// pauses sets how long to wait before the next try.
func (t *trouble) pauses(base, most time.Duration) { t.pause.Base, t.pause.Max = base, most }

// troubled is the reader's trouble, which begins if there was none.
func (r *reader) troubled() *trouble {
	if r.trouble == nil {
		r.trouble = &trouble{}
	}
	return r.trouble
}

// renewAfter failures in a row the iterator itself comes under suspicion: a server may answer 500 to one that it does not
// accept. A new one at the same place costs a request and nothing else.
const renewAfter = 3

// failed decides what follows a failed call, and waits for it. done means that the shard has ended.
func (r *reader) failed(ctx context.Context, what string, err error) (done bool, _ error) {
	if cause := context.Cause(ctx); cause != nil {
		return false, cause
	}
	t := r.troubled()
	kind := faultOf(err)
	if kind == refused && what == "get records" {
		kind = badIterator // all else that is refused there would be a fault of ours
	}
	t.failures++
	base, most := 100*time.Millisecond, 5*time.Second
	switch kind {
	case notFound:
		return r.vanished(ctx, what, err)
	case badIterator:
		r.iterator = nil
		if wasTrimmed(err) {
			r.place.recheck()
		}
		if t.iterator++; t.iterator == 1 {
			r.retried(what, err, 0)
			return false, nil
		}
	case throttled:
		r.pace.refused()
		base = 300 * time.Millisecond
	case denied, refused, skewed, inUse:
		base, most = time.Second, 30*time.Second
	case transient, badToken:
	}
	if t.failures%renewAfter == 0 && kind != throttled {
		r.iterator = nil
	}
	t.pauses(base, most)
	wait := t.pause.Next()
	if kind == throttled {
		wait = max(wait, r.pace.owes-r.clock.Since(r.heard))
	}
	return false, r.retryAfter(ctx, what, err, wait)
}

// retry reports a fault and pauses.
func (r *reader) retry(ctx context.Context, what string, err error) error {
	return r.retryAfter(ctx, what, err, r.troubled().pause.Next())
}

func (r *reader) retryAfter(ctx context.Context, what string, err error, wait time.Duration) error {
	r.retried(what, err, wait)
	return r.sleep(ctx, wait)
}

func (r *reader) retried(what string, err error, wait time.Duration) {
	if f := r.polling.opts.Hooks.Retried; f != nil {
		f(config.RetryEvent{
			Worker: r.polling.opts.Worker, LeaseKey: r.start.LeaseKey, What: what,
			Attempt: max(r.troubled().failures, 1), Wait: wait, Err: err,
		})
	}
}

// ended follows a page without a next iterator. If the shard has ended and not even the record was seen that was handled last, those that
// came after it may be lost with it.
func (r *reader) ended(ctx context.Context, what string, children []types.ChildShard, behind int64) (done bool, err error) {
	done, err = r.end(ctx, what, children, behind)
	if done && err == nil && r.place.unseen() {
		err = r.skip(config.TrimmedEvent{Gone: r.final.end.Gone})
	}
	return done && err == nil, err
}

// end finds out whether the shard has ended, and notes that in final. With children it is the last page. Without, the service is asked whether
// the shard is closed: a reply that is merely broken, taken for the end, would give up the rest of the shard.
func (r *reader) end(ctx context.Context, what string, children []types.ChildShard, behind int64) (done bool, err error) {
	r.final.behind = behind
	if out := childrenOf(children, r.start.ShardID); len(out) > 0 {
		r.final.end = &processor.End{Children: out}
		return true, nil
	}
	for {
		at, err := r.look(ctx)
		switch {
		case err != nil && errors.Is(err, shardsync.ErrStreamNotFound):
			return false, streamGone(err)
		case err != nil:
		case !at.listed:
			r.final.end = &processor.End{Children: at.children, Gone: true}
			return true, nil
		case at.open:
			r.troubled().failures++
			r.troubled().pauses(100*time.Millisecond, 5*time.Second)
			return false, r.retry(ctx, what, errors.New("the reply is that of a shard at its end, but the shard is open; going on from the last record"))
		case at.inherited:
			r.final.end = &processor.End{Children: at.children}
			return true, nil
		default:
			// Closing a shard and opening its children are one act, which a listing may show half done. To go on without
			// a child would leave its records unread until an audit finds the hole.
			err = errors.New("the shard is closed and not all of its children are listed yet")
		}
		if cause := context.Cause(ctx); cause != nil {
			return false, cause
		}
		r.troubled().failures++
		r.troubled().pauses(200*time.Millisecond, 10*time.Second)
		if err := r.retry(ctx, "look for the shard's children", err); err != nil {
			return false, err
		}
	}
}

// vanished follows ResourceNotFound. The stream may be gone, or the shard may have left retention, or this is another stream,
// which never had such a shard, or none of that. Only a shard that left retention has ended; then the shards that followed
// it are listed. To end a shard because it is merely not listed would finish the lease of a shard of another stream, whose
// records nobody would read any more.
func (r *reader) vanished(ctx context.Context, what string, cause error) (done bool, err error) {
	at, err := r.look(ctx)
	switch {
	case err != nil && errors.Is(err, shardsync.ErrStreamNotFound):
		return false, streamGone(err)
	case err == nil && !at.listed && !at.followed:
		return false, r.detector().permanent(r.start.Stream, fmt.Sprintf("read shard %s of stream %q", r.start.ShardID, r.start.Stream),
			fmt.Errorf("%w: it has no such shard, and no shards that followed it", shardsync.ErrOtherHistory))
	case err == nil && !at.listed:
		if err := r.skip(config.TrimmedEvent{Gone: true}); err != nil {
			return false, err
		}
		r.final.end = &processor.End{Children: at.children, Gone: true}
		return true, nil
	case context.Cause(ctx) != nil:
		return false, context.Cause(ctx)
	}
	if err != nil {
		cause = fmt.Errorf("%w (and %w)", cause, err)
	}
	r.iterator = nil
	r.troubled().pauses(time.Second, 30*time.Second)
	return false, r.retry(ctx, what, cause)
}

// streamGone is a final error. The shard has not ended: should the stream come back under its name, that is another
// history, and to mark the lease finished would leave it unread.
func streamGone(err error) error {
	return fmt.Errorf("the stream is gone: %w", err)
}

// otherHistory follows a place that the service refuses. If it is a record older than the shard, the stream was deleted and
// created anew under its name, and no repetition helps: the error is final and says so. Of any other reason nothing is known
// here; it is looked for once in the life of a source.
func (r *reader) otherHistory(ctx context.Context, in *kinesis.GetShardIteratorInput) error {
	if in.StartingSequenceNumber == nil || r.placed {
		return nil
	}
	d := r.detector()
	shards, err := d.ListShards(ctx, r.start.Stream, shardsync.Filter{})
	if err != nil {
		return nil //nolint:nilerr // the refusal itself is reported
	}
	r.placed = true
	number := *in.StartingSequenceNumber
	for _, s := range shards {
		first := checkpoint.ExtendedSequenceNumber{SequenceNumber: s.StartingSequenceNumber}
		if s.ID != r.start.ShardID || s.StartingSequenceNumber == "" || first.Compare(checkpoint.ExtendedSequenceNumber{SequenceNumber: number}) <= 0 {
			continue
		}
		cause := fmt.Errorf("%w: the shard begins at sequence number %s, but was read up to %s", shardsync.ErrOtherHistory, s.StartingSequenceNumber, number)
		if err := d.Check(ctx, r.start.Stream); err == nil {
			if t, known := d.Created(); known {
				cause = fmt.Errorf("%w; this stream was created at %s", cause, stamp(t))
			}
		}
		return d.permanent(r.start.Stream, fmt.Sprintf("read shard %s of stream %q", s.ID, r.start.Stream), cause)
	}
	return nil
}

// listing is what ListShards says of our shard.
type listing struct {
	listed, open bool
	children     []processor.ChildShard
	inherited    bool // the children hold all of its hash keys
	followed     bool // if it is not listed: others are listed that follow it
}

func (r *reader) detector() *KinesisShardDetector {
	p := r.polling
	return NewShardDetector(r.api(), DetectorOptions{
		StreamARN: r.start.StreamARN, RequestTimeout: p.cfg.RequestTimeout, Worker: p.opts.Worker, Logger: p.log, Hooks: p.opts.Hooks,
	})
}

func (r *reader) look(ctx context.Context) (listing, error) {
	d := r.detector()
	shards, err := d.ListShards(ctx, r.start.Stream, shardsync.Filter{})
	if err != nil {
		return listing{}, err
	}
	var (
		at   listing
		keys hashkey.Range
		had  []hashkey.Range // by the children
	)
	for _, s := range shards {
		if s.ID == r.start.ShardID {
			at.listed, at.open, keys = true, s.Open(), s.HashKeyRange
		}
		if parents := s.ParentIDs(); slices.Contains(parents, r.start.ShardID) {
			had = append(had, s.HashKeyRange)
			at.children = append(at.children, processor.ChildShard{
				ID: s.ID, ParentIDs: parents,
				StartingHashKey: s.HashKeyRange.Start.String(), EndingHashKey: s.HashKeyRange.End.String(),
			})
		}
	}
	at.inherited = hold(had, keys)
	at.followed = len(at.children) > 0 || followed(shards, r.start, r.place)
	api, ok := r.api().(LineageAPI)
	if !ok {
		return at, nil
	}
	at.byLineage(api.Ended(r.start.StreamARN))
	if !at.listed && !at.followed {
		// The lease is one of this stream: Start says so. A stream that is there and does not list the shard has forgotten it.
		if err := d.Check(ctx, r.start.Stream); err != nil {
			return listing{}, err
		}
		at.followed = true
	}
	return at, nil
}

// followed reports whether listed shards prove that ours, which is not listed and is nobody's listed parent, was there before
// them: all that share hash keys with it are younger, by their ids and by what we have read, and together they hold all of
// its keys.
func followed(shards []shardsync.Shard, start target, at place) bool {
	if !start.HashKeyRange.Known {
		return false
	}
	var heirs []hashkey.Range
	read := at.read()
	for _, s := range shards {
		if !s.HashKeyRange.Overlaps(start.HashKeyRange) {
			continue
		}
		first := checkpoint.ExtendedSequenceNumber{SequenceNumber: s.StartingSequenceNumber}
		if s.ID <= start.ShardID || read != "" && first.Compare(checkpoint.ExtendedSequenceNumber{SequenceNumber: read}) <= 0 {
			return false
		}
		heirs = append(heirs, s.HashKeyRange)
	}
	return hold(heirs, start.HashKeyRange)
}

// hold reports whether ranges together hold all keys of another. It sorts them.
func hold(ranges []hashkey.Range, all hashkey.Range) (done bool) {
	slices.SortFunc(ranges, hashkey.Range.Compare)
	next := all.Start
	for _, r := range ranges {
		if done || next.Compare(r.Start) < 0 {
			break
		}
		if r.End.Compare(next) < 0 {
			continue
		}
		if done = r.End.Compare(all.End) >= 0; !done {
			next, _ = r.End.Next()
		}
	}
	return done
}

// childrenOf reads a reply's children. They count only if every one is whole: it names us among its parents.
func childrenOf(in []types.ChildShard, id string) []processor.ChildShard {
	out := make([]processor.ChildShard, 0, len(in))
	for _, c := range in {
		if text(c.ShardId) == "" || !slices.Contains(c.ParentShards, id) || c.HashKeyRange == nil {
			return nil
		}
		out = append(out, processor.ChildShard{
			ID: *c.ShardId, ParentIDs: c.ParentShards,
			StartingHashKey: text(c.HashKeyRange.StartingHashKey), EndingHashKey: text(c.HashKeyRange.EndingHashKey),
		})
	}
	return out
}
