package shardsync_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/leases"
	"github.com/shardlease/shardlease/retrieval"
	"github.com/shardlease/shardlease/shardsync"
)

// logging is syncer with what it logs.
func (w *world) logging(from config.InitialPosition) (*shardsync.HierarchicalShardSyncer, *bytes.Buffer) {
	var log bytes.Buffer
	return shardsync.NewHierarchicalShardSyncer(w.newTable("w"), retrieval.NewShardDetector(kinesis.NewFromConfig(w.server.ClientConfig("w")), retrieval.DetectorOptions{}),
		shardsync.SyncerOptions{Stream: stream, From: from, Logger: slog.New(slog.NewTextHandler(&log, nil))}), &log
}

func TestSync_movesNothingAndWarnsOnceIfThePositionChanged(t *testing.T) {
	t.Parallel()
	noon := time.Date(2025, 3, 1, 12, 0, 0, 0, time.UTC)
	far := number("99999999999999999999999999999999999999999999999999999999")
	pinned := func(l leases.Lease) leases.Lease { l.StartAtMillis = noon.UnixMilli(); return l }
	root := func(at checkpoint.ExtendedSequenceNumber) leases.Lease { return leases.Lease{Checkpoint: at} }
	child := func(at checkpoint.ExtendedSequenceNumber) leases.Lease {
		return leases.Lease{Checkpoint: at, ParentShardIDs: []string{"shardId-gone"}}
	}
	for name, c := range map[string]struct {
		row   leases.Lease
		from  config.InitialPosition
		names []string // nothing is logged if there are none
	}{
		"TRIM_HORIZON stays":                       {row: root(checkpoint.TrimHorizon), from: config.TrimHorizon()},
		"LATEST stays":                             {row: pinned(root(checkpoint.Latest)), from: config.Latest()},
		"LATEST stays, and was read":               {row: pinned(root(far)), from: config.Latest()},
		"AT_TIMESTAMP stays":                       {row: pinned(root(checkpoint.AtTimestamp)), from: config.AtTimestamp(noon.Add(time.Microsecond))},
		"AT_TIMESTAMP stays, and was read":         {row: pinned(root(far)), from: config.AtTimestamp(noon)},
		"TRIM_HORIZON stays, and was read":         {row: root(far), from: config.TrimHorizon()},
		"a child says nothing":                     {row: child(checkpoint.TrimHorizon), from: config.Latest()},
		"a Java worker's AT_TIMESTAMP":             {row: root(checkpoint.AtTimestamp), from: config.AtTimestamp(noon)},
		"TRIM_HORIZON to LATEST":                   {root(checkpoint.TrimHorizon), config.Latest(), []string{"initial_position=LATEST", "begun=TRIM_HORIZON"}},
		"TRIM_HORIZON to LATEST, and was read":     {root(far), config.Latest(), []string{"initial_position=LATEST", `begun="TRIM_HORIZON, or by`}},
		"TRIM_HORIZON to AT_TIMESTAMP":             {root(checkpoint.TrimHorizon), config.AtTimestamp(noon), []string{`"AT_TIMESTAMP 2025-03-01T12:00:00Z"`, "begun=TRIM_HORIZON"}},
		"LATEST to TRIM_HORIZON":                   {pinned(root(checkpoint.Latest)), config.TrimHorizon(), []string{"initial_position=TRIM_HORIZON", "begun=LATEST"}},
		"LATEST to TRIM_HORIZON, a child is left":  {pinned(child(checkpoint.TrimHorizon)), config.TrimHorizon(), []string{"initial_position=TRIM_HORIZON", "LATEST or AT_TIMESTAMP, as of 2025-03-01T12:00:00Z"}},
		"AT_TIMESTAMP to TRIM_HORIZON":             {pinned(root(checkpoint.AtTimestamp)), config.TrimHorizon(), []string{"initial_position=TRIM_HORIZON", `"AT_TIMESTAMP 2025-03-01T12:00:00Z"`}},
		"AT_TIMESTAMP to another one":              {pinned(root(checkpoint.AtTimestamp)), config.AtTimestamp(noon.Add(time.Second)), []string{"12:00:01Z", "12:00:00Z"}},
		"AT_TIMESTAMP to another one, and is read": {pinned(root(far)), config.AtTimestamp(noon.Add(time.Second)), []string{"12:00:01Z", "12:00:00Z"}},
		"AT_TIMESTAMP to LATEST":                   {pinned(root(checkpoint.AtTimestamp)), config.Latest(), []string{"initial_position=LATEST", "12:00:00Z"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(ctx context.Context, w *world) {
				c.row.Key, c.row.HashKeyRange = shard(0), w.shards()[0].HashKeyRange
				if _, err := w.table.Create(ctx, c.row); err != nil {
					t.Fatal(err)
				}
				before := w.rows()[shard(0)]
				s, log := w.logging(c.from)
				for range 2 {
					if ev, err := s.Sync(ctx); err != nil || ev.Created != 0 {
						t.Fatal(ev, err)
					}
				}
				if after := w.rows()[shard(0)]; after.Checkpoint != before.Checkpoint || after.StartAtMillis != before.StartAtMillis {
					t.Errorf("the row was %+v and is %+v", before, after)
				}
				want := min(len(c.names), 1)
				if n := strings.Count(log.String(), "InitialPosition has no effect"); n != want {
					t.Errorf("%d warnings, want %d: %s", n, want, log)
				}
				for _, text := range c.names {
					if !strings.Contains(log.String(), text) {
						t.Errorf("the log lacks %q: %s", text, log)
					}
				}
			})
		})
	}
}

// What a lease that a Java worker made gets at its first take.
func TestPin_saysWhatTheRowDoesNot(t *testing.T) {
	bubble(t, 2, func(ctx context.Context, w *world) {
		time.Sleep(1500 * time.Millisecond)
		asked := time.Now().Truncate(time.Second).Add(-time.Second).UnixMilli()
		known := func(have ...leases.Lease) func() ([]leases.Lease, bool) {
			return func() ([]leases.Lease, bool) { return have, true }
		}
		unknown := func() ([]leases.Lease, bool) { return nil, false }
		never := func() ([]leases.Lease, bool) { t.Error("rows were asked for"); return nil, false }
		at := time.UnixMilli(777)
		latest, timed := leases.Lease{Key: "a", Checkpoint: checkpoint.Latest}, leases.Lease{Key: "a", Checkpoint: checkpoint.AtTimestamp}
		for _, c := range []struct {
			name  string
			from  config.InitialPosition
			first bool // Sync was called
			lease leases.Lease
			rows  func() ([]leases.Lease, bool)
			want  int64
			warns bool
		}{
			{name: "pinned", first: true, lease: leases.Lease{Checkpoint: checkpoint.Latest, StartAtMillis: 5}, rows: never, want: 5},
			{name: "at TRIM_HORIZON", from: config.Latest(), first: true, lease: leases.Lease{Checkpoint: checkpoint.TrimHorizon}, rows: never},
			{name: "begun", from: config.Latest(), first: true, lease: leases.Lease{Checkpoint: number("5")}, rows: never},
			{name: "finished", from: config.Latest(), first: true, lease: leases.Lease{Checkpoint: checkpoint.ShardEnd}, rows: never},
			{name: "LATEST, others are pinned", first: true, lease: latest, rows: known(latest, leases.Lease{StartAtMillis: 9}, leases.Lease{StartAtMillis: 7}), want: 7},
			{name: "LATEST, none is pinned", first: true, lease: latest, rows: known(latest), want: asked},
			{name: "LATEST, others are unknown", first: true, lease: latest, rows: unknown, want: asked},
			{name: "LATEST, the service was never asked", lease: latest, rows: known(latest), warns: true},
			{name: "AT_TIMESTAMP", from: config.AtTimestamp(at), lease: timed, rows: never, want: 777},
			{name: "AT_TIMESTAMP, and we have none", from: config.Latest(), lease: timed, rows: never, warns: true},
		} {
			s, log := w.logging(c.from)
			if c.first {
				w.first()
				if _, err := s.Sync(ctx); err != nil {
					t.Fatal(err)
				}
				log.Reset()
			}
			for range 2 {
				if got := s.Pin(c.lease, c.rows); got != c.want {
					t.Errorf("%s: %d, want %d", c.name, got, c.want)
				}
			}
			if c.warns != (log.Len() > 0) {
				t.Errorf("%s: log %q", c.name, log)
			}
		}
	})
}

// All leases that one worker pins start at the same time, also if a smaller one appears meanwhile.
func TestPin_staysWhatItWas(t *testing.T) {
	bubble(t, 1, func(_ context.Context, w *world) {
		s, _ := w.logging(config.Latest())
		latest := leases.Lease{Key: "a", Checkpoint: checkpoint.Latest}
		for _, pin := range []int64{9, 7} {
			if got := s.Pin(latest, func() ([]leases.Lease, bool) { return []leases.Lease{{StartAtMillis: pin}}, true }); got != 9 {
				t.Errorf("pin %d", got)
			}
		}
	})
}

// A stream that is not there, or will not be for long, is said at the start, although the leases need no listing.
func TestSync_asksForTheStreamAlsoIfNothingIsMissing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rule    emulator.Rule
		deleted bool
		want    error
		took    time.Duration
	}{
		"it is there":             {},
		"it was deleted":          {deleted: true, want: shardsync.ErrStreamNotFound},
		"we may not ask":          {rule: emulator.Rule{Effect: emulator.Fail(400, "AccessDeniedException", "")}},
		"the service is busy":     {rule: emulator.Rule{Effect: emulator.Throttle()}, took: 2 * time.Second},
		"the service is silent":   {rule: emulator.Rule{Effect: emulator.Freeze()}, took: 2 * time.Second},
		"the service is confused": {rule: emulator.Rule{Effect: emulator.Fail(500, "InternalFailure", "")}, took: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 2, func(ctx context.Context, w *world) {
				w.first()
				if c.deleted {
					w.deleteStream()
				}
				if c.rule.Effect != (emulator.Effect{}) {
					c.rule.Operation, c.rule.Client = "DescribeStreamSummary", "w"
					w.server.Inject(c.rule)
				}
				began := time.Now()
				_, err := w.syncer("w", config.TrimHorizon()).Sync(ctx)
				if c.want == nil && err != nil || c.want != nil && !isPermanent(err, c.want) {
					t.Errorf("Sync: %v, want %v", err, c.want)
				}
				if took := time.Since(began); took != c.took {
					t.Errorf("it took %v, want %v", took, c.took)
				}
				if n := w.requests("w", "ListShards").Requests; n != 0 {
					t.Errorf("%d listings", n)
				}
			})
		})
	}
}

func TestSync_looksAtTheStreamOnce(t *testing.T) {
	bubble(t, 2, func(ctx context.Context, w *world) {
		if _, err := w.syncer("w", config.TrimHorizon()).Sync(ctx); err != nil {
			t.Fatal(err)
		}
		if n := w.requests("w", "DescribeStreamSummary").Requests; n != 1 {
			t.Errorf("%d looks at the stream", n)
		}
	})
}
