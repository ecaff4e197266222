package zombie

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"golang.org/x/sync/errgroup"

	"github.com/shardlease/shardlease"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/processor"
)

// Outcome is what happened.
type Outcome struct {
	ZombieToken, SuccessorToken int64            // the tokens of the worker that was stopped and of the one that took over
	Late                        error            // what the sink answered to the write of the worker that was stopped; nil: it took it
	Totals                      map[string]int64 // what was produced: the sum of the amounts of each partition key
}

const (
	stream = "payments"
	keys   = 5
	batch  = 20
)

// Run plays the story and returns when both workers have ended.
//
//  1. worker-a reads a shard. It gets a batch, and is stopped before it writes it.
//  2. Nothing that it sends to the lease table arrives from now on, so its lease ends.
//  3. worker-b takes the shard, gets the same batch, and writes it.
//  4. worker-a goes on, and writes the batch that it has in hand.
//
// Records have an amount as data, by which a sink moves the total of their partition key.
func Run(ctx context.Context, sink func(worker string) processor.Factory) (Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	server := emulator.New()
	if err := server.CreateStream(stream, 1); err != nil {
		return Outcome{}, err
	}
	s := story{server: server, out: Outcome{Totals: map[string]int64{}}, a: newFreezer(), b: newFreezer()}
	workers, stop := context.WithCancel(ctx)
	group, workers := errgroup.WithContext(workers)
	start := func(id string, f *freezer) error {
		cfg := config.Default("ledger", stream)
		cfg.WorkerID = id
		cfg.LeaseManagement.FailoverTime = time.Second
		w, err := shardlease.New(cfg, server.ClientConfig(id), f.around(sink(id)))
		if err != nil {
			return err
		}
		group.Go(func() error { return w.Run(workers) })
		return nil
	}
	err := s.play(workers, start)
	s.thaw()
	stop()
	return s.out, errors.Join(err, group.Wait())
}

type story struct {
	server *emulator.Server
	a, b   *freezer
	out    Outcome
	sent   int
	thawed bool
}

func (s *story) play(ctx context.Context, start func(string, *freezer) error) error {
	if err := start("worker-a", s.a); err != nil {
		return err
	}
	last, err := s.put(ctx)
	if err != nil {
		return err
	}
	if _, err := s.a.wait(ctx, last); err != nil {
		return fmt.Errorf("worker-a's first batch: %w", err)
	}

	s.a.armed.Store(true)
	if last, err = s.put(ctx); err != nil {
		return err
	}
	select {
	case g := <-s.a.stopped:
		s.out.ZombieToken = g.Token
	case <-ctx.Done():
		return fmt.Errorf("worker-a's second batch: %w", context.Cause(ctx))
	}
	heal := s.server.Inject(emulator.Rule{Client: "worker-a", Service: emulator.DynamoDB, Effect: emulator.Refuse()})
	defer heal()
	if err := start("worker-b", s.b); err != nil {
		return err
	}
	by, err := s.b.wait(ctx, last)
	if err != nil {
		return fmt.Errorf("worker-b's takeover: %w", err)
	}
	s.out.SuccessorToken = by.grant.Token

	s.thaw()
	select {
	case s.out.Late = <-s.a.late:
	case <-ctx.Done():
		return fmt.Errorf("worker-a's late write: %w", context.Cause(ctx))
	}
	if last, err = s.put(ctx); err != nil {
		return err
	}
	if _, err := s.b.wait(ctx, last); err != nil {
		return fmt.Errorf("worker-b's batch after the late write: %w", err)
	}
	return nil
}

// thaw lets worker-a go on.
func (s *story) thaw() {
	if !s.thawed {
		s.thawed = true
		close(s.a.thaw)
	}
}

// put sends a batch and returns the data of its last record.
func (s *story) put(ctx context.Context) (last string, err error) {
	var records []types.PutRecordsRequestEntry
	for range batch {
		s.sent++
		key := "account-" + strconv.Itoa(s.sent%keys)
		s.out.Totals[key] += int64(s.sent)
		last = strconv.Itoa(s.sent)
		records = append(records, types.PutRecordsRequestEntry{PartitionKey: &key, Data: []byte(last)})
	}
	name := stream
	out, err := kinesis.NewFromConfig(s.server.AWSConfig()).PutRecords(ctx, &kinesis.PutRecordsInput{StreamName: &name, Records: records})
	if err == nil && *out.FailedRecordCount != 0 {
		err = fmt.Errorf("%d of %d records were refused", *out.FailedRecordCount, batch)
	}
	return last, err
}

// wait waits until the batch was written that ends with this record.
func (f *freezer) wait(ctx context.Context, last string) (handled, error) {
	for {
		select {
		case h := <-f.handled:
			if h.last == last {
				return h, nil
			}
		case <-ctx.Done():
			return handled{}, context.Cause(ctx)
		}
	}
}
