package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/processor"
)

// Reporter writes a worker's reports, each with one write. It is safe for concurrent use. Its mutex is held across that
// write, which is to a pipe with a reader that never pauses.
type Reporter struct {
	broken func(error)

	mu  sync.Mutex
	out *json.Encoder
}

// NewReporter makes a reporter. broken is called, with a [PipeError], when a report cannot be written: the parent does not
// listen, and the worker should end.
func NewReporter(out io.Writer, broken func(error)) *Reporter {
	return &Reporter{out: json.NewEncoder(out), broken: broken}
}

// PipeError says that the parent does not listen.
type PipeError struct{ err error }

func (e *PipeError) Error() string { return fmt.Sprintf("report to the parent: %v", e.err) }

func (e *PipeError) Unwrap() error { return e.err }

// Say returns when the parent can read the report, even if this process is killed next.
func (r *Reporter) Say(x Report) error {
	r.mu.Lock()
	err := r.out.Encode(x)
	r.mu.Unlock()
	if err != nil {
		err = &PipeError{err}
		r.broken(err)
	}
	return err
}

// Hooks report what becomes of leases.
func (r *Reporter) Hooks() *config.Hooks {
	return &config.Hooks{
		LeaseTaken:    func(e config.LeaseEvent) { _ = r.Say(Report{Kind: Taken, Shard: e.LeaseKey, From: e.From}) },
		LeaseLost:     func(e config.LeaseEvent) { _ = r.Say(Report{Kind: Lost, Shard: e.LeaseKey, Err: fmt.Sprint(e.Err)}) },
		LeaseReleased: func(e config.LeaseEvent) { _ = r.Say(Report{Kind: Released, Shard: e.LeaseKey}) },
	}
}

// Worker is what a process of a fleet runs: a *shardlease.Worker.
type Worker interface {
	Ready() <-chan struct{}
	Run(ctx context.Context) error
}

// Run runs a worker until ctx, which stop ends, is done, and reports when it is ready. If the parent stopped listening the error says so.
func (r *Reporter) Run(ctx context.Context, stop context.CancelCauseFunc, w Worker) error {
	var readiness sync.WaitGroup
	readiness.Go(func() {
		select {
		case <-w.Ready():
			_ = r.Say(Report{Kind: Ready})
		case <-ctx.Done():
		}
	})
	err := w.Run(ctx)
	broken := context.Cause(ctx)
	stop(nil)
	readiness.Wait()
	if _, ok := errors.AsType[*PipeError](broken); ok {
		return errors.Join(broken, err)
	}
	return err
}

// Processor is a processor.Factory whose processors report each batch.
func (r *Reporter) Processor(processor.Shard) processor.RecordProcessor { return &reporting{to: r} }

// reporting is the RecordProcessor.
type reporting struct {
	processor.Base
	to    *Reporter
	shard string
}

func (p *reporting) Initialize(_ context.Context, in processor.InitializationInput) error {
	p.shard = in.Shard.ID
	return p.to.Say(Report{Kind: Started, Shard: p.shard, Token: in.Grant.Token})
}

// ProcessRecords reports first and checkpoints then: a kill in between makes records come again, never get lost.
func (p *reporting) ProcessRecords(ctx context.Context, in processor.ProcessRecordsInput) error {
	if len(in.Records) == 0 {
		return nil
	}
	x := Report{Kind: Batch, Shard: p.shard, Token: in.Grant.Token, Keys: make([]string, len(in.Records)), Numbers: make([]int64, len(in.Records))}
	for i, r := range in.Records {
		n, err := strconv.ParseInt(string(r.Data), 10, 64)
		if err != nil {
			return fmt.Errorf("read the number of record %s: %w", r.SequenceNumber, err)
		}
		x.Keys[i], x.Numbers[i] = r.PartitionKey, n
	}
	if err := p.to.Say(x); err != nil {
		return err
	}
	if err := in.Checkpointer.Checkpoint(ctx); err != nil {
		if said := p.to.Say(Report{Kind: Refused, Shard: p.shard, Token: in.Grant.Token, Err: err.Error()}); said != nil {
			return said
		}
		return err
	}
	return nil
}

func (p *reporting) ShardEnded(ctx context.Context, in processor.ShardEndedInput) error {
	if err := p.Base.ShardEnded(ctx, in); err != nil {
		return err
	}
	return p.to.Say(Report{Kind: Ended, Shard: p.shard})
}
