package put

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/shardlease/shardlease/cmd/shardlease/internal/producer"
)

// giveUpAfter is for how long a stream that takes nothing is tried.
const giveUpAfter = time.Minute

// Options say what to put where.
type Options struct {
	Stream   string
	KeyField string // JSON member that is the partition key; empty: a hash of the line
	// Aggregate is how many lines of one key are packed into one record at most, if they come within a tenth of a second and
	// fit: without KeyField lines of all keys, under that of the first. 0 and 1: each line is a record.
	Aggregate int
	Source    string    // name of the input in messages
	Where     string    // name of the service in messages
	Log       io.Writer // progress, what is waited for, and the summary
}

// Run puts each line of in, as one record or as a user record of a KPL aggregate, until in ends. Blank lines are left out. The first line that cannot be a record
// ends it with an error that names the line, after everything before that line was stored; nothing behind it is sent.
//
// When ctx ends while in is being read, Run does not wait for that read (a terminal may never answer it).
func Run(ctx context.Context, api producer.API, in io.Reader, o Options) error {
	say := func(format string, args ...any) {
		_, _ = fmt.Fprintf(o.Log, format+"\n", args...) // if nobody listens, the exit code still tells
	}
	p := producer.New(api, producer.Options{
		Stream: o.Stream, Ordered: o.KeyField != "", GiveUpAfter: giveUpAfter,
		Progress: func(s producer.Stats) { say("%s", summary(s)) },
		Waiting:  func(err error) { say("waiting for %s: %v", o.Where, err) },
	})
	read, stop := context.WithCancel(ctx)
	defer stop()
	r := reader{lines: newLineReader(in, producer.MaxRecordBytes), field: o.KeyField, out: make(chan producer.Record), end: make(chan error, 1)}
	go r.run(read)
	records, packed := r.out, func() error { return nil }
	var k packer
	if o.Aggregate > 1 {
		k = packer{most: o.Aggregate, keyed: o.KeyField != "", out: make(chan producer.Record)}
		done := make(chan error, 1)
		go func() { done <- k.run(read, r.out) }()
		records, packed = k.out, func() error { return <-done }
	}
	stats, err := p.Run(ctx, records)
	say("%s", summary(stats))
	if err != nil {
		stop()
		_ = packed() // it only says why nothing more came
		return err
	}
	if err := packed(); err != nil {
		return err
	}
	if k.lines > 0 {
		say("%d lines in %d records", k.lines, stats.Records)
	}
	if err := <-r.end; err != nil { // Run has seen out closed, so that this one is there or about to be
		return fmt.Errorf("%s, %w", o.Source, err)
	}
	if r.blank > 0 {
		say("%d blank lines left out", r.blank)
	}
	if stats.Records == 0 {
		say("%s holds no line to put", o.Source)
	}
	return nil
}

type reader struct {
	lines *lineReader
	field string
	out   chan producer.Record
	end   chan error // what stopped run, sent before out is closed
	blank int        // to be read after end
}

func (r *reader) run(ctx context.Context) {
	defer close(r.out)
	r.end <- r.pass(ctx)
}

func (r *reader) pass(ctx context.Context) error {
	for {
		l, err := r.lines.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("line %d: read it: %w", r.lines.count+1, err)
		}
		if l.length == 0 {
			r.blank++
			continue
		}
		rec, err := toRecord(l, r.field)
		if err != nil {
			return fmt.Errorf("line %d: %w", l.number, err)
		}
		select {
		case r.out <- rec:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func summary(s producer.Stats) string {
	return fmt.Sprintf("%d records, %d bytes, %d calls, %d retries, %.1f s", s.Records, s.Bytes, s.Calls, s.Retries, s.Elapsed.Seconds())
}
