package main

import (
	"context"

	awslabs "github.com/awslabs/kinesis-aggregation/go/v2/deaggregator"

	"github.com/shardlease/shardlease/processor"
)

// contender drains the whole stream once.
type contender struct {
	name   string
	worker bool // to be compared with the bare loop
	packed bool // makes sense for aggregates only
	drain  func(ctx context.Context, f *filled) (usage, error)
}

const (
	theServer = "server alone"
	bareLoop  = "bare loop"
	bareSplit = "bare loop + awslabs"
)

// contenders are in the order of the report.
func contenders() []contender {
	return []contender{
		{name: theServer, drain: drainServer},
		{name: bareLoop, drain: func(ctx context.Context, f *filled) (usage, error) { return drainBare(ctx, f, nil) }},
		{name: bareSplit, packed: true, drain: func(ctx context.Context, f *filled) (usage, error) {
			return drainBare(ctx, f, awslabs.DeaggregateRecords)
		}},
		{name: "worker, Each", worker: true, drain: func(ctx context.Context, f *filled) (usage, error) {
			return drainWorker(ctx, f, eachRecord)
		}},
		{name: "worker, ProcessRecords", worker: true, drain: func(ctx context.Context, f *filled) (usage, error) {
			return drainWorker(ctx, f, eachBatch)
		}},
	}
}

// sink is the user: what every contender does with the records of one shard. It belongs to that shard's goroutine.
type sink struct {
	left  int64 // records still to come
	bytes int64
	all   func() // called when the last one has come
}

func (s *sink) take(data []byte) {
	s.bytes += int64(len(data))
	if s.left--; s.left == 0 {
		s.all()
	}
}

// eachRecord is a processor as most are: a function of one record.
func eachRecord(s *sink) processor.Factory {
	return processor.Each(func(_ context.Context, r processor.Record) error {
		s.take(r.Data)
		return nil
	})
}

// eachBatch is one with ProcessRecords.
func eachBatch(s *sink) processor.Factory {
	return func(processor.Shard) processor.RecordProcessor { return &batches{sink: s} }
}

type batches struct {
	processor.Base
	sink *sink
}

func (b *batches) ProcessRecords(ctx context.Context, in processor.ProcessRecordsInput) error {
	for i := range in.Records {
		b.sink.take(in.Records[i].Data)
	}
	return in.Checkpointer.Checkpoint(ctx)
}
