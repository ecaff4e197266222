// Command multistream reads the Kinesis streams that it is told, as one application with one lease table:
//
//	go run ./multistream orders bills
//
// Against "shardlease emulator --stream orders:2 --stream bills:1", or AWS, as the SDK's usual variables say. It prints what
// it reads, and goes on until it is interrupted. Start it twice, and the processes share the shards of all streams.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	awsconfig "github.com/aws/aws-sdk-go-v2/config"

	"github.com/shardlease/shardlease"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/processor"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, streams []string) error {
	if len(streams) == 0 {
		return errors.New("name the streams to read, as in: multistream orders bills")
	}
	cloud, err := awsconfig.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}
	cfg := config.Default("all-audit", "")
	for _, name := range streams {
		cfg.Streams = append(cfg.Streams, config.StreamConfig{StreamName: name})
	}
	cfg.Logger = slog.Default()
	w, err := shardlease.New(cfg, cloud, audit)
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// audit makes the processor of one shard, which is told whose it is.
func audit(s processor.Shard) processor.RecordProcessor {
	return processor.Each(func(_ context.Context, r processor.Record) error {
		fmt.Printf("%s, %s: %s\n", s.Stream, s.ID, r.Data)
		return nil
	})(s)
}
