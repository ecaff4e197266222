package shardlease_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/fleettest"
	"github.com/shardlease/shardlease/processor"
	"github.com/shardlease/shardlease/retrieval"
	"github.com/shardlease/shardlease/retrieval/kpl"
)

func fanOut(c *config.Config) { c.Retrieval.Mode = config.FanOut }

// consumers are those registered with the fleet's stream.
func consumers(t *testing.T, f *fleettest.Fleet) []types.Consumer {
	t.Helper()
	return consumersOf(t, f, fleettest.Stream)
}

func consumersOf(t *testing.T, f *fleettest.Fleet, stream string) []types.Consumer {
	t.Helper()
	out, err := f.Kinesis.ListStreamConsumers(t.Context(), &kinesis.ListStreamConsumersInput{
		StreamARN: aws.String("arn:aws:kinesis:us-east-1:000000000000:stream/" + stream),
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Consumers
}

func TestFanOut_aFleetReadsThroughReshardsAndKills(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(7, 0))
		f := fleettest.New(t, 4, emulator.WithControlDelay(time.Second))
		time.Sleep(2 * time.Second)
		workers := map[string]*fleettest.Worker{}
		for _, id := range []string{"a", "b", "c"} {
			workers[id] = f.Start(id, fanOut)
		}
		next := 0
		for round := range fleettest.Shorter(8, 4) {
			f.Put(100, 30)
			f.Reshard(random, 2, 8)
			f.Put(100, 30)
			time.Sleep(20 * time.Second)
			if round%4 == 2 {
				for id, w := range workers {
					w.Kill()
					delete(workers, id)
					break
				}
				id := fmt.Sprint("new", next)
				next++
				workers[id] = f.Start(id, fanOut)
			}
		}
		f.Put(200, 30)
		f.WaitDelivered(2 * time.Minute)
		f.Check()
		if n := len(consumers(t, f)); n != 1 {
			t.Errorf("%d consumers are registered by the fleet, want one", n)
		}
		if n := f.Server.Counts().Of(emulator.CountKey{Operation: "GetRecords"}).Requests; n != 0 {
			t.Errorf("%d reads by polling", n)
		}
	})
}

// A fleet that reads by one mode is replaced, worker by worker, by one that reads by the other, and back.
func TestFanOut_switchingTheModeKeepsEachPosition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 4)
		workers := []*fleettest.Worker{f.Start("p0"), f.Start("p1")}
		f.Put(100, 20)
		stop := f.Load(500 * time.Millisecond)
		time.Sleep(10 * time.Second)
		for i, mode := range fleettest.Shorter([]config.RetrievalMode{config.FanOut, config.Polling}, []config.RetrievalMode{config.FanOut}) {
			for k := range workers {
				fresh := f.Start(fmt.Sprint(mode, i, k), func(c *config.Config) { c.Retrieval.Mode = mode })
				time.Sleep(15 * time.Second)
				if err := workers[k].Stop(); err != nil {
					t.Error(err)
				}
				workers[k] = fresh
				time.Sleep(15 * time.Second)
			}
		}
		stop()
		f.WaitDelivered(30 * time.Second)
		if n := f.Check(); n != 0 {
			t.Errorf("%d records came twice", n)
		}
	})
}

// A consumer that somebody else has registered needs no permission but to subscribe to it: none to look for it, and none to register.
func TestFanOut_readsByAGivenConsumerWithoutAnyOtherCallAboutConsumers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 3)
		out, err := f.Kinesis.RegisterStreamConsumer(t.Context(), &kinesis.RegisterStreamConsumerInput{
			StreamARN: aws.String("arn:aws:kinesis:us-east-1:000000000000:stream/orders"), ConsumerName: aws.String("given"),
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		for _, operation := range []string{"RegisterStreamConsumer", "DescribeStreamConsumer", "ListStreamConsumers", "DeregisterStreamConsumer", "GetRecords", "GetShardIterator"} {
			f.Server.Inject(emulator.Rule{Client: "a", Operation: operation, Effect: emulator.Fail(400, "AccessDeniedException", "not yours")})
		}
		var log warnings
		w := f.Start("a", fanOut, func(c *config.Config) {
			c.Retrieval.FanOut.ConsumerARN = *out.Consumer.ConsumerARN
			c.Logger = log.logger()
		})
		f.Put(50, 10)
		f.WaitDelivered(20 * time.Second)
		time.Sleep(6 * time.Minute) // each subscribes again
		f.Put(50, 10)
		f.WaitDelivered(20 * time.Second)
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
		if n := f.Check(); n != 0 {
			t.Errorf("%d records came twice", n)
		}
		if all := consumers(t, f); len(all) != 1 || *all[0].ConsumerName != "given" {
			t.Errorf("consumers %v, want the given one", all)
		}
		if lines := log.with(""); len(lines) != 0 {
			t.Errorf("the log has %q", lines)
		}
	})
}

// Workers die one after the other, each when it has handled one more user record of an aggregate, and each reads by the other mode than
// the one before; a subscription is cut and an iterator expires at each start. Each goes on exactly where the one before was.
func TestFanOut_switchingTheModeInsideAnAggregateResumesAfterTheUserRecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 1)
		var users []kpl.UserRecord
		var want []string
		all := fleettest.Shorter(60, 12)
		for i := range all {
			users = append(users, kpl.UserRecord{PartitionKey: fmt.Sprint("key ", i%5), Data: fmt.Append(nil, i)})
			want = append(want, fmt.Sprintf("%d by worker-%d", i, i))
		}
		data, err := kpl.Aggregate(users...)
		if err != nil {
			t.Fatal(err)
		}
		putData(f, data)
		var mu sync.Mutex
		var got []string
		for i := range all {
			expired := f.Server.Inject(emulator.Rule{Operation: "GetRecords", Times: 1, Effect: emulator.Fail(400, "ExpiredIteratorException", "expired")})
			cut := f.Server.Inject(emulator.Rule{Operation: "SubscribeToShard", Times: 1, Effect: emulator.CutEventAfter(0)})
			id := fmt.Sprint("worker-", i)
			w := f.StartWith(id, processor.Each(func(_ context.Context, r processor.Record) error {
				if r.SubSequenceNumber > int64(i) {
					return errors.New("the database is down")
				}
				mu.Lock()
				defer mu.Unlock()
				got = append(got, string(r.Data)+" by "+id)
				return nil
			}), func(c *config.Config) {
				c.Retrieval.Mode = []config.RetrievalMode{config.Polling, config.FanOut}[i%2]
				c.LeaseManagement.FailoverTime = time.Second
				c.Lifecycle.ShutdownGrace = time.Second
			})
			time.Sleep(20 * time.Second)
			w.Kill()
			expired()
			cut()
		}
		mu.Lock()
		defer mu.Unlock()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("user records (-want +got):\n%s", diff)
		}
	})
}

func TestNew_refusesAClientThatCannotFanOut(t *testing.T) {
	t.Parallel()
	s := emulator.New()
	cfg := fleettest.Config("a")
	fanOut(&cfg)
	api := kinesis.NewFromConfig(s.AWSConfig())
	nothing := processor.Each(func(context.Context, processor.Record) error { return nil })
	if _, err := shardlease.New(cfg, s.AWSConfig(), nothing, shardlease.WithKinesis(plain{api})); err == nil || !strings.Contains(err.Error(), "retrieval.FanOutAPI") {
		t.Errorf("error %v, want one that says what the client lacks", err)
	}
	if _, err := shardlease.New(cfg, s.AWSConfig(), nothing, shardlease.WithKinesis(api)); err != nil {
		t.Error(err)
	}
}

// The client for all would ask its own region for a stream that is not there, or for another one of that name.
func TestNew_refusesAStreamOfAnotherRegionThanTheClients(t *testing.T) {
	t.Parallel()
	const arn = "arn:aws:kinesis:eu-west-1:123456789012:stream/" + fleettest.Stream
	s := emulator.New()
	api := kinesis.NewFromConfig(s.AWSConfig())
	there := kinesis.NewFromConfig(s.AWSConfig(), func(o *kinesis.Options) { o.Region = "eu-west-1" })
	nothing := processor.Each(func(context.Context, processor.Record) error { return nil })
	for name, c := range map[string]struct {
		change func(*config.Config)
		said   string
	}{
		"consumer": {func(c *config.Config) { c.Retrieval.FanOut.ConsumerARN = arn + "/consumer/audit:1" }, `Retrieval.FanOut.ConsumerARN is "` + arn + `/consumer/audit:1", want region us-east-1`},
		"stream":   {func(c *config.Config) { c.StreamARN = arn }, `StreamARN is "` + arn + `", want region us-east-1`},
		"consumer, and no name": {func(c *config.Config) {
			c.StreamName, c.StreamARN, c.Retrieval.FanOut.ConsumerARN = "", arn, arn+"/consumer/audit:1"
		}, `StreamARN is "` + arn + `", want region us-east-1`},
	} {
		cfg := fleettest.Config("a")
		fanOut(&cfg)
		c.change(&cfg)
		for given, opts := range map[string][]shardlease.Option{"the worker's client": nil, "a given client": {shardlease.WithKinesis(api)}} {
			if _, err := shardlease.New(cfg, s.AWSConfig(), nothing, opts...); err == nil || !strings.Contains(err.Error(), c.said) {
				t.Errorf("%s, %s: %v, want %s", name, given, err, c.said)
			}
		}
		if _, err := shardlease.New(cfg, s.AWSConfig(), nothing, shardlease.WithStreamClient(arn, there)); err != nil {
			t.Errorf("%s, with a client of its own: %v", name, err)
		}
	}
}

// deaf passes no options on.
type deaf struct{ *kinesis.Client }

func (d deaf) SubscribeToShard(ctx context.Context, in *kinesis.SubscribeToShardInput, _ ...func(*kinesis.Options)) (*kinesis.SubscribeToShardOutput, error) {
	return kinesis.New(d.Options()).SubscribeToShard(ctx, in) // of its own, because subscriptions of one client race in the SDK
}

var _ retrieval.FanOutAPI = deaf{}

func TestFanOut_saysThatAClientDropsItsOptions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := emulator.New()
		if err := s.CreateStream(fleettest.Stream, 1); err != nil {
			t.Fatal(err)
		}
		cfg := fleettest.Config("a")
		fanOut(&cfg)
		var said atomic.Bool
		cfg.Hooks = &config.Hooks{Retried: func(e config.RetryEvent) {
			if strings.Contains(e.Err.Error(), "does not pass options on") {
				said.Store(true)
			}
		}}
		w, err := shardlease.New(cfg, s.AWSConfig(), processor.Each(func(context.Context, processor.Record) error { return nil }),
			shardlease.WithKinesis(deaf{kinesis.NewFromConfig(s.AWSConfig())}))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := w.Run(ctx); err != nil {
			t.Error(err)
		}
		if !said.Load() {
			t.Error("nothing was said of it")
		}
	})
}

func TestFanOut_readsSeveralStreamsEachByItsOwnConsumer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := emulator.New()
		cfg := fleettest.Config("a")
		cfg.StreamName = ""
		fanOut(&cfg)
		cfg.Retrieval.FanOut.Deregister = true
		api := kinesis.NewFromConfig(s.ClientConfig("test"))
		for _, name := range []string{"orders", "refunds"} {
			if err := s.CreateStream(name, 2); err != nil {
				t.Fatal(err)
			}
			cfg.Streams = append(cfg.Streams, config.StreamConfig{StreamName: name})
			for i := range 20 {
				if _, err := api.PutRecord(t.Context(), &kinesis.PutRecordInput{StreamName: &name, PartitionKey: new(strconv.Itoa(i)), Data: []byte(name)}); err != nil {
					t.Fatal(err)
				}
			}
		}
		var seen atomic.Int64
		// refunds has a client of its own.
		w, err := shardlease.New(cfg, s.ClientConfig("w"), processor.Each(func(context.Context, processor.Record) error { seen.Add(1); return nil }),
			shardlease.WithStreamClient("arn:aws:kinesis:us-east-1:000000000000:stream/refunds", kinesis.NewFromConfig(s.ClientConfig("own"))))
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		time.Sleep(30 * time.Second)
		if n := seen.Load(); n != 40 {
			t.Errorf("%d records of 40", n)
		}
		registered := func(stream string) int {
			out, err := api.ListStreamConsumers(t.Context(), &kinesis.ListStreamConsumersInput{StreamARN: aws.String("arn:aws:kinesis:us-east-1:000000000000:stream/" + stream)})
			if err != nil {
				t.Fatal(err)
			}
			return len(out.Consumers)
		}
		if a, b := registered("orders"), registered("refunds"); a != 1 || b != 1 {
			t.Errorf("%d and %d consumers, want one each", a, b)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if a, b := registered("orders"), registered("refunds"); a != 0 || b != 0 {
			t.Errorf("%d and %d consumers are left", a, b)
		}
		counts := s.Counts()
		if counts.Of(emulator.CountKey{Client: "own", Operation: "SubscribeToShard"}).Requests == 0 || counts.Of(emulator.CountKey{Operation: "GetRecords"}).Requests != 0 {
			t.Error("refunds was not read by its own client, or something was polled")
		}
		cfg.Retrieval.FanOut = config.FanOutConfig{ConsumerARN: "arn:aws:kinesis:us-east-1:000000000000:stream/orders/consumer/x:1"}
		if _, err := shardlease.New(cfg, s.AWSConfig(), processor.Each(func(context.Context, processor.Record) error { return nil })); err == nil || !strings.Contains(err.Error(), "want none for several streams") {
			t.Errorf("one consumer for several streams: %v", err)
		}
	})
}
