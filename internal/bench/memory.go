package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease/emulator"
)

// The worker whose memory counts is a child process, so that the server's memory is not in its figures. It prints what it
// finds; this process serves it, over HTTP on a port of its own, and waits.

// A stream of which every shard is far behind; and one in which nothing happens.
const (
	catchUpShards = 1000
	perCatchUp    = 125 // records of each shard
	catchUpSize   = 4000
	catchUpBudget = 64 << 20
	idleShards    = 10_000
)

// memory runs both scenarios, or those whose names contain only.
func memory(ctx context.Context, s settings) error {
	for _, s.child = range []string{catchUp, idle} {
		if !strings.Contains(s.child, s.only) {
			continue
		}
		s := s
		if s.child == catchUp {
			s.shards = catchUpShards
		}
		server, err := serverFor(ctx, s)
		if err == nil {
			err = serve(ctx, server, s)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.child, err)
		}
	}
	return nil
}

// serverFor has the stream of a scenario.
func serverFor(ctx context.Context, s settings) (*emulator.Server, error) {
	server := emulator.New()
	if err := server.CreateStream(stream, s.shards); err != nil {
		return nil, err
	}
	if s.child != catchUp {
		return server, nil
	}
	if err := fillCatchUp(ctx, server); err != nil {
		return nil, fmt.Errorf("fill %d shards: %w", s.shards, err)
	}
	return server, nil
}

// serve lets the child measure over a server, and prints what it says.
func serve(ctx context.Context, server *emulator.Server, s settings) (err error) {
	url, stop, err := server.Listen("127.0.0.1:0")
	if err != nil {
		return err
	}
	defer stop()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	child := exec.CommandContext(ctx, self, "-child", s.child, "-endpoint", url, "-memprofile", s.memprofile,
		"-shards", strconv.Itoa(s.shards), "-idle-time", s.idleTime.String(), "-settle", s.settle.String())
	child.Cancel = func() error { return child.Process.Signal(os.Interrupt) }
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		return err
	}
	if err := child.Start(); err != nil {
		return err
	}
	_, copied := io.Copy(os.Stdout, bufio.NewReader(out))
	return errors.Join(copied, child.Wait())
}

// fillCatchUp puts the same records into every shard.
func fillCatchUp(ctx context.Context, server *emulator.Server) error {
	api := kinesis.NewFromConfig(server.AWSConfig())
	var token *string
	for {
		in := &kinesis.ListShardsInput{NextToken: token}
		if token == nil {
			in.StreamName = aws.String(stream)
		}
		list, err := api.ListShards(ctx, in)
		if err != nil {
			return err
		}
		for _, s := range list.Shards {
			put := &kinesis.PutRecordsInput{StreamName: aws.String(stream)}
			for range perCatchUp {
				put.Records = append(put.Records, types.PutRecordsRequestEntry{
					Data: make([]byte, catchUpSize), PartitionKey: aws.String("key"), ExplicitHashKey: s.HashKeyRange.StartingHashKey,
				})
			}
			if _, err := api.PutRecords(ctx, put); err != nil {
				return err
			}
		}
		if token = list.NextToken; token == nil {
			return nil
		}
	}
}
