package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/processor"
)

// ErrStale is what a write fails with if a later owner of the lease has been here.
var ErrStale = errors.New("the lease has a later owner")

// reader is the processor of one shard. It keeps the totals of its shard in one object.
type reader struct {
	processor.Base
	store store
	now   state // the object as this reader knows it
	etag  string
}

// Initialize reads the object and writes it with this owner's token before any record is read: that changes its ETag, so no
// earlier owner, who knows the old one, writes from now on.
func (r *reader) Initialize(ctx context.Context, in processor.InitializationInput) error {
	if err := r.load(ctx, in.Grant); err != nil {
		return err
	}
	return r.write(ctx, in.Grant, nil)
}

// ProcessRecords writes a batch and then checkpoints it. Whatever goes wrong, the batch comes again, and the position in the
// object says what of it is in the totals already.
func (r *reader) ProcessRecords(ctx context.Context, in processor.ProcessRecordsInput) error {
	if err := r.write(ctx, in.Grant, in.Records); err != nil {
		return err
	}
	return in.Checkpointer.Checkpoint(ctx)
}

// write puts the object with the records in its totals, each once.
//
//  1. We put; it lands, and the answer is lost.
//  2. The next put, with the ETag from before, is refused.
//  3. The object that we then read has our token, and a position that covers the records. Nothing is left to do but to know
//     its ETag.
func (r *reader) write(ctx context.Context, g checkpoint.Grant, records []processor.Record) error {
	for {
		next, err := r.now.with(records)
		if err != nil {
			return err
		}
		next.Token = g.Token
		etag, err := r.store.put(ctx, g.LeaseKey, next, r.etag)
		if err == nil {
			r.now, r.etag = next, etag
			return nil
		}
		if !errors.Is(err, errChanged) {
			return fmt.Errorf("write totals of lease %s with token %d: %w", g.LeaseKey, g.Token, err)
		}
		if err := r.load(ctx, g); err != nil {
			return err
		}
	}
}

// load reads the object, and fails with [ErrStale] if a later owner wrote it.
func (r *reader) load(ctx context.Context, g checkpoint.Grant) error {
	now, etag, err := r.store.get(ctx, g.LeaseKey)
	if err != nil {
		return err
	}
	if now.Token > g.Token {
		return fmt.Errorf("write totals of lease %s with token %d: %w: the object has token %d", g.LeaseKey, g.Token, ErrStale, now.Token)
	}
	r.now, r.etag = now, etag
	return nil
}

// with is the state after these records, of which those that it covers are left out.
func (s state) with(records []processor.Record) (state, error) {
	s.Totals = maps.Clone(s.Totals)
	if s.Totals == nil {
		s.Totals, s.Position = map[string]int64{}, checkpoint.TrimHorizon
	}
	for _, rec := range records {
		if rec.Position().Compare(s.Position) <= 0 {
			continue
		}
		amount, err := strconv.ParseInt(string(rec.Data), 10, 64)
		if err != nil {
			return state{}, fmt.Errorf("record %v: %w", rec.Position(), err)
		}
		s.Totals[rec.PartitionKey] += amount
		s.Position = rec.Position()
	}
	return s, nil
}
