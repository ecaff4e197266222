package sourcetest_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/sourcetest"
)

func TestEmulator_behavesAsKinesisDoes(t *testing.T) {
	t.Parallel()
	sourcetest.Run(t, emulator.New().AWSConfig(), sourcetest.Everything())
}

func TestEmulator_behavesAsKinesisDoesWhenControlCallsTakeTime(t *testing.T) {
	t.Parallel()
	sourcetest.Run(t, emulator.New(emulator.WithControlDelay(30*time.Millisecond)).AWSConfig(), sourcetest.Everything())
}

func TestEmulator_behavesAsDynamoDBStreamsDo(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]emulator.Option{
		"one shard, at once":              nil,
		"four shards, control takes time": {emulator.WithTableStreamShards(4), emulator.WithControlDelay(30 * time.Millisecond)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := emulator.New(opts...)
			sourcetest.RunTableStreams(t, server.AWSConfig(), func(table string, children int) (err error) {
				if children == 1 {
					_, err = server.RollTableStream(table)
				} else {
					_, err = server.SplitTableStream(table, "")
				}
				return err
			})
		})
	}
}

func TestEmulator_behavesAsDynamoDBStreamsDoOnAPort(t *testing.T) {
	t.Parallel()
	server := emulator.New()
	url, stop, err := server.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	sourcetest.RunTableStreams(t, aws.Config{
		Region: emulator.Region, BaseEndpoint: &url, Credentials: credentials.NewStaticCredentialsProvider("local", "local", ""),
	}, nil)
}
