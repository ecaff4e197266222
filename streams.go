package shardlease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/cleanup"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/coordinator"
	"github.com/shardlease/shardlease/internal/loop"
	"github.com/shardlease/shardlease/leases"
	"github.com/shardlease/shardlease/processor"
	"github.com/shardlease/shardlease/retrieval"
	"github.com/shardlease/shardlease/shardsync"
)

// StreamTracker names the streams that a worker reads, while it runs; see [WithStreamTracker]. (KCL: StreamTracker)
type StreamTracker interface {
	// Streams returns all streams that are to be read now. Each worker calls it about once a minute, until the first answer more
	// often; one call at a time, each on a goroutine of its own, with a context that ends after 30 s or with the stop. After an
	// error, a panic (Hooks.Panicked) or runtime.Goexit the worker goes on with what was named before, and asks again. If it
	// does not return though its context has ended, that is logged, and it is not called again before it does; a stop leaves it
	// behind, and Run's error says so. A stream whose configuration has a fault is reported once (Hooks.StreamFaulty) and left
	// alone, neither read nor taken for a former one. So is the second of two that are or may be the same stream, as one that is named by its
	// name and by its ARN, or twice with different positions; only one that is equal to an earlier one is left out without a word.
	Streams(ctx context.Context) ([]config.StreamConfig, error)
}

// FormerStreamLister is a [StreamTracker] that also names streams which config.DeleteListed is about, beside those of
// FormerStreams.Listed, as account:name:epoch. It is called after each call of Streams that succeeded, with the same context, and
// what is said there of errors and panics is true of it. (KCL: streamIdentifiersForLeaseCleanup)
type FormerStreamLister interface {
	FormerStreams(ctx context.Context) (identifiers []string, err error)
}

// WithStreamTracker makes the worker read the streams that t names, in place of Config.Streams. All workers of an application
// should be told the same; while they are not, streams that only some know are read by all. See docs/multi-stream.md.
func WithStreamTracker(t StreamTracker) Option {
	return func(o *options) {
		o.tracker, o.tracked = t, true
		o.must("WithStreamTracker", t, "a StreamTracker; leave the option out to read StreamName or Streams")
	}
}

// several reports whether the worker is one of several streams.
func (o options) several(cfg config.Config) bool { return o.tracker != nil || len(cfg.Streams) > 0 }

// validate checks what to read.
func (o options) validate(cfg config.Config, cloud aws.Config) error {
	var faults []error
	switch {
	case o.sourced:
		faults = append(faults, o.validateSource(cfg))
	case o.tracked:
		faults = append(faults, cfg.ValidateTracked())
	default:
		faults = append(faults, cfg.Validate())
	}
	faults = append(faults, o.validateClients(cfg))
	m := streamMaker{region: regionOf(cloud, o.kinesis), clients: o.clients}
	if arn := cfg.Complete().StreamARN; !o.sourced && !o.several(cfg) && !m.reaches(arn) {
		field, value := "StreamARN", arn
		if cfg.StreamARN == "" { // it is that of the consumer's stream
			field, value = "Retrieval.FanOut.ConsumerARN", cfg.Retrieval.FanOut.ConsumerARN
		}
		faults = append(faults, m.unreachable(field, value))
	}
	for i, c := range cfg.Streams {
		if err := m.reachable(c.StreamARN); err != nil {
			faults = append(faults, fmt.Errorf("Streams[%d].%w", i, err))
		}
	}
	return errors.Join(faults...)
}

// streamMaker makes what works on streams.
type streamMaker struct {
	cfg     config.Config
	region  string
	api     KinesisAPI
	clients map[string]KinesisAPI // by ARN, or by one that ends in *
	table   *leases.Table
	reading reading
	tracked atomic.Pointer[[]config.StreamConfig] // what the tracker has named last; nil without one
	// byLineage says that the only stream's shards have no hash keys.
	byLineage bool
	looked    sync.Map // when each stream's identifier was asked for, by it
}

// only is the stream of a worker of one stream.
func (m *streamMaker) only() *coordinator.Stream {
	c := m.cfg
	api, own := m.client(c.StreamARN)
	detector := m.detector(api, c.StreamARN, 0, c.Hooks)
	return m.stream(api, own, c.StreamName, c.StreamARN, detector, nil, m.syncer(m.table, detector, c.StreamName, c.InitialPosition, c.Hooks))
}

func (m *streamMaker) detector(api KinesisAPI, arn string, epoch int64, hooks *config.Hooks) *retrieval.KinesisShardDetector {
	region := m.region
	if parts := strings.Split(arn, ":"); len(parts) > 3 { // a client of its own is of this region
		region = parts[3]
	}
	return retrieval.NewShardDetector(api, retrieval.DetectorOptions{
		StreamARN: arn, Region: region, RequestTimeout: m.cfg.Retrieval.RequestTimeout, CreationEpoch: epoch,
		Worker: m.cfg.WorkerID, Logger: m.cfg.Logger, Hooks: hooks,
	})
}

func (m *streamMaker) syncer(table leaseTable, d shardsync.ShardDetector, name string, from config.InitialPosition, hooks *config.Hooks) *shardsync.HierarchicalShardSyncer {
	o := shardsync.SyncerOptions{
		Stream: name, Worker: m.cfg.WorkerID, From: from, FailoverTime: m.cfg.LeaseManagement.FailoverTime, Logger: m.cfg.Logger, Hooks: hooks,
	}
	if m.byLineage {
		o.ByLineage, o.StreamARN = true, m.cfg.StreamARN
	}
	return shardsync.NewHierarchicalShardSyncer(table, d, o)
}

// leaseTable is what a syncer works on: *leases.Table or *leases.StreamTable.
type leaseTable interface {
	List(ctx context.Context) (leases.Listing, error)
	Get(ctx context.Context, key string) (leases.Lease, bool, error)
	Create(ctx context.Context, l leases.Lease) (created bool, err error)
	UpdateMetadata(ctx context.Context, key string, m leases.Metadata) error
}

// stream puts together what works on one stream. fault, if set, is why it cannot be read.
func (m *streamMaker) stream(api KinesisAPI, own bool, name, arn string, d shardsync.ShardDetector, fault error, s *shardsync.HierarchicalShardSyncer) *coordinator.Stream {
	fanOut := fanOutOf(api, own)
	return &coordinator.Stream{
		Name: name, Syncer: s, ByLineage: m.byLineage,
		Shards: func(ctx context.Context) ([]cleanup.Shard, error) { return allShards(ctx, d, name) },
		Open: func(ctx context.Context, l leases.Lease, from checkpoint.ExtendedSequenceNumber) (processor.RecordSource, error) {
			if fault != nil {
				return nil, fault
			}
			if m.byLineage {
				// Another worker may have made it, since this one has compared shards and leases.
				if err := shardsync.OfTableStream(l, arn); err != nil {
					return foreignShard{err}, nil //nolint:nilerr // Next tells it
				}
			}
			return m.reading.open(ctx, retrieval.Start{
				Stream: name, StreamARN: arn, API: api, FanOutAPI: fanOut, ShardID: l.Shard(), LeaseKey: l.Key, HashKeyRange: l.HashKeyRange,
				From: from, StartAt: startAt(l),
			})
		},
	}
}

// fanOutOf is the client for fan-out of a stream with a client of its own; nil: the one for all.
func fanOutOf(api KinesisAPI, own bool) retrieval.FanOutAPI {
	if !own {
		return nil
	}
	fanOut, _ := api.(retrieval.FanOutAPI) // as New has checked
	return fanOut
}

// starts are the streams of which there are leases, in the way in which they are opened.
func (m *streamMaker) starts(rows []leases.Lease) (all []retrieval.Start) {
	add := func(name, arn string) {
		all = append(all, retrieval.Start{Stream: name, StreamARN: arn, FanOutAPI: fanOutOf(m.client(arn))})
	}
	if m.cfg.StreamName != "" {
		add(m.cfg.StreamName, m.cfg.StreamARN)
		return all
	}
	known := m.cfg.Streams
	if t := m.tracked.Load(); t != nil {
		known = *t
	}
	for name := range leases.ByStream(rows) {
		id, err := config.ParseStreamIdentifier(name)
		if err != nil {
			continue // no lease of ours
		}
		var c config.StreamConfig
		if i := slices.IndexFunc(known, func(c config.StreamConfig) bool { return c.IsOf(id) }); i >= 0 {
			c = known[i]
		}
		add(id.StreamName, m.arn(id, c))
	}
	return all
}

// source makes the streams of a worker of several.
func (m *streamMaker) source(t StreamTracker) *coordinator.StreamSource {
	s := &coordinator.StreamSource{
		Tracked: func(context.Context) ([]config.StreamConfig, error) { return m.cfg.Streams, nil },
		Resolve: m.resolve, Make: m.one,
	}
	if t != nil {
		s.Tracked = func(ctx context.Context) ([]config.StreamConfig, error) {
			all, err := t.Streams(ctx)
			if err == nil {
				all = slices.Clone(all) // the user may go on writing into its own
				m.tracked.Store(&all)
			}
			return all, err
		}
	}
	if l, ok := t.(FormerStreamLister); ok {
		s.Listed = func(ctx context.Context) ([]string, error) {
			ids, err := l.FormerStreams(ctx)
			return slices.Clone(ids), err
		}
	}
	return s
}

// resolve asks the service for what a stream's configuration does not tell.
func (m *streamMaker) resolve(ctx context.Context, c config.StreamConfig) (config.StreamIdentifier, error) {
	if err := m.reachable(c.StreamARN); err != nil {
		return config.StreamIdentifier{}, err
	}
	id, _ := c.Identifier()
	arn := m.arn(id, c)
	api, _ := m.client(arn)
	account, created, err := m.detector(api, arn, 0, m.cfg.Hooks).Identify(ctx, id.StreamName)
	if err != nil {
		return config.StreamIdentifier{}, err
	}
	if id.AccountID == "" {
		id.AccountID = account
	}
	if id.CreationEpoch == 0 {
		id.CreationEpoch = created.Unix()
	}
	m.looked.Store(id, loop.ClockOf(ctx).Now())
	return id, nil
}

// arn is the configured one of a stream, or is made of its account and the client's region; empty if these are not known.
func (m *streamMaker) arn(id config.StreamIdentifier, c config.StreamConfig) string {
	if c.StreamARN != "" || m.region == "" || len(id.AccountID) != 12 {
		return c.StreamARN
	}
	partition := "aws"
	switch {
	case strings.HasPrefix(m.region, "cn-"):
		partition = "aws-cn"
	case strings.HasPrefix(m.region, "us-gov-"):
		partition = "aws-us-gov"
	}
	return fmt.Sprintf("arn:%s:kinesis:%s:%s:stream/%s", partition, m.region, id.AccountID, id.StreamName)
}

// one makes one of several streams.
func (m *streamMaker) one(id config.StreamIdentifier, c config.StreamConfig, asked bool, hooks *config.Hooks) *coordinator.Stream {
	arn := m.arn(id, c)
	api, own := m.client(arn)
	epoch := int64(0)
	if asked {
		epoch = id.CreationEpoch
	}
	d := m.detector(api, arn, epoch, hooks)
	table := m.table.OfStream(id.String())
	fresh := freshDetector{d, func() time.Time {
		at, _ := m.looked.Load(id)
		t, _ := at.(time.Time)
		return t
	}}
	s := m.stream(api, own, id.StreamName, arn, d, m.reachable(arn), m.syncer(table, fresh, id.StreamName, c.InitialPosition, hooks))
	s.Identifier, s.Table = id.String(), table
	s.Check = func(ctx context.Context) error { return d.Check(ctx, id.StreamName) }
	return s
}

// freshDetector does not ask again whether a stream is there that was asked for its identifier a moment ago: the service
// allows an account few such requests, and a worker that begins hundreds of streams needs them.
type freshDetector struct {
	*retrieval.KinesisShardDetector
	looked func() time.Time
}

func (d freshDetector) Check(ctx context.Context, stream string) error {
	if at := d.looked(); !at.IsZero() && loop.ClockOf(ctx).Since(at) < time.Minute {
		return nil
	}
	return d.KinesisShardDetector.Check(ctx, stream)
}

// allShards lists a stream for package cleanup, which knows nothing of shardsync.
func allShards(ctx context.Context, d shardsync.ShardDetector, stream string) ([]cleanup.Shard, error) {
	listed, err := d.ListShards(ctx, stream, shardsync.Filter{})
	if err != nil {
		return nil, err
	}
	shards := make([]cleanup.Shard, 0, len(listed))
	for _, s := range listed {
		shards = append(shards, cleanup.Shard{ID: s.ID, ParentIDs: s.ParentIDs(), HashKeyRange: s.HashKeyRange})
	}
	return shards, nil
}

// startAt is the time at which a shard without a checkpoint starts; zero if its lease is not pinned.
func startAt(l leases.Lease) time.Time {
	if l.StartAtMillis == 0 {
		return time.Time{}
	}
	return time.UnixMilli(l.StartAtMillis)
}
