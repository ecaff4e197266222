package consume

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/coordinator"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/loop"
	"github.com/shardlease/shardlease/leases"
)

func at(n string) checkpoint.ExtendedSequenceNumber {
	return checkpoint.ExtendedSequenceNumber{SequenceNumber: n}
}

func TestOwnAtTip_wantsEverythingPrintedAndCheckpointed(t *testing.T) {
	t.Parallel()
	good := coordinator.Assignment{LeaseKey: "a", State: "Processing", MillisBehindLatest: 0, Checkpoint: at("5"), Delivered: at("5")}
	behind, unsaved, unknown, waiting := good, good, good, good
	behind.MillisBehindLatest = 1
	unsaved.Delivered = at("6")
	unknown.MillisBehindLatest = -1
	waiting.State = "WaitingOnParents"
	finished := coordinator.Assignment{LeaseKey: "b", State: "Finished"}
	for name, c := range map[string]struct {
		held []coordinator.Assignment
		want bool
	}{
		"nothing held":         {nil, true},
		"at the tip":           {[]coordinator.Assignment{good, finished}, true},
		"behind":               {[]coordinator.Assignment{good, behind}, false},
		"not checkpointed":     {[]coordinator.Assignment{unsaved}, false},
		"nothing read yet":     {[]coordinator.Assignment{unknown}, false},
		"waiting for a parent": {[]coordinator.Assignment{finished, waiting}, false},
	} {
		if got := ownAtTip(c.held); got != c.want {
			t.Errorf("%s: at tip = %v, want %v", name, got, c.want)
		}
	}
}

func TestOthers_areUnfinishedAndNotOurs(t *testing.T) {
	t.Parallel()
	lease := func(key string, at checkpoint.ExtendedSequenceNumber) leases.Lease {
		return leases.Lease{Key: key, Checkpoint: at}
	}
	var got []string
	for _, l := range others([]leases.Lease{
		lease("ours", at("5")), lease("ended", checkpoint.ShardEnd), lease("theirs", at("7")), lease("nobody's", checkpoint.TrimHorizon),
	}, []coordinator.Assignment{{LeaseKey: "ours"}}) {
		got = append(got, l.Key)
	}
	if diff := cmp.Diff([]string{"theirs", "nobody's"}, got); diff != "" {
		t.Errorf("others (-want +got):\n%s", diff)
	}
}

func TestAtTip_looksBehindTheCheckpoint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := emulator.New()
		for _, name := range []string{"s", "empty", "closed"} {
			if err := server.CreateStream(name, 1); err != nil {
				t.Fatal(err)
			}
		}
		api := kinesis.NewFromConfig(server.AWSConfig())
		put := func() string {
			out, err := api.PutRecord(t.Context(), &kinesis.PutRecordInput{StreamName: aws.String("s"), PartitionKey: aws.String("k"), Data: []byte("x")})
			if err != nil {
				t.Fatal(err)
			}
			return *out.SequenceNumber
		}
		if err := loop.Real().Sleep(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		first, last := put(), put()
		if _, err := api.SplitShard(t.Context(), &kinesis.SplitShardInput{
			StreamName: aws.String("closed"), ShardToSplit: aws.String("shardId-000000000000"), NewStartingHashKey: aws.String("1000"),
		}); err != nil {
			t.Fatal(err)
		}
		now := time.Now().UnixMilli()
		if err := loop.Real().Sleep(t.Context(), time.Minute); err != nil { // the service refuses times to come
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			stream, shard string
			at            checkpoint.ExtendedSequenceNumber
			startAt       int64
			want          bool
		}{
			"at the last record":      {"s", "shardId-000000000000", at(last), 0, true},
			"before it":               {"s", "shardId-000000000000", at(first), 0, false},
			"at the start":            {"s", "shardId-000000000000", checkpoint.TrimHorizon, 0, false},
			"at the start, empty":     {"empty", "shardId-000000000000", checkpoint.TrimHorizon, 0, true},
			"closed, end not noted":   {"closed", "shardId-000000000000", checkpoint.TrimHorizon, 0, false},
			"latest, pinned later":    {"s", "shardId-000000000000", checkpoint.Latest, now + 1000, true},
			"latest, pinned before":   {"s", "shardId-000000000000", checkpoint.Latest, now - 1000, false},
			"latest, not pinned":      {"s", "shardId-000000000000", checkpoint.Latest, 0, false},
			"a time, pinned before":   {"s", "shardId-000000000000", checkpoint.AtTimestamp, now - 1000, false},
			"forgotten by the stream": {"s", "shardId-000000000077", at(first), 0, true},
		} {
			got, err := atTip(t.Context(), api, config.StreamConfig{StreamName: c.stream}, leases.Lease{Key: c.shard, Checkpoint: c.at, StartAtMillis: c.startAt})
			if err != nil || got != c.want {
				t.Errorf("%s: at tip = %v (error %v), want %v", name, got, err, c.want)
			}
		}
	})
}
