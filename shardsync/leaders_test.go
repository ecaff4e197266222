package shardsync

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/hashkey"
	"github.com/shardlease/shardlease/leases"
)

var errDead = errors.New("this worker is dead")

// stage is a table and a stream on which several workers act, one call at a time, in an order that a test chooses.
type stage struct {
	rows   map[string]leases.Lease
	shards []Shard
}

func (s *stage) list() []leases.Lease {
	var out []leases.Lease
	for _, key := range slices.Sorted(maps.Keys(s.rows)) {
		out = append(out, s.rows[key])
	}
	return out
}

// actor is one worker's sight of the stage: a table and a detector. Each call waits for its turn; a worker that died gets no
// answer to this call or any later one.
type actor struct {
	*stage
	arrived chan bool // false: it has ended
	turn    chan bool // false: it dies
	free    bool      // it need not wait
	dead    bool
	millis  int64 // the service's time as it sees it
	err     error
}

func (a *actor) call(f func()) error {
	if a.dead {
		return errDead
	}
	if !a.free {
		a.arrived <- true
		if !<-a.turn {
			a.dead = true
			return errDead
		}
	}
	f()
	return nil
}

func (a *actor) List(context.Context) (l leases.Listing, err error) {
	err = a.call(func() { l.Leases = a.list() })
	return l, err
}

func (a *actor) Get(_ context.Context, key string) (l leases.Lease, found bool, err error) {
	err = a.call(func() { l, found = a.rows[key] })
	return l, found, err
}

func (a *actor) Create(_ context.Context, l leases.Lease) (created bool, err error) {
	err = a.call(func() {
		if _, there := a.rows[l.Key]; !there {
			a.rows[l.Key], created = l, true
		}
	})
	return created, err
}

func (a *actor) UpdateMetadata(_ context.Context, key string, m leases.Metadata) error {
	return a.call(func() {
		l := a.rows[key]
		if m.HashKeyRange.Known {
			l.HashKeyRange = m.HashKeyRange
		}
		if len(m.ChildShardIDs) > 0 {
			l.ChildShardIDs = m.ChildShardIDs
		}
		a.rows[key] = l
	})
}

func (a *actor) ListShards(_ context.Context, _ string, f Filter) (out []Shard, err error) {
	err = a.call(func() {
		for _, s := range a.shards {
			switch {
			case f.Kind == All, f.Kind == AtLatest && s.Open(), f.Kind == AtTrimHorizon && s.StartingSequenceNumber == "1":
				out = append(out, s)
			}
		}
	})
	return out, err
}

func (a *actor) ServiceTime() (time.Time, bool) { return time.UnixMilli(a.millis), true }

func (a *actor) syncer(from config.InitialPosition) *HierarchicalShardSyncer {
	s := NewHierarchicalShardSyncer(a, a, SyncerOptions{Stream: "orders", From: from})
	s.writers = 1 // so that the order of its calls is its own
	return s
}

// play runs the workers in the order that choices say, and further in the order in which they stand. options is how many
// choices there were at each step: each worker that waits may do its call, or die instead if deaths are left.
func play(actors []*actor, acts []func(context.Context, *actor) error, choices []int, deaths int) (options []int) {
	waiting := make([]bool, len(actors))
	for i, a := range actors {
		a.arrived, a.turn = make(chan bool), make(chan bool)
		go func() {
			a.err = acts[i](context.Background(), a)
			a.arrived <- false
		}()
		waiting[i] = <-a.arrived
	}
	for step := 0; slices.Contains(waiting, true); step++ {
		var can []int
		for i, w := range waiting {
			if w {
				can = append(can, i)
			}
		}
		n := len(can)
		if deaths > 0 {
			n *= 2
		}
		options = append(options, n)
		choice := 0
		if step < len(choices) {
			choice = choices[step]
		}
		i, dies := can[choice%len(can)], choice >= len(can)
		if dies {
			deaths--
		}
		actors[i].turn <- !dies
		waiting[i] = <-actors[i].arrived
	}
	return options
}

// following is the next list of choices after one that had so many options at each step; nil after the last.
func following(choices, options []int) []int {
	next := make([]int, len(options))
	copy(next, choices)
	for i := len(next) - 1; i >= 0; i-- {
		if next[i]++; next[i] < options[i] {
			return next[:i+1]
		}
	}
	return nil
}

// leads is one audit that is sure of what it sees, by a worker that saw the table before anything happened.
func leads(from config.InitialPosition, saw []leases.Lease) func(context.Context, *actor) error {
	return func(ctx context.Context, a *actor) error {
		s := a.syncer(from)
		m := NewPeriodicShardSyncManager(s, PeriodicOptions{})
		return m.once(ctx, &watch{sure: true}, slices.Clone(saw), false, &config.SyncEvent{})
	}
}

// S7: any number of leaders at once, each of which may die between any two calls, leave what one leader leaves, and so does
// a leader beside the owner of a shard that ends.
func TestLeaders_Exhaustive(t *testing.T) {
	t.Parallel()
	four := parseGraph("0 - 1-open 0-9\n1 - 1-open 10-19\n2 - 1-open 20-29\n3 - 1-open 30-MAX")
	three := parseGraph("0 - 1-open 0-9\n1 - 1-open 10-19\n2 - 1-open 20-MAX")
	split := parseGraph("0 - 1-5 0-9\n1 - 1-open 10-MAX\n2 0 6-open 0-4\n3 0 6-open 5-9")
	lost := parseGraph("0 - 1-5 0-9\n1 - 1-open 10-19\n2 0 6-open 0-4\n3 0 6-open 5-9\n4 - 1-open 20-MAX")
	blank := func(have []leases.Lease, numbers ...int) []leases.Lease {
		for i := range have {
			if slices.Contains(numbers, numberOf(have[i].Key)) {
				have[i].HashKeyRange = hashkey.Range{}
			}
		}
		return have
	}
	finished := func(have []leases.Lease, number int) []leases.Lease {
		for i := range have {
			if numberOf(have[i].Key) == number {
				have[i].Checkpoint = checkpoint.ShardEnd
			}
		}
		return have
	}
	endsZero := func(ctx context.Context, a *actor) error {
		var end End
		for _, s := range split[2:] {
			end.Children = append(end.Children, ChildShard{
				ID: s.ID, ParentIDs: s.ParentIDs(), StartingHashKey: s.HashKeyRange.Start.String(), EndingHashKey: s.HashKeyRange.End.String(),
			})
		}
		return a.syncer(config.Latest()).EndShard(ctx, leases.Lease{Key: id("0"), ParentShardIDs: nil}, end)
	}
	runs := 0
	for _, c := range []struct {
		name    string
		shards  []Shard
		have    []leases.Lease
		from    config.InitialPosition
		leaders int
		deaths  int
		beside  func(context.Context, *actor) error
	}{
		{name: "two rows are missing at LATEST", shards: four, have: leased(four, 0, 1), from: config.Latest(), leaders: 2, deaths: 2},
		{name: "an empty table at LATEST", shards: three, from: config.Latest(), leaders: 2, deaths: 2},
		{name: "an empty table at TRIM_HORIZON", shards: split, from: config.TrimHorizon(), leaders: 2, deaths: 2},
		{name: "three leaders", shards: three, have: leased(three, 0, 1), from: config.TrimHorizon(), leaders: 3, deaths: 2},
		{name: "three leaders at LATEST", shards: three, have: leased(three, 0, 1), from: config.Latest(), leaders: 3, deaths: 0},
		{name: "no hash keys", shards: three, have: blank(leased(three, 0, 1), 0, 1), from: config.TrimHorizon(), leaders: 2, deaths: 1},
		{name: "lost children, and a shard at LATEST", shards: lost, have: finished(leased(lost, 0, 1), 0), from: config.Latest(), leaders: 2, deaths: 1},
		{name: "a shard ends meanwhile", shards: split, have: leased(split, 0), from: config.Latest(), leaders: 1, deaths: 2, beside: endsZero},
	} {
		var acts []func(context.Context, *actor) error
		for range c.leaders {
			acts = append(acts, leads(c.from, c.have))
		}
		if c.beside != nil {
			acts = append(acts, c.beside)
		}
		fresh := func(n int, free bool) []*actor {
			s := &stage{rows: map[string]leases.Lease{}, shards: c.shards}
			for _, l := range c.have {
				s.rows[l.Key] = l
			}
			var out []*actor
			for i := range n {
				out = append(out, &actor{stage: s, free: free, millis: int64(1_000_000 + 5000*i)})
			}
			return out
		}
		// What one does, one after the other, is what all must leave.
		alone := fresh(len(acts), true)
		for i, act := range acts {
			if err := act(t.Context(), alone[i]); err != nil {
				t.Fatalf("%s: alone: %v", c.name, err)
			}
		}
		want := alone[0].list()
		for i := range want {
			want[i].StartAtMillis = 0
		}
		count := 0
		for choices := []int{}; choices != nil; count++ {
			actors := fresh(len(acts), false)
			options := play(actors, acts, choices, c.deaths)
			alive := true
			for i, a := range actors {
				if a.dead {
					alive = false
				} else if a.err != nil {
					t.Fatalf("%s: choices %v: worker %d: %v", c.name, choices, i, a.err)
				}
			}
			if !alive { // the next ones do it all again
				for i, act := range acts {
					if err := act(t.Context(), &actor{stage: actors[0].stage, free: true, millis: int64(2_000_000 + i)}); err != nil {
						t.Fatalf("%s: choices %v: recovery: %v", c.name, choices, err)
					}
				}
			}
			got := actors[0].list()
			pins := map[int64]bool{}
			for i := range got {
				l := &got[i]
				if (l.Checkpoint == checkpoint.Latest) != (l.StartAtMillis != 0) {
					t.Fatalf("%s: choices %v: lease %+v", c.name, choices, l)
				}
				if l.StartAtMillis != 0 {
					pins[l.StartAtMillis] = true
					l.StartAtMillis = 0
				}
			}
			if !reflect.DeepEqual(want, got) {
				t.Fatalf("%s: choices %v: (-one leader +several)\n%s", c.name, choices, cmp.Diff(want, got))
			}
			if len(pins) > 1 {
				t.Fatalf("%s: choices %v: LATEST is %v", c.name, choices, pins)
			}
			choices = following(choices, options)
		}
		t.Logf("%s: %d orders", c.name, count)
		runs += count
	}
	t.Logf("runs %d", runs)
}
