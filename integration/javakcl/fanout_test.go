//go:build unix

package javakcl

import (
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
)

// subscribed is for how long a subscription lasts, minutes less than at AWS, so that workers go on with the next one many times.
const subscribed = 12 * time.Second

// TestFanOut_ofJavaAndGoTakeOverFromEachOther: workers of the Java KCL read as they do unless told otherwise, by enhanced fan-out, through a
// split and a merge; a Go worker joins them, with the same consumer, and goes on alone through others; and a Java worker takes over from it.
func TestFanOut_ofJavaAndGoTakeOverFromEachOther(t *testing.T) {
	t.Parallel()
	for _, g := range []generation{kcl2, kcl3as2, kcl3phase1, kcl3} {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, g, 4, emulator.WithSubscriptionTTL(subscribed))
			f.mode = config.FanOut
			end := f.produce()
			javas := f.startJavas("java-1", "java-2")
			f.read("all shards read", 2*time.Minute)
			f.bothRead(g != kcl3) // a leader of 3.x may find that one worker is enough
			f.reshards()
			consumer := f.consumer()
			if g != kcl3 { // a table in 3.x mode is refused by Go workers
				f.stop(javas[0])
				go1 := f.startGo("go-1")
				f.replaces(go1, javas[1])
				f.reshards()
				f.replaces(f.startJava("java-3"), go1)
				f.reshards()
			}
			end()
			f.delivered(time.Minute)
			f.finish()
			f.checkShapes()
			f.checkPlaces()
			if left := f.consumer(); *left.ConsumerARN != *consumer.ConsumerARN {
				t.Errorf("the consumer is %s at the end, and was %s, want the same: all workers read with one", *left.ConsumerARN, *consumer.ConsumerARN)
			}
			for _, w := range f.workers {
				f.pushed(w.id, g != kcl3)
			}
		})
	}
}

// consumer is the stream's only registered consumer, which has the application's name.
func (f *fleet) consumer() types.Consumer {
	f.t.Helper()
	about, err := f.kinesis.DescribeStreamSummary(f.t.Context(), &kinesis.DescribeStreamSummaryInput{StreamName: &f.stream})
	if err != nil {
		f.t.Fatal(err)
	}
	out, err := f.kinesis.ListStreamConsumers(f.t.Context(), &kinesis.ListStreamConsumersInput{StreamARN: about.StreamDescriptionSummary.StreamARN})
	if err != nil {
		f.t.Fatal(err)
	}
	if len(out.Consumers) != 1 || *out.Consumers[0].ConsumerName != f.app {
		f.t.Fatalf("consumers of the stream: %v, want one, %q", out.Consumers, f.app)
	}
	return out.Consumers[0]
}

// pushed checks that a worker asked for no records, and that some were pushed to it if it must have read.
func (f *fleet) pushed(id string, must bool) {
	f.t.Helper()
	of := func(operation string) emulator.Count {
		return f.server.Counts().Of(emulator.CountKey{Client: id, Service: emulator.Kinesis, Operation: operation})
	}
	subscriptions, polled := of("SubscribeToShard"), of("GetRecords").Requests
	if polled > 0 || must && subscriptions.Requests == subscriptions.Errors {
		f.t.Errorf("%s subscribed %d times, of which %d in vain, and asked for records %d times; want it to read by fan-out alone", id, subscriptions.Requests, subscriptions.Errors, polled)
	}
	fmt.Printf("  subscriptions of %s: %d, refused %d; consumers described %d times, registered %d times\n", id, subscriptions.Requests, subscriptions.Errors,
		of("DescribeStreamConsumer").Requests, of("RegisterStreamConsumer").Requests)
}

// checkPlaces checks, once everything was delivered and everybody has stopped, that each row stands at the last record of its shard, or at the
// shard's end.
func (f *fleet) checkPlaces() {
	f.t.Helper()
	open := map[string]bool{}
	for _, s := range f.open() {
		open[*s.ShardId] = true
	}
	f.history.mu.Lock()
	defer f.history.mu.Unlock()
	for shard, last := range f.last {
		row, there := f.history.rows[shard]
		switch {
		case !open[shard] && (f.history.gone[shard] || row.finished()):
		case open[shard] && there && row.checkpoint == last:
		default:
			f.t.Errorf("the lease of %s (open %t) stands at %q, and its last record is %s", shard, open[shard], row.checkpoint, last)
		}
	}
}
