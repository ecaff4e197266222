package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/shardlease/shardlease"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/processor"
)

// drainWorker reads the stream with a worker of an application that is new each time. What is measured begins when the
// worker holds all leases and is let go, and ends with the last record: neither start nor stop are in it, but the first
// request for an iterator is, as in the bare loop.
func drainWorker(ctx context.Context, f *filled, user func(*sink) processor.Factory) (usage, error) {
	f.runs++
	cfg := config.Default(fmt.Sprint("drain-", f.runs), stream)
	cfg.Logger = slog.New(slog.DiscardHandler)
	var held, drained sync.WaitGroup
	held.Add(shards)
	drained.Add(shards)
	begin := make(chan struct{})
	w, err := shardlease.New(cfg, f.server.AWSConfig(), func(s processor.Shard) processor.RecordProcessor {
		return &gate{RecordProcessor: user(&sink{left: f.users(), all: drained.Done})(s), held: held.Done, begin: begin}
	})
	if err != nil {
		return usage{}, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var run sync.WaitGroup
	var ran error
	ended := make(chan struct{})
	run.Go(func() {
		defer close(ended)
		ran = w.Run(ctx)
	})
	var u usage
	err = waitOr(&held, ended)
	if err == nil {
		u, err = measure(func() error {
			close(begin)
			return waitOr(&drained, ended)
		})
	}
	stop()
	run.Wait()
	return u, errors.Join(err, ran)
}

// waitOr waits for all, unless the worker ends before.
func waitOr(all *sync.WaitGroup, ended <-chan struct{}) error {
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ended:
		return errors.New("the worker has ended before its work")
	case <-time.After(20 * time.Minute):
		return errors.New("the worker has not done its work in 20 minutes")
	}
}

// gate is a processor that is not initialised before begin is closed.
type gate struct {
	processor.RecordProcessor
	held  func()
	begin <-chan struct{}
}

func (g *gate) Initialize(ctx context.Context, in processor.InitializationInput) error {
	g.held()
	select {
	case <-g.begin:
		return g.RecordProcessor.Initialize(ctx, in)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
