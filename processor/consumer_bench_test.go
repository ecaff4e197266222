package processor

import (
	"context"
	"testing"
	"time"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
)

// endlessSource delivers the same batch n times and then the end.
type endlessSource struct {
	b Batch
	n int
}

func (s *endlessSource) Next(context.Context) (Batch, error) {
	if s.n--; s.n < 0 {
		return Batch{End: &End{}, Release: s.b.Release}, nil
	}
	return s.b, nil
}

func (s *endlessSource) Close() {}

type idle struct{ Base }

func (idle) ProcessRecords(context.Context, ProcessRecordsInput) error { return nil }

func BenchmarkConsumer_perBatch(b *testing.B) {
	batch := numbered(1, 1000)
	batch.Release = func() {}
	lease := newLosableLease()
	c := NewShardConsumer(ConsumerOptions{
		Shard: Shard{ID: "shard-1"}, Position: checkpoint.TrimHorizon, Lease: lease,
		Upstream: &doubleUpstream{open: func(context.Context, checkpoint.ExtendedSequenceNumber) (RecordSource, error) {
			return &endlessSource{batch, b.N}, nil
		}},
		ConsumerSettings: &ConsumerSettings{
			Factory:   func(Shard) RecordProcessor { return idle{} },
			Lifecycle: config.LifecycleConfig{TaskBackoff: time.Second, MaxTaskBackoff: time.Second},
		},
	})
	b.ReportAllocs()
	if out := c.Run(b.Context()); !out.Finished {
		b.Fatalf("outcome %+v", out)
	}
}
