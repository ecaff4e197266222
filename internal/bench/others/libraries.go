package main

import (
	"context"
	"log/slog"

	v2credentials "github.com/aws/aws-sdk-go-v2/credentials"
	v1aws "github.com/aws/aws-sdk-go/aws"
	v1credentials "github.com/aws/aws-sdk-go/aws/credentials"
	v1session "github.com/aws/aws-sdk-go/aws/session"
	v1kinesis "github.com/aws/aws-sdk-go/service/kinesis"
	harlow "github.com/harlow/kinesis-consumer"
	vmconfig "github.com/vmware/vmware-go-kcl-v2/clientlibrary/config"
	vm "github.com/vmware/vmware-go-kcl-v2/clientlibrary/interfaces"
	vmworker "github.com/vmware/vmware-go-kcl-v2/clientlibrary/worker"

	"github.com/shardlease/shardlease"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/processor"
)

func drainShardlease(ctx context.Context, endpoint, app, stream string, _ bool, taken func([]byte)) error {
	cfg := config.Default(app, stream)
	cfg.Logger = slog.New(slog.DiscardHandler)
	w, err := shardlease.New(cfg, cloud(endpoint), processor.Each(func(_ context.Context, r processor.Record) error {
		taken(r.Data)
		return nil
	}))
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

func drainVMware(ctx context.Context, endpoint, app, stream string, _ bool, taken func([]byte)) error {
	who := v2credentials.NewStaticCredentialsProvider("bench", "secret", "")
	cfg := vmconfig.NewKinesisClientLibConfigWithCredentials(app, stream, emulator.Region, "worker", who, who).
		WithInitialPositionInStream(vmconfig.TRIM_HORIZON).WithMaxRecords(10_000).WithMaxLeasesForWorker(shards).
		WithShardSyncIntervalMillis(500).WithKinesisEndpoint(endpoint).WithDynamoDBEndpoint(endpoint)
	w := vmworker.NewWorker(vmFactory(taken), cfg)
	if err := w.Start(); err != nil {
		return err
	}
	<-ctx.Done()
	w.Shutdown()
	return nil
}

// vmFactory makes processors that hand records to it.
type vmFactory func([]byte)

func (f vmFactory) CreateProcessor() vm.IRecordProcessor { return f }

func (vmFactory) Initialize(*vm.InitializationInput) {}

func (f vmFactory) ProcessRecords(in *vm.ProcessRecordsInput) {
	if len(in.Records) == 0 {
		return
	}
	for i := range in.Records {
		f(in.Records[i].Data)
	}
	_ = in.Checkpointer.Checkpoint(in.Records[len(in.Records)-1].SequenceNumber)
}

func (vmFactory) Shutdown(*vm.ShutdownInput) {}

// drainHarlow keeps no checkpoints, which that library writes for each record, mostly into memory.
func drainHarlow(ctx context.Context, endpoint, _, stream string, packed bool, taken func([]byte)) error {
	s, err := v1session.NewSession(&v1aws.Config{
		Region: v1aws.String(emulator.Region), Endpoint: &endpoint, Credentials: v1credentials.NewStaticCredentials("bench", "secret", ""),
	})
	if err != nil {
		return err
	}
	c, err := harlow.New(stream, harlow.WithClient(v1kinesis.New(s)), harlow.WithShardIteratorType(v1kinesis.ShardIteratorTypeTrimHorizon),
		harlow.WithAggregation(packed))
	if err != nil {
		return err
	}
	return c.Scan(ctx, func(r *harlow.Record) error {
		taken(r.Data)
		return nil
	})
}
