package zombie

import (
	"context"
	"sync/atomic"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/processor"
)

// freezer stops the processors of one worker before a batch, as SIGSTOP stops a process: what is in hand stays in hand, and
// goes on later as if nothing had been.
type freezer struct {
	armed   atomic.Bool           // the next batch is where it stops
	stopped chan checkpoint.Grant // it has stopped, under this grant
	thaw    chan struct{}         // closed: it goes on
	late    chan error            // what became of the write of the batch in hand
	handled chan handled          // batches that were written, but that one
}

type handled struct {
	grant checkpoint.Grant
	last  string // data of the last record
}

func newFreezer() *freezer {
	return &freezer{stopped: make(chan checkpoint.Grant, 1), thaw: make(chan struct{}), late: make(chan error, 1), handled: make(chan handled, 1000)}
}

// around lets a user's processors be stopped. They know nothing of it.
func (f *freezer) around(inner processor.Factory) processor.Factory {
	return func(s processor.Shard) processor.RecordProcessor { return &freezing{inner(s), f} }
}

type freezing struct {
	processor.RecordProcessor
	*freezer
}

// ProcessRecords passes the batch on, or stops first.
func (p *freezing) ProcessRecords(ctx context.Context, in processor.ProcessRecordsInput) error {
	if p.armed.CompareAndSwap(true, false) {
		p.stopped <- in.Grant
		<-p.thaw
		// The lease is lost and ctx has ended. A write that had left this process before it was stopped is beyond its reach;
		// so is one by code that does not look at ctx.
		err := p.RecordProcessor.ProcessRecords(context.WithoutCancel(ctx), in)
		p.late <- err
		return err
	}
	err := p.RecordProcessor.ProcessRecords(ctx, in)
	if n := len(in.Records); err == nil && n > 0 {
		p.handled <- handled{in.Grant, string(in.Records[n-1].Data)}
	}
	return err
}
