package retrieval

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/hashkey"
	"github.com/shardlease/shardlease/internal/loop"
	"github.com/shardlease/shardlease/processor"
	"github.com/shardlease/shardlease/retrieval/kpl"
)

// reader fetches one shard's pages. It is one goroutine, or none while it rests, and all of it belongs to that goroutine but queue; final may be
// read once that is over.
type reader struct {
	polling *Polling
	start   target
	clock   *loop.Clock
	timer   *loop.Timer // one for all waits; nil while it rests
	account account

	place    place
	pace     pace
	iterator *string
	want     int64         // bytes that the next page may have
	perRec   int64         // bytes of a record, 0 if none was seen
	trouble  *trouble      // nil if there is none
	placed   bool          // a refused place was looked into
	admitted bool          // it has a turn, for the request that it is about to make
	heard    time.Time     // when the last answer with which reading went on was asked for; zero if there was none
	lag      time.Duration // how far behind the shard was then
	queue    queue
	final    struct {
		end    *processor.End
		behind int64
		err    error
	}
}

// What a page may need.
const (
	// recordBytes is what a record takes beside its data, key and number: our struct and the allocator's rounding.
	recordBytes = 144
	// mostBytes is the largest page: 10 MiB of data, with what 10,000 records take beside it.
	mostBytes = 12 << 20
	// fewBytes is what a shard takes in in a second. A page of a shard that was idle holds no more.
	fewBytes = 1 << 20
)

// target is what of a [Start] a reader needs as long as it lives.
type target struct {
	Stream, StreamARN, ShardID, LeaseKey string

	API          KinesisAPI
	HashKeyRange hashkey.Range
	From         checkpoint.ExtendedSequenceNumber
}

// aMoment is a rest after which the reader goes on as soon as there is a turn.
const aMoment = time.Nanosecond

// run reads until the shard ends, which it notes in final, until ctx is done, or until nothing is to be read for rest: see source.
func (r *reader) run(ctx context.Context) (rest time.Duration, err error) {
	for {
		if !r.admitted && r.polling.turns.taken() {
			return aMoment, nil // to wait for it without a goroutine
		}
		if r.iterator == nil {
			if done, err := r.open(ctx); done || err != nil {
				return 0, err
			}
			if r.iterator == nil {
				continue
			}
		}
		if err := context.Cause(ctx); err != nil {
			return 0, err
		}
		began := r.clock.Now()
		next, done, err := r.read(ctx)
		if done || err != nil {
			return 0, err
		}
		if rest = next - r.clock.Since(began); rest > 0 {
			return rest, nil
		}
	}
}

// open makes an iterator at the place where the reader stands. It returns without one after a fault that it has waited for.
func (r *reader) open(ctx context.Context) (done bool, err error) {
	r.recheck()
	in := &kinesis.GetShardIteratorInput{StreamName: &r.start.Stream, StreamARN: optional(r.start.StreamARN), ShardId: &r.start.ShardID}
	r.place.iterator(in)
	var out *kinesis.GetShardIteratorOutput
	err = r.request(ctx, func(ctx context.Context) (err error) {
		out, err = r.api().GetShardIterator(ctx, in, ourRetries...)
		return err
	})
	if err == nil && text(out.ShardIterator) == "" {
		err = errors.New("the service answers without an iterator")
	}
	if err != nil {
		if faultOf(err) == refused {
			if err := r.otherHistory(ctx, in); err != nil {
				return false, err
			}
			err = fmt.Errorf("start at %s: %w", describe(in), err)
		}
		return r.failed(ctx, "get shard iterator", err)
	}
	r.iterator = out.ShardIterator
	if now, ok := middleware.GetServerTime(out.ResultMetadata); ok {
		r.place.opened(in, now)
	}
	return false, nil
}

// api is the client of the reader's stream.
func (r *reader) api() KinesisAPI {
	if r.start.API != nil {
		return r.start.API
	}
	return r.polling.api
}

// describe is a place for an error message.
func describe(in *kinesis.GetShardIteratorInput) string {
	switch {
	case in.StartingSequenceNumber != nil:
		return fmt.Sprintf("%s %s (is it of another stream?)", in.ShardIteratorType, *in.StartingSequenceNumber)
	case in.Timestamp != nil:
		return fmt.Sprintf("%s %s (is it in the future?)", in.ShardIteratorType, in.Timestamp.UTC().Format(time.RFC3339Nano))
	}
	return string(in.ShardIteratorType)
}

// read fetches one page and delivers it. It returns how long after the start of this read the next one may start.
func (r *reader) read(ctx context.Context) (next time.Duration, done bool, err error) {
	b := r.polling.budget
	granted, err := b.claim(ctx, &r.account, r.want, r.yield)
	if err != nil {
		return 0, false, err
	}
	limit := r.limit(granted)
	began := r.clock.Now()
	in := &kinesis.GetRecordsInput{ShardIterator: r.iterator, Limit: &limit, StreamARN: optional(r.start.StreamARN)}
	var out *kinesis.GetRecordsOutput
	err = r.request(ctx, func(ctx context.Context) (err error) {
		if out, err = r.api().GetRecords(ctx, in, ourRetries...); err == nil && len(out.Records) > 0 {
			err = numbered(text(out.Records[len(out.Records)-1].SequenceNumber))
		}
		return err
	})
	if err != nil {
		b.settle(&r.account, granted, 0, 0)
		r.fetched(config.FetchEvent{Elapsed: r.clock.Since(began), Err: err})
		if cause := context.Cause(ctx); cause != nil {
			return 0, false, cause
		}
		done, err = r.failed(ctx, "get records", err)
		return 0, done, err
	}
	r.heard = began
	if text(out.NextShardIterator) != "" { // one without is trouble by itself if the shard goes on: see end
		r.trouble = nil
	}

	page, data := records(out.Records)
	if err := r.trimmed(page); err != nil {
		b.settle(&r.account, granted, 0, 0)
		return 0, false, err
	}
	came := len(page)
	page = r.place.advance(page, r.expand)
	// Aggregates count as they came, since user records are slices of them; but each has a struct.
	bytes := data + int64(max(came, len(page)))*recordBytes
	b.settle(&r.account, granted, bytes, came)
	var behind int64
	if out.MillisBehindLatest != nil {
		behind = *out.MillisBehindLatest
	}
	r.lag = time.Duration(behind) * time.Millisecond
	r.fetched(config.FetchEvent{Records: came, Bytes: int(data), MillisBehindLatest: behind, Elapsed: r.clock.Since(began)})
	if came > 0 {
		r.perRec = max(bytes/int64(came), 1)
	}
	r.want = min(max(4*bytes, fewBytes), mostBytes)
	full := came >= int(limit) || data >= fewBytes

	r.iterator = out.NextShardIterator
	n := len(page) // what the checkpoint covers is nothing new: see pace.opening
	if err := r.deliver(ctx, page, behind, bytes); err != nil {
		return 0, false, err
	}
	if text(r.iterator) == "" {
		r.iterator = nil
		done, err := r.ended(ctx, "get records", out.ChildShards, behind)
		return 0, done, err
	}
	// Between two pages of a good iterator records may be trimmed as well. Only after a page that has brought us further: where nothing
	// is, the iterator alone knows how far we are.
	if came > 0 && r.place.last != "" && r.mayBeTrimmed() {
		r.iterator = nil
	}
	return r.pace.after(n, data, full, behind), false, nil
}

// limit is how many records are likely to fit into so many bytes. Before any shard of the worker has seen a record, one
// counts as large: shards that all start at once would overdraw the budget by what they guess too low, and the first page
// of the first of them tells the others.
func (r *reader) limit(bytes int64) int32 {
	most := int64(r.polling.cfg.MaxRecords)
	if bytes >= mostBytes {
		return int32(most)
	}
	each := r.perRec
	if each == 0 {
		each = r.polling.budget.recordBytes()
	}
	if each == 0 {
		each = 32 << 10
	}
	return int32(min(max(bytes/each, 1), most))
}

// records makes our records of the SDK's without copying data. bytes is what they hold.
func records(in []types.Record) (out []processor.Record, bytes int64) {
	if len(in) == 0 {
		return nil, 0
	}
	out = make([]processor.Record, len(in))
	for i := range in {
		r, o := &in[i], &out[i]
		o.SequenceNumber, o.PartitionKey, o.Data = text(r.SequenceNumber), text(r.PartitionKey), r.Data
		if r.ApproximateArrivalTimestamp != nil {
			o.ApproximateArrival = *r.ApproximateArrivalTimestamp
		}
		bytes += int64(len(o.Data) + len(o.PartitionKey) + len(o.SequenceNumber))
	}
	return out, bytes
}

// numbered refuses an answer whose last record has no sequence number: nothing of it could be checkpointed, nor read on from.
func numbered(last string) error {
	at, err := checkpoint.Parse(last)
	if err == nil && at.IsSentinel() {
		err = fmt.Errorf("%s is no number", last)
	}
	if err != nil {
		return fmt.Errorf("the answer's last record has no sequence number: %w", err)
	}
	return nil
}

// expand takes a page's aggregates apart. If that is switched off there is one exception: of an aggregate in which the
// checkpoint lies some user records are still to come, and the whole would be a record that the checkpoint covers.
func (r *reader) expand(page []processor.Record) []processor.Record {
	var whole []processor.Record
	if !r.polling.cfg.Deaggregate {
		if len(page) == 0 || page[0].Position().Compare(r.start.From) >= 0 {
			return page
		}
		page, whole = page[:1:1], page[1:]
	}
	out := kpl.Expand(page, r.start.HashKeyRange)
	if f := r.polling.opts.Hooks.Deaggregated; f != nil && out.Aggregates+out.Damaged > 0 {
		f(config.DeaggregateEvent{
			Worker: r.polling.opts.Worker, LeaseKey: r.start.LeaseKey,
			Aggregates: out.Aggregates, Users: out.Users, Outside: out.Outside, Damaged: out.Damaged, Err: out.Err,
		})
	}
	return append(out.Records, whole...)
}

// deliver hands a page to the consumer; it waits while the consumer has enough. A page without new records says how far
// behind the shard is, which only a consumer that waits for it wants to know.
func (r *reader) deliver(ctx context.Context, page []processor.Record, behind, bytes int64) error {
	b := r.polling.budget
	if len(page) == 0 {
		b.release(&r.account, bytes)
		r.queue.offer(processor.Batch{MillisBehindLatest: behind, Release: func() {}})
		return nil
	}
	return r.queue.put(ctx, processor.Batch{
		Records: page, MillisBehindLatest: behind, Release: sync.OnceFunc(func() { b.release(&r.account, bytes) }),
	})
}

func (r *reader) fetched(ev config.FetchEvent) {
	if f := r.polling.opts.Hooks.Fetched; f != nil {
		ev.Worker, ev.LeaseKey = r.polling.opts.Worker, r.start.LeaseKey
		f(ev)
	}
}

// sleep is loop.Clock.Sleep with the reader's one timer.
func (r *reader) sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	r.arm(d)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-r.timer.C:
		return nil
	}
}

// disarm is called when the reader has ended, or rests.
func (r *reader) disarm() {
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
}

// arm makes the reader's timer fire after d.
func (r *reader) arm(d time.Duration) {
	if r.timer == nil {
		r.timer = r.clock.NewTimer(d)
	} else {
		r.timer.Reset(d)
	}
}
