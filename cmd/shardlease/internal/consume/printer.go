package consume

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/shardlease/shardlease/processor"
)

// printer writes whole batches to one output, for the processors of all shards.
type printer struct {
	out    io.Writer
	format Format
	turn   chan struct{} // one slot: whoever is in it writes
	broken func(error)   // told once of an output that takes no more
}

func newPrinter(out io.Writer, f Format, broken func(error)) *printer {
	return &printer{out: out, format: f, turn: make(chan struct{}, 1), broken: broken}
}

// print returns nil when the output has taken every line.
func (p *printer) print(ctx context.Context, of origin, records []processor.Record) error {
	var lines bytes.Buffer
	for _, r := range records {
		if err := appendRecord(&lines, p.format, of, r); err != nil {
			return fmt.Errorf("print record %s of %s: %w", r.SequenceNumber, of.shard, err)
		}
	}
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-p.turn }()
	if _, err := p.out.Write(lines.Bytes()); err != nil {
		err = fmt.Errorf("write to the output: %w", err)
		p.broken(err)
		return err
	}
	return nil
}

// shardPrinter is the RecordProcessor of one shard: what was printed is checkpointed, and nothing else.
type shardPrinter struct {
	processor.Base
	printer *printer
	of      origin
}

func (s *shardPrinter) ProcessRecords(ctx context.Context, in processor.ProcessRecordsInput) error {
	if len(in.Records) == 0 {
		return nil
	}
	if err := s.printer.print(ctx, s.of, in.Records); err != nil {
		return err // not handled: whoever reads the shard next prints the batch again
	}
	return in.Checkpointer.Checkpoint(ctx)
}
