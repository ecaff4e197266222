package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"golang.org/x/sync/errgroup"
)

// drainBare reads each shard with the loop that everybody writes first: no leases, no checkpoints, no retries, and for
// aggregates no look inside, unless split takes them apart.
func drainBare(ctx context.Context, f *filled, split func([]types.Record) ([]types.Record, error)) (usage, error) {
	return measure(func() error {
		var all errgroup.Group
		for i := range f.shards {
			all.Go(func() error {
				if err := f.readBare(ctx, i, split); err != nil {
					return fmt.Errorf("read shard %s in a bare loop: %w", f.shards[i], err)
				}
				return nil
			})
		}
		return all.Wait()
	})
}

func (f *filled) readBare(ctx context.Context, shard int, split func([]types.Record) ([]types.Record, error)) error {
	next, err := f.oldest(ctx, shard)
	if err != nil {
		return err
	}
	s, done, pages := sink{left: int64(f.perShard), bytes: 0}, false, 0
	if split != nil {
		s.left = f.users()
	}
	s.all = func() { done = true }
	for ; !done; pages++ {
		out, err := f.api.GetRecords(ctx, &kinesis.GetRecordsInput{ShardIterator: next})
		if err != nil {
			return err
		}
		records := out.Records
		if split != nil {
			if records, err = split(records); err != nil {
				return err
			}
		}
		for i := range records {
			s.take(records[i].Data)
		}
		next = out.NextShardIterator
	}
	f.pages[shard] = pages
	return nil
}

func (f *filled) oldest(ctx context.Context, shard int) (*string, error) {
	out, err := f.api.GetShardIterator(ctx, &kinesis.GetShardIteratorInput{
		StreamName: aws.String(stream), ShardId: &f.shards[shard], ShardIteratorType: types.ShardIteratorTypeTrimHorizon,
	})
	if err != nil {
		return nil, err
	}
	return out.ShardIterator, nil
}

// drainServer asks for what the bare loop has asked for, without the SDK, and looks at nothing but the next iterator.
func drainServer(ctx context.Context, f *filled) (usage, error) {
	client := f.server.AWSConfig().HTTPClient
	return measure(func() error {
		var all errgroup.Group
		for i, pages := range f.pages {
			all.Go(func() error {
				first, err := f.oldest(ctx, i)
				if err != nil {
					return err
				}
				for next := *first; pages > 0; pages-- {
					if next, err = page(ctx, client, next); err != nil {
						return fmt.Errorf("read shard %s without the SDK: %w", f.shards[i], err)
					}
				}
				return nil
			})
		}
		return all.Wait()
	})
}

// page has one GetRecords answered, and returns the iterator of the next.
func page(ctx context.Context, client aws.HTTPClient, iterator string) (next string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://emulator.invalid/", strings.NewReader(`{"ShardIterator":"`+iterator+`"}`))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/x-amz-json-1.1")
	r.Header.Set("X-Amz-Target", "Kinesis_20131202.GetRecords")
	resp, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	var body bytes.Buffer
	if _, err := body.ReadFrom(resp.Body); err != nil {
		return "", err
	}
	_, rest, found := bytes.Cut(body.Bytes(), []byte(`"NextShardIterator":"`))
	end := bytes.IndexByte(rest, '"')
	if !found || end < 0 || resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("answer %d with %.200q, want one with a NextShardIterator", resp.StatusCode, body.Bytes())
	}
	return string(rest[:end]), nil
}
