//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease/internal/awshttp"
	"github.com/shardlease/shardlease/internal/ring"
)

// The producer's pace.
const (
	keys  = 48
	batch = 6 // records a call, each of another key
	beat  = 250 * time.Millisecond
)

// callLimit is how long the driver's own calls may take.
const callLimit = 60 * time.Second

// errDown says that a request was not sent: the server is down.
var errDown = errors.New("the server is down")

// direct is a configuration of clients that reach a server without a link, wherever it listens, and try once.
func direct(to *server) aws.Config {
	transport := &http.Transport{MaxIdleConnsPerHost: 4, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		address, up := to.address()
		if !up {
			return nil, errDown
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}
	return aws.Config{
		Region: region, Credentials: credentials.NewStaticCredentialsProvider("driver", "chaos", ""), RetryMaxAttempts: 1,
		BaseEndpoint: aws.String("http://" + to.name + ".localhost"), HTTPClient: awshttp.HideWriterTo(&http.Client{Transport: transport}),
	}
}

// source is the stream, seen by who puts records and changes shards. One call is made at a time, and none while the server is
// being restarted: what it was answered is what is saved then.
type source struct {
	api    *kinesis.Client
	ledger *ledger
	turn   chan struct{} // one slot: who holds it may call, or stop the server
}

func newSource(to *server, l *ledger) *source {
	return &source{api: kinesis.NewFromConfig(direct(to)), ledger: l, turn: make(chan struct{}, 1)}
}

// exclusively runs do while nobody else calls.
func (s *source) exclusively(ctx context.Context, do func(context.Context) error) error {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-s.turn }()
	return do(ctx)
}

// call is do with a limit.
func (s *source) call(ctx context.Context, do func(context.Context) error) error {
	return s.exclusively(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callLimit)
		defer cancel()
		return do(ctx)
	})
}

// create creates the stream.
func (s *source) create(ctx context.Context, shards int) error {
	return s.call(ctx, func(ctx context.Context) error {
		if _, err := s.api.CreateStream(ctx, &kinesis.CreateStreamInput{StreamName: aws.String(streamName), ShardCount: aws.Int32(int32(shards))}); err != nil {
			return fmt.Errorf("create the stream: %w", err)
		}
		return s.active(ctx)
	})
}

// active waits until the stream can be changed.
func (s *source) active(ctx context.Context) error {
	for {
		out, err := s.api.DescribeStreamSummary(ctx, &kinesis.DescribeStreamSummaryInput{StreamName: aws.String(streamName)})
		if err == nil && out.StreamDescriptionSummary.StreamStatus == types.StreamStatusActive {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the stream: %w", errors.Join(err, context.Cause(ctx)))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// produce puts records until ctx ends.
func (s *source) produce(ctx context.Context, seed uint64) error {
	random := rand.New(rand.NewPCG(seed, 3))
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		entries := make([]types.PutRecordsRequestEntry, 0, batch)
		for _, k := range random.Perm(keys)[:batch] {
			entries = append(entries, types.PutRecordsRequestEntry{PartitionKey: aws.String(fmt.Sprintf("key-%02d", k))})
		}
		if err := s.put(ctx, entries); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// put puts the next record of each entry's key. No call is repeated: a record whose fate is unknown stays in doubt, and its number is not
// used again.
func (s *source) put(ctx context.Context, entries []types.PutRecordsRequestEntry) error {
	return s.call(ctx, func(ctx context.Context) error {
		for i := range entries {
			entries[i].Data = strconv.AppendInt(nil, s.ledger.next(*entries[i].PartitionKey), 10)
		}
		out, err := s.api.PutRecords(ctx, &kinesis.PutRecordsInput{StreamName: aws.String(streamName), Records: entries})
		switch {
		case errors.Is(err, errDown):
			return fmt.Errorf("put records: %w", err)
		case err != nil:
			s.ledger.say("whether %d records were stored is in doubt: %v", len(entries), err)
			for _, e := range entries {
				s.ledger.store(*e.PartitionKey, true)
			}
			return nil
		}
		for i, r := range out.Records {
			if r.SequenceNumber != nil {
				s.ledger.store(*entries[i].PartitionKey, false)
			}
		}
		return nil
	})
}

// open lists the open shards by their place on the ring. It is called with the turn.
func (s *source) open(ctx context.Context) ([]types.Shard, error) {
	return ring.Open(ctx, s.api, streamName)
}

// putLast puts some records into each open shard.
func (s *source) putLast(ctx context.Context) error {
	var open []types.Shard
	if err := s.call(ctx, func(ctx context.Context) (err error) { open, err = s.open(ctx); return err }); err != nil {
		return err
	}
	for range 2 {
		var entries []types.PutRecordsRequestEntry
		for _, shard := range open {
			entries = append(entries, types.PutRecordsRequestEntry{PartitionKey: aws.String("last-of-" + *shard.ShardId), ExplicitHashKey: shard.HashKeyRange.StartingHashKey})
		}
		if err := s.put(ctx, entries); err != nil {
			return err
		}
	}
	return nil
}

// The open shards that reshards keep between.
const (
	fewest = 4
	most   = 10
)

// reshard splits a shard, or merges two neighbours, by rank among the open ones. At the bounds it does the other thing. It is called with
// the turn.
func (s *source) reshard(ctx context.Context, f fault) error {
	if err := s.active(ctx); err != nil {
		return err
	}
	open, err := s.open(ctx)
	if err != nil {
		return err
	}
	if len(open) <= fewest || f.Kind == split && len(open) < most {
		shard := open[int(f.Rank*float64(len(open)))]
		s.ledger.say("split of %s", *shard.ShardId)
		_, err = s.api.SplitShard(ctx, &kinesis.SplitShardInput{StreamName: aws.String(streamName), ShardToSplit: shard.ShardId, NewStartingHashKey: aws.String(ring.Middle(shard))})
	} else {
		i := int(f.Rank * float64(len(open)-1))
		s.ledger.say("merge of %s and %s", *open[i].ShardId, *open[i+1].ShardId)
		_, err = s.api.MergeShards(ctx, &kinesis.MergeShardsInput{StreamName: aws.String(streamName), ShardToMerge: open[i].ShardId, AdjacentShardToMerge: open[i+1].ShardId})
	}
	if err != nil {
		return fmt.Errorf("%s a shard: %w", f.Kind, err)
	}
	return s.active(ctx)
}

func newTable(to *server) *dynamodb.Client { return dynamodb.NewFromConfig(direct(to)) }
