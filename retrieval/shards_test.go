package retrieval

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/shardsync"
)

func (w *world) detector() *KinesisShardDetector {
	return NewShardDetector(w.api, DetectorOptions{Region: "eu-north-1", Worker: "w", Hooks: w.hooks()})
}

func (w *world) requests(operation string) int64 {
	return w.server.Counts().Of(emulator.CountKey{Client: "reader", Operation: operation}).Requests
}

func TestDetector_readsEveryPage(t *testing.T) {
	bubble(t, 2500, func(ctx context.Context, w *world) {
		shards, err := w.detector().ListShards(ctx, stream, shardsync.Filter{})
		if err != nil || len(shards) != 2500 {
			t.Fatalf("%d shards, %v", len(shards), err)
		}
		if n := w.requests("ListShards"); n != 3 {
			t.Errorf("%d requests, want 3 pages", n)
		}
		s := shards[1234]
		if s.ID != "shardId-000000001234" || !s.Open() || !s.HashKeyRange.Known || s.StartingSequenceNumber == "" {
			t.Errorf("shard %+v", s)
		}
	})
}

// One fault on every page, and a token that expires twice: all shards come, none twice.
func TestDetector_repeatsOnlyThePageThatFails(t *testing.T) {
	bubble(t, 2500, func(ctx context.Context, w *world) {
		next := func(body []byte) bool { return strings.Contains(string(body), "NextToken") }
		w.server.Inject(emulator.Rule{Operation: "ListShards", Client: "reader", Skip: 1, Times: 2, Match: next, Effect: emulator.Throttle()})
		w.server.Inject(emulator.Rule{Operation: "ListShards", Client: "reader", Times: 1, Effect: emulator.CutBody(1000)})
		w.server.Inject(emulator.Rule{Operation: "ListShards", Client: "reader", Skip: 1, Times: 1, Match: next, Effect: emulator.Fail(400, "ExpiredNextTokenException", "")})
		shards, err := w.detector().ListShards(ctx, stream, shardsync.Filter{})
		if err != nil || len(shards) != 2500 {
			t.Fatalf("%d shards, %v", len(shards), err)
		}
		if n := len(w.retried()); n < 2 {
			t.Errorf("%d retries", n)
		}
	})
}

func TestDetector_asksForWhatTheFilterMeans(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		time.Sleep(time.Minute)
		before := time.Now()
		time.Sleep(time.Minute)
		w.split(shard0)
		time.Sleep(time.Minute)
		d := w.detector()
		for _, c := range []struct {
			f    shardsync.Filter
			want int
		}{
			{shardsync.Filter{}, 3},
			{shardsync.Filter{Kind: shardsync.AtLatest}, 2},
			{shardsync.Filter{Kind: shardsync.AtTrimHorizon}, 1},
			{shardsync.Filter{Kind: shardsync.AtTimestamp, At: before}, 1},
			{shardsync.Filter{Kind: shardsync.AtTimestamp, At: time.Now()}, 2},
		} {
			shards, err := d.ListShards(ctx, stream, c.f)
			if err != nil || len(shards) != c.want {
				t.Errorf("filter %+v: %d shards, %v, want %d", c.f, len(shards), err, c.want)
			}
		}
		now, ok := d.ServiceTime()
		if !ok || time.Since(now).Abs() > time.Second {
			t.Errorf("service time %v, %v", now, ok)
		}
	})
}

func TestDetector_knowsNoTimeBeforeItsFirstListing(t *testing.T) {
	t.Parallel()
	if now, ok := NewShardDetector(nil, DetectorOptions{}).ServiceTime(); ok {
		t.Errorf("service time %v", now)
	}
}

func TestDetector_saysWhatIsWrongForGood(t *testing.T) {
	t.Parallel()
	latest := shardsync.Filter{Kind: shardsync.AtLatest}
	cases := map[string]struct {
		stream string
		spoil  func(ctx context.Context, w *world)
		want   error
		text   []string
	}{
		"no such stream": {stream: "order", want: shardsync.ErrStreamNotFound, text: []string{`"order"`, "eu-north-1", "check its name, the region"}},
		"being deleted": {want: shardsync.ErrStreamDeleting, text: []string{`"orders"`}, spoil: func(ctx context.Context, w *world) {
			if _, err := w.user.DeleteStream(ctx, &kinesis.DeleteStreamInput{StreamName: aws.String(stream)}); err != nil {
				w.t.Fatal(err)
			}
		}},
		"no permission": {want: shardsync.ErrNotAllowed, text: []string{"kinesis:ListShards"}, spoil: func(_ context.Context, w *world) {
			w.server.Inject(emulator.Rule{Effect: emulator.Fail(http.StatusBadRequest, "AccessDeniedException", "User is not authorized")})
		}},
		"wrong secret": {want: shardsync.ErrNotAllowed, text: []string{"credentials"}, spoil: func(_ context.Context, w *world) {
			w.server.Inject(emulator.Rule{Effect: emulator.Fail(http.StatusForbidden, "InvalidSignatureException", "")})
		}},
		"a time in the future": {text: []string{"InvalidArgument"}, spoil: func(_ context.Context, w *world) {
			w.server.Inject(emulator.Rule{Operation: "ListShards", Effect: emulator.Fail(http.StatusBadRequest, "InvalidArgumentException", "")})
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(ctx context.Context, w *world) {
				if c.spoil != nil {
					c.spoil(ctx, w)
				}
				if c.stream == "" {
					c.stream = stream
				}
				d := w.detector()
				err := d.Check(ctx, c.stream)
				if err == nil {
					_, err = d.ListShards(ctx, c.stream, latest)
				}
				if _, permanent := errors.AsType[*shardsync.PermanentError](err); !permanent || c.want != nil && !errors.Is(err, c.want) {
					t.Fatalf("ListShards: %v, want a permanent error that is %v", err, c.want)
				}
				for _, s := range c.text {
					if !strings.Contains(err.Error(), s) {
						t.Errorf("ListShards: %q lacks %q", err, s)
					}
				}
			}, emulator.WithControlDelay(time.Minute))
		})
	}
}

func TestDetector_waitsForAStreamThatIsBeingCreated(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		start := time.Now()
		if _, err := w.user.CreateStream(ctx, &kinesis.CreateStreamInput{StreamName: aws.String("new"), ShardCount: aws.Int32(3)}); err != nil {
			t.Fatal(err)
		}
		d := w.detector()
		if err := d.Check(ctx, "new"); err != nil {
			t.Fatal(err)
		}
		shards, err := d.ListShards(ctx, "new", shardsync.Filter{Kind: shardsync.AtTrimHorizon})
		if err != nil || len(shards) != 3 {
			t.Fatalf("%d shards, %v", len(shards), err)
		}
		if d := time.Since(start); d < time.Minute || d > time.Minute+10*time.Second {
			t.Errorf("it took %v", d)
		}
	}, emulator.WithControlDelay(time.Minute))
}

// Without the right to look at the stream the listing decides; the refusal tells the time.
func TestDetector_needsNoPermissionToLook(t *testing.T) {
	bubble(t, 3, func(ctx context.Context, w *world) {
		w.server.Inject(emulator.Rule{Operation: "DescribeStreamSummary", Effect: emulator.Fail(400, "AccessDeniedException", "")})
		d := w.detector()
		if err := d.Check(ctx, stream); err != nil {
			t.Fatal(err)
		}
		if now, ok := d.ServiceTime(); !ok || time.Since(now).Abs() > time.Second {
			t.Errorf("service time %v, %v", now, ok)
		}
		if at, ok := d.Created(); ok {
			t.Errorf("created at %v", at)
		}
		shards, err := d.ListShards(ctx, stream, shardsync.Filter{Kind: shardsync.AtLatest})
		if err != nil || len(shards) != 3 {
			t.Fatalf("%d shards, %v", len(shards), err)
		}
	})
}

func TestDetector_noticesAStreamThatWasCreatedAnew(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		d := w.detector()
		for range 2 {
			if err := d.Check(ctx, stream); err != nil {
				t.Fatal(err)
			}
		}
		first, _ := d.Created()
		w.recreate(1, time.Hour)
		err := d.Check(ctx, stream)
		if _, permanent := errors.AsType[*shardsync.PermanentError](err); !permanent || !errors.Is(err, shardsync.ErrOtherHistory) {
			t.Fatalf("Check: %v", err)
		}
		for _, s := range []string{stamp(first), stamp(time.Now()), "delete the rows"} {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("Check: %q lacks %q", err, s)
			}
		}
	})
}

// recreate deletes the stream and, after a gap, creates one of its name.
func (w *world) recreate(shards int, gap time.Duration) {
	w.t.Helper()
	if _, err := w.user.DeleteStream(w.t.Context(), &kinesis.DeleteStreamInput{StreamName: aws.String(stream), EnforceConsumerDeletion: aws.Bool(true)}); err != nil {
		w.t.Fatal(err)
	}
	time.Sleep(gap)
	if err := w.server.CreateStream(stream, shards); err != nil {
		w.t.Fatal(err)
	}
}

// A stream in use, which KCL answers with nothing, and a request without an answer, at which KCL gives up.
func TestDetector_triesAgainWhatKCLDoesNot(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		effect emulator.Effect
		most   time.Duration
	}{
		"in use":    {emulator.Fail(400, "ResourceInUseException", ""), time.Second},
		"no answer": {emulator.Freeze(), 32 * time.Second},
		"half":      {emulator.CutBody(10), time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 3, func(ctx context.Context, w *world) {
				w.server.Inject(emulator.Rule{Operation: "ListShards", Client: "reader", Times: 1, Effect: c.effect})
				start := time.Now()
				shards, err := w.detector().ListShards(ctx, stream, shardsync.Filter{})
				if err != nil || len(shards) != 3 {
					t.Fatalf("%d shards, %v", len(shards), err)
				}
				if d := time.Since(start); d > c.most || len(w.retried()) != 1 {
					t.Errorf("it took %v and %d retries", d, len(w.retried()))
				}
			})
		})
	}
}

func TestDetector_givesUpOnlyAfterAWhile(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		w.server.Inject(emulator.Rule{Operation: "ListShards", Effect: emulator.Throttle()})
		start := time.Now()
		_, err := w.detector().ListShards(ctx, stream, shardsync.Filter{})
		if err == nil || !strings.Contains(err.Error(), "failed 16 times") {
			t.Errorf("ListShards: %v", err)
		}
		if d := time.Since(start); d < 2*time.Second || d > time.Minute { // half a minute on average
			t.Errorf("it took %v", d)
		}
		if n := len(w.retried()); n != tries {
			t.Errorf("%d retries reported, want %d", n, tries)
		}
	})
}

// A server that repeats a page for ever is noticed.
func TestDetector_failsOnAPageThatLeadsToItself(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		w.api = &altered{KinesisAPI: w.api, listShards: func(in *kinesis.ListShardsInput, out *kinesis.ListShardsOutput) { out.NextToken = aws.String("again") }}
		w.server.Inject(emulator.Rule{Operation: "ListShards", Match: func(b []byte) bool { return strings.Contains(string(b), "again") }, Effect: emulator.Fail(400, "ExpiredNextTokenException", "")})
		if shards, err := w.detector().ListShards(ctx, stream, shardsync.Filter{}); err == nil {
			t.Errorf("%d shards", len(shards))
		}
	})
}

func TestDetector_identifiesAStream(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		account, created, err := w.detector().Identify(ctx, stream)
		if err != nil || account != "000000000000" || created.IsZero() || time.Since(created) > time.Hour {
			t.Errorf("account %q, created %v, %v", account, created, err)
		}
		epoch := created.Unix()
		same := NewShardDetector(w.api, DetectorOptions{CreationEpoch: epoch})
		if err := same.Check(ctx, stream); err != nil {
			t.Errorf("the stream with its own epoch: %v", err)
		}
		other := NewShardDetector(w.api, DetectorOptions{CreationEpoch: epoch - 60})
		if err := other.Check(ctx, stream); !errors.Is(err, shardsync.ErrOtherHistory) {
			t.Errorf("a stream with an older epoch: %v, want that it is another one", err)
		}
		if _, _, err := w.detector().Identify(ctx, "none"); !errors.Is(err, shardsync.ErrStreamNotFound) {
			t.Errorf("a stream that is not there: %v", err)
		}
		w.server.Inject(emulator.Rule{Operation: "DescribeStreamSummary", Client: "reader", Effect: emulator.Fail(400, "AccessDeniedException", "no")})
		if _, _, err := w.detector().Identify(ctx, stream); !errors.Is(err, shardsync.ErrNotAllowed) || !strings.Contains(err.Error(), "DescribeStreamSummary") {
			t.Errorf("without the permission: %v, want an error that names it", err)
		}
	})
}
