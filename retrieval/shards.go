package retrieval

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	smithymiddleware "github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/hashkey"
	"github.com/shardlease/shardlease/internal/loop"
	"github.com/shardlease/shardlease/shardsync"
)

// DetectorOptions are what a [KinesisShardDetector] may be told.
type DetectorOptions struct {
	StreamARN      string        // sent with every request if not empty; needed for a stream of another account
	Region         string        // for error messages
	RequestTimeout time.Duration // of one request; default 30s
	Worker         string        // for hooks
	Logger         *slog.Logger  // may be nil
	Hooks          *config.Hooks // may be nil: Retried
	// CreationEpoch is when the stream was created, in Unix seconds, 0 if that does not matter: one that was created at
	// another time is taken for another stream.
	CreationEpoch int64
}

// KinesisShardDetector lists shards with ListShards. Its methods may run at the same time.
// (KCL: KinesisShardDetector)
type KinesisShardDetector struct {
	api         KinesisAPI
	opts        DetectorOptions
	serviceTime atomic.Pointer[time.Time]
	created     atomic.Pointer[time.Time] // when the stream was, as first seen
	arn         atomic.Pointer[string]    // as last seen
}

var _ shardsync.ShardDetector = (*KinesisShardDetector)(nil)

// NewShardDetector makes a detector. It does no I/O.
func NewShardDetector(api KinesisAPI, opts DetectorOptions) *KinesisShardDetector {
	if opts.RequestTimeout <= 0 {
		opts.RequestTimeout = defaultRequestTimeout
	}
	if opts.Hooks == nil {
		opts.Hooks = &config.Hooks{}
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &KinesisShardDetector{api: api, opts: opts}
}

const defaultRequestTimeout = 30 * time.Second

// tries is how often one request is repeated for a passing reason, about half a minute in all; then the caller learns of it.
const tries = 15

// ServiceTime is what the service's own clock showed when it last answered, in whole seconds.
func (d *KinesisShardDetector) ServiceTime() (time.Time, bool) {
	if t := d.serviceTime.Load(); t != nil {
		return *t, true
	}
	return time.Time{}, false
}

// Created is when the stream was created, as Check first saw it.
func (d *KinesisShardDetector) Created() (time.Time, bool) {
	if t := d.created.Load(); t != nil {
		return *t, true
	}
	return time.Time{}, false
}

// Check fails with a *shardsync.PermanentError if there is no such stream, if it is being deleted, or if it is another one
// than at the first Check, and waits while it is being created. It needs the permission for DescribeStreamSummary; without
// it nothing is known, which is no error.
func (d *KinesisShardDetector) Check(ctx context.Context, stream string) error {
	doing := d.doing("look at", stream)
	pause := loop.Backoff{Base: 500 * time.Millisecond, Max: 5 * time.Second}
	for {
		var out *kinesis.DescribeStreamSummaryOutput
		err := d.call(ctx, stream, doing, func(ctx context.Context) (err error) {
			out, err = d.api.DescribeStreamSummary(ctx, &kinesis.DescribeStreamSummaryInput{StreamName: &stream, StreamARN: optional(d.opts.StreamARN)}, ourRetries...)
			return err
		})
		if err != nil {
			if errors.Is(err, shardsync.ErrNotAllowed) {
				d.opts.Logger.Debug("the stream's status cannot be seen", "stream", stream, "err", err)
				return nil
			}
			return err
		}
		d.note(out.ResultMetadata)
		if out.StreamDescriptionSummary == nil {
			return nil
		}
		switch status := out.StreamDescriptionSummary.StreamStatus; status {
		case types.StreamStatusDeleting:
			return d.permanent(stream, doing, shardsync.ErrStreamDeleting)
		case types.StreamStatusCreating:
			err := fmt.Errorf("%s: it is %s", doing, status)
			if err := d.pause(ctx, &pause, "wait for stream "+stream, err); err != nil {
				return err
			}
			continue
		case types.StreamStatusActive, types.StreamStatusUpdating:
		}
		d.arn.Store(out.StreamDescriptionSummary.StreamARN)
		return d.sameStream(stream, doing, out.StreamDescriptionSummary.StreamCreationTimestamp)
	}
}

// Identify asks for the stream's account and the time of its creation. Unlike Check it fails without the permission for
// DescribeStreamSummary, with an error that wraps shardsync.ErrNotAllowed. It waits while the stream is being created.
func (d *KinesisShardDetector) Identify(ctx context.Context, stream string) (account string, created time.Time, err error) {
	d.arn.Store(nil)
	if err := d.Check(ctx, stream); err != nil {
		return "", time.Time{}, err
	}
	doing := d.doing("look at", stream)
	arn := d.arn.Load()
	created, ok := d.Created()
	if arn == nil || !ok {
		return "", time.Time{}, d.permanent(stream, doing, fmt.Errorf("%w: DescribeStreamSummary tells its account and creation", shardsync.ErrNotAllowed))
	}
	parts := strings.Split(*arn, ":")
	if len(parts) != 6 || parts[4] == "" {
		return "", time.Time{}, fmt.Errorf("%s: the service names it %q, which has no account", doing, *arn)
	}
	return parts[4], created, nil
}

// sameStream fails if the stream was created at another time than the one that was seen first.
func (d *KinesisShardDetector) sameStream(stream, doing string, created *time.Time) error {
	if created == nil {
		return nil
	}
	if e := d.opts.CreationEpoch; e != 0 && created.Unix() != e {
		return d.permanent(stream, doing, fmt.Errorf("%w: the one whose leases these are was created at %s, this one at %s", shardsync.ErrOtherHistory, stamp(time.Unix(e, 0)), stamp(*created)))
	}
	if d.created.CompareAndSwap(nil, created) {
		return nil
	}
	if first := *d.created.Load(); !first.Equal(*created) {
		return d.permanent(stream, doing, fmt.Errorf("%w: the one that this worker began with was created at %s, this one at %s", shardsync.ErrOtherHistory, stamp(first), stamp(*created)))
	}
	return nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// note takes down the time that an answer carries.
func (d *KinesisShardDetector) note(m smithymiddleware.Metadata) {
	if t, ok := middleware.GetServerTime(m); ok {
		d.serviceTime.Store(&t)
	}
}

// noteRefusal takes down the time that a refusal carries: a worker that may only read still learns it.
func (d *KinesisShardDetector) noteRefusal(err error) {
	r, ok := errors.AsType[*smithyhttp.ResponseError](err)
	if !ok || r.Response == nil {
		return
	}
	if t, err := http.ParseTime(r.Response.Header.Get("Date")); err == nil {
		d.serviceTime.Store(&t)
	}
}

// ListShards returns the shards that f selects, all pages of them. A passing fault is retried for about half a minute, page
// by page. An error that will not go away by itself is a *shardsync.PermanentError; it wraps one of shardsync's Err values
// if the stream does not exist, or may not be listed. A stream that is being created or deleted may be listed or not, and
// listed in part: ask [KinesisShardDetector.Check] before the first listing.
func (d *KinesisShardDetector) ListShards(ctx context.Context, stream string, f shardsync.Filter) ([]shardsync.Shard, error) {
	doing := d.doing("list the shards of", stream)
	for restarts := 0; ; restarts++ {
		shards, err := d.pages(ctx, stream, doing, f)
		if err != nil && faultOf(err) == badToken && restarts < 3 { // a token is good for 5 minutes; start over
			continue
		}
		return shards, err
	}
}

func (d *KinesisShardDetector) pages(ctx context.Context, stream, doing string, f shardsync.Filter) ([]shardsync.Shard, error) {
	var (
		shards []shardsync.Shard
		seen   = map[string]bool{}
		in     = &kinesis.ListShardsInput{StreamName: &stream, StreamARN: optional(d.opts.StreamARN), ShardFilter: shardFilter(f)}
	)
	for {
		var out *kinesis.ListShardsOutput
		err := d.call(ctx, stream, doing, func(ctx context.Context) (err error) {
			out, err = d.api.ListShards(ctx, in, ourRetries...)
			return err
		})
		if err != nil {
			return nil, err
		}
		d.note(out.ResultMetadata)
		grown := false
		for _, s := range out.Shards {
			shard, err := shardOf(s)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", doing, err)
			}
			if !seen[shard.ID] {
				seen[shard.ID], grown = true, true
				shards = append(shards, shard)
			}
		}
		if out.NextToken == nil || *out.NextToken == "" {
			return shards, nil
		}
		if in.NextToken != nil && *in.NextToken == *out.NextToken && !grown {
			return nil, fmt.Errorf("%s: the service answers the same page again and again", doing)
		}
		// The token knows the stream and the filter; the service refuses them beside it.
		in = &kinesis.ListShardsInput{NextToken: out.NextToken}
	}
}

// call makes a request until it is answered, or fails for good, or failed often enough.
func (d *KinesisShardDetector) call(ctx context.Context, stream, doing string, f func(context.Context) error) error {
	pause := loop.Backoff{Base: 200 * time.Millisecond, Max: 5 * time.Second}
	for {
		err := attempt(ctx, d.opts.RequestTimeout, doing, f)
		if err == nil {
			return nil
		}
		d.noteRefusal(err)
		if cause := context.Cause(ctx); cause != nil {
			return fmt.Errorf("%s: %w", doing, cause)
		}
		switch kind := faultOf(err); {
		case kind == badToken:
			return err
		case kind == notFound:
			return d.permanent(stream, doing, fmt.Errorf("%w (%w)", shardsync.ErrStreamNotFound, err))
		case kind == denied, kind == skewed && pause.Tries() >= 3:
			return d.permanent(stream, doing, fmt.Errorf("%w: %w", shardsync.ErrNotAllowed, err))
		case kind == refused:
			return d.permanent(stream, doing, err)
		case pause.Tries() >= tries:
			return fmt.Errorf("%s: failed %d times: %w", doing, tries+1, err)
		}
		if err := d.pause(ctx, &pause, doing, err); err != nil {
			return err
		}
	}
}

func (d *KinesisShardDetector) pause(ctx context.Context, b *loop.Backoff, doing string, cause error) error {
	wait := b.Next()
	if f := d.opts.Hooks.Retried; f != nil {
		f(config.RetryEvent{Worker: d.opts.Worker, What: doing, Attempt: b.Tries(), Wait: wait, Err: cause})
	}
	if err := loop.ClockOf(ctx).Sleep(ctx, wait); err != nil {
		return fmt.Errorf("%s: %w (last error: %w)", doing, err, cause)
	}
	return nil
}

func (d *KinesisShardDetector) doing(what, stream string) string {
	if d.opts.Region == "" {
		return fmt.Sprintf("%s stream %q", what, stream)
	}
	return fmt.Sprintf("%s stream %q in region %s", what, stream, d.opts.Region)
}

func (d *KinesisShardDetector) permanent(stream, doing string, err error) error {
	return &shardsync.PermanentError{Doing: doing, Advice: advice(d.api, stream, d.opts.StreamARN, err), Err: err}
}

// attempt makes one request, bounded in time. The error of one that took too long names what it was doing.
func attempt(ctx context.Context, limit time.Duration, doing string, f func(context.Context) error) error {
	bounded, cancel := loop.Timeout(ctx, limit, doing)
	defer cancel()
	err := f(bounded)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return context.Cause(bounded)
	}
	return err
}

func shardFilter(f shardsync.Filter) *types.ShardFilter {
	switch f.Kind {
	case shardsync.All:
	case shardsync.AtLatest:
		return &types.ShardFilter{Type: types.ShardFilterTypeAtLatest}
	case shardsync.AtTrimHorizon:
		return &types.ShardFilter{Type: types.ShardFilterTypeAtTrimHorizon}
	case shardsync.AtTimestamp:
		return &types.ShardFilter{Type: types.ShardFilterTypeAtTimestamp, Timestamp: &f.At}
	}
	return nil
}

func shardOf(s types.Shard) (shardsync.Shard, error) {
	if s.ShardId == nil || *s.ShardId == "" {
		return shardsync.Shard{}, errors.New("the service lists a shard without an id")
	}
	out := shardsync.Shard{ID: *s.ShardId, ParentID: text(s.ParentShardId), AdjacentParentID: text(s.AdjacentParentShardId)}
	if r := s.SequenceNumberRange; r != nil {
		out.StartingSequenceNumber, out.EndingSequenceNumber = text(r.StartingSequenceNumber), text(r.EndingSequenceNumber)
	}
	if r := s.HashKeyRange; r != nil {
		parsed, err := hashkey.ParseRange(text(r.StartingHashKey), text(r.EndingHashKey))
		if err != nil {
			return shardsync.Shard{}, fmt.Errorf("hash keys of shard %s: %w", out.ID, err)
		}
		out.HashKeyRange = parsed
	}
	return out, nil
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
