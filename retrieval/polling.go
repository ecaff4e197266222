package retrieval

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/hashkey"
	"github.com/shardlease/shardlease/internal/loop"
	"github.com/shardlease/shardlease/processor"
)

// PollingOptions are what [NewPolling] may be told beside the configuration.
type PollingOptions struct {
	Worker string        // for hooks
	Logger *slog.Logger  // may be nil
	Hooks  *config.Hooks // may be nil: Fetched, Retried
}

// Polling opens shards for reading with GetRecords. It is safe for concurrent use; all shards that it opened share one
// budget of bytes. (KCL: PollingConfig, PrefetchRecordsPublisher)
type Polling struct {
	api    KinesisAPI
	cfg    config.RetrievalConfig
	opts   PollingOptions
	log    *slog.Logger
	budget *budget
	turns  *turns // see request
	rests  rests
}

// NewPolling makes a Polling of a complete configuration. It does no I/O.
func NewPolling(api KinesisAPI, cfg config.RetrievalConfig, opts PollingOptions) *Polling {
	if opts.Hooks == nil {
		opts.Hooks = &config.Hooks{}
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.RequestTimeout <= 0 {
		cfg.RequestTimeout = defaultRequestTimeout
	}
	return &Polling{
		api: api, cfg: cfg, opts: opts, log: opts.Logger, budget: newBudget(cfg.ByteBudget),
		turns: newTurns(requestsAtOnce),
	}
}

// Start says which shard to read, and from where.
type Start struct {
	Stream    string
	StreamARN string // sent with every request if not empty; needed for a stream of another account. Of a LineageAPI the lease must be of this stream: a shard that is not listed counts as trimmed
	ShardID   string
	LeaseKey  string // for hooks
	// API reads the stream, in place of the client that the Polling was made with; nil: that one.
	API KinesisAPI
	// FanOutAPI subscribes to the stream, in place of the client that the FanOut was made with; nil: that one.
	FanOutAPI FanOutAPI
	// HashKeyRange tells, of a shard that the service knows no longer, which others followed it. Without it only a listed
	// child does.
	HashKeyRange hashkey.Range
	// From is the stored checkpoint: the first record delivered is the first one after it. TRIM_HORIZON, LATEST and
	// AT_TIMESTAMP are places before the first record.
	From checkpoint.ExtendedSequenceNumber
	// StartAt pins LATEST and AT_TIMESTAMP: with it both mean the records that arrived then or later. Without it LATEST is
	// what comes after Open, and AT_TIMESTAMP starts at the oldest record, with a warning.
	StartAt time.Time
}

// Open begins to read a shard. It does not wait for the service: what is wrong with the stream or the shard comes out of
// Next. The error says that From is no place to start from.
//
// The source reads ahead until Close, or until ctx is done, whose clock it lives by; it has a goroutine of its own while it reads, and none
// between two reads of a shard in which nothing happens. Its Next
// returns an error other than ctx's cause only if the stream does not exist any more, which wraps
// shardsync.ErrStreamNotFound, or if From is a record of a stream of that name that was deleted before this one was created,
// which wraps shardsync.ErrOtherHistory (both are a *shardsync.PermanentError), or if the stream does not keep the place any more where reading
// is to go on and RetrievalConfig.OnTrimmed is FailRun: a *processor.TrimmedError. Everything else but the end of the shard is retried for ever, and reported to
// Hooks.Retried, also missing permissions: somebody may give them back, and a worker that stopped would not notice.
func (p *Polling) Open(ctx context.Context, start Start) (processor.RecordSource, error) {
	s, err := p.source(ctx, start)
	if err != nil {
		return nil, err
	}
	s.loop = s.reader
	s.due() //nolint:contextcheck // it has kept ctx
	return s, nil
}

// source makes a source that does not read yet.
func (p *Polling) source(ctx context.Context, start Start) (*source, error) {
	if err := start.From.Check(); err != nil {
		return nil, fmt.Errorf("open shard %s of stream %q: %w", start.ShardID, start.Stream, err)
	}
	if start.From.IsShardEnd() {
		return nil, fmt.Errorf("open shard %s of stream %q: its checkpoint is SHARD_END: there is nothing to read", start.ShardID, start.Stream)
	}
	if start.From == checkpoint.AtTimestamp && start.StartAt.IsZero() {
		p.log.Warn("a shard is to start AT_TIMESTAMP, but nobody wrote down the time; it starts at TRIM_HORIZON",
			"stream", start.Stream, "shard", start.ShardID)
	}
	p.budget.open()
	return &source{reader: newReader(ctx, p, start), ctx: ctx, rest: rest{index: -1}}, nil
}

func newReader(ctx context.Context, p *Polling, start Start) *reader {
	r := &reader{
		polling: p,
		start: target{
			Stream: start.Stream, StreamARN: start.StreamARN, ShardID: start.ShardID, LeaseKey: start.LeaseKey,
			API: start.API, HashKeyRange: start.HashKeyRange, From: start.From,
		},
		clock: loop.ClockOf(ctx),
		place: place{from: start.From, at: start.StartAt},
		pace:  pace{idle: p.cfg.IdleTime, most: p.cfg.MaxIdleTime, far: p.cfg.BehindLatestThreshold.Milliseconds(), opening: true},
		want:  mostBytes,
		queue: queue{most: p.cfg.MaxPendingBatches},
	}
	if start.From == checkpoint.Latest {
		r.want = fewBytes
	}
	return r
}
