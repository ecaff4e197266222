package retrieval

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/emulator"
)

const accountOfTests = "arn:aws:kinesis:us-east-1:000000000000:stream/"

// misled answers with consumers of another stream.
type misled struct{ FanOutAPI }

func (m misled) DescribeStreamConsumer(ctx context.Context, in *kinesis.DescribeStreamConsumerInput, o ...func(*kinesis.Options)) (*kinesis.DescribeStreamConsumerOutput, error) {
	in.StreamARN = aws.String(accountOfTests + "other")
	return m.FanOutAPI.DescribeStreamConsumer(ctx, in, o...)
}

// Records of another stream would be checkpointed as this one's.
func TestFanOut_readsWithNoConsumerOfAnotherStream(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		given bool   // the consumer of the other stream is configured, else the service answers with it
		arn   string // of the stream, as configured
	}{
		"a consumer given for a stream's name": {true, ""},
		"a consumer given for a stream's ARN":  {true, accountOfTests + stream},
		"one of another account":               {true, "arn:aws:kinesis:us-east-1:123456789012:stream/other"},
		"one that the service names":           {false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(ctx context.Context, w *world) {
				w.put(1)
				if err := w.server.CreateStream("other", 1); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				out, err := w.user.RegisterStreamConsumer(ctx, &kinesis.RegisterStreamConsumerInput{StreamARN: aws.String(accountOfTests + "other"), ConsumerName: aws.String("audit")})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := w.user.PutRecord(ctx, &kinesis.PutRecordInput{StreamName: aws.String("other"), PartitionKey: aws.String("k"), Data: []byte("foreign")}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				start := Start{Stream: stream, StreamARN: c.arn, ShardID: shard0, LeaseKey: shard0, From: checkpoint.TrimHorizon}
				if c.given {
					w.cfg.FanOut.ConsumerARN = *out.Consumer.ConsumerARN
				}
				if strings.HasSuffix(c.arn, "/other") {
					start.Stream = "other"
				}
				f := w.fanOut()
				if !c.given {
					f.api = misled{f.api}
				}
				s, err := f.Open(ctx, start)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				short, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				if b, err := s.Next(short); err == nil {
					t.Fatalf("%d records came", len(b.Records))
				}
				if n := w.server.Counts().Of(emulator.CountKey{Client: "reader", Operation: "SubscribeToShard"}).Requests; n != 0 {
					t.Errorf("%d subscriptions", n)
				}
				all := w.retried()
				if len(all) == 0 || !strings.Contains(all[0].Err.Error(), "belongs to another stream than") {
					t.Errorf("said %+v", all)
				}
			})
		})
	}
}
