package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/internal/loop"
	"github.com/shardlease/shardlease/processor"
)

// userTrouble is what is wrong with the user code of a place.
type userTrouble struct {
	mu     sync.Mutex
	random *rand.Rand
	kinds  map[*Fault]bool
}

func (u *userTrouble) begin(f *Fault) (end func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.kinds[f] = true
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.kinds, f)
	}
}

// ailment is what goes wrong with one call.
type ailment struct {
	slow         time.Duration
	fails, panic bool
	at           float64 // how far it comes before
}

func (u *userTrouble) next() (a ailment) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for f := range u.kinds {
		strikes := u.random.Float64() < f.Part
		switch f.Kind { //nolint:exhaustive // the others are no matter of user code
		case SlowUser:
			a.slow = f.Delay
		case FailingUser:
			a.fails = a.fails || strikes
		case PanickingUser:
			a.panic = a.panic || strikes
		}
	}
	a.at = u.random.Float64()
	return a
}

// user is the user code of one tenure.
type user struct {
	t     *tenure
	how   Handling
	since int // records since the last checkpoint, of EveryFew
}

func (x *process) processor(s processor.Shard) processor.RecordProcessor {
	how := x.w.s.Handling[x.place.n%len(x.w.s.Handling)]
	return &user{t: &tenure{process: x, lease: s.LeaseKey, shard: s, last: map[string]int{}}, how: how}
}

var (
	errUser = errors.New("user code fails, as the schedule says")
	errGone = errors.New("the process is dead")
)

// call runs one call of user code: judged, behind the gate, and with what is wrong with it.
func (u *user) call(ctx context.Context, method string, token int64, first string, f func(ailment) error) (err error) {
	x := u.t.process
	x.w.j.enter(u.t, method, token, first)
	defer func() {
		fault := recover()
		if fault != nil {
			err = fmt.Errorf("panic: %v", fault)
		}
		x.w.j.leave(u.t, method, err)
		if fault != nil {
			panic(fault)
		}
	}()
	if err := x.m.gate(ctx); err != nil {
		return err
	}
	if x.dead.Load() {
		return errGone
	}
	a := ailment{}
	if method == "Initialize" || method == "ProcessRecords" || method == "ShardEnded" {
		a = x.place.user.next()
	}
	if a.slow > 0 {
		if err := loop.ClockOf(ctx).Sleep(ctx, a.slow); err != nil {
			return err
		}
	}
	if err := f(a); err != nil {
		return err
	}
	if x.dead.Load() {
		return errGone
	}
	return x.m.gate(ctx)
}

// strike fails a call, or panics.
func (a ailment) strike() error {
	if a.panic {
		panic("user code panics, as the schedule says")
	}
	if a.fails {
		return errUser
	}
	return nil
}

func (u *user) Initialize(ctx context.Context, in processor.InitializationInput) error {
	return u.call(ctx, "Initialize", in.Grant.Token, "", func(a ailment) error {
		if err := a.strike(); err != nil {
			return err
		}
		u.t.process.w.j.note(u.t.process.name, u.t.lease, "initializes (%s) at %s, token %d", u.how, shortNumber(in.Position.SequenceNumber), in.Grant.Token)
		if in.Pending == nil || u.how != TwoPhases || !u.t.process.w.j.covers(u.t.lease, in.Pending.At.SequenceNumber) {
			return nil
		}
		return in.Checkpointer.CheckpointAt(ctx, in.Pending.At)
	})
}

func (u *user) ProcessRecords(ctx context.Context, in processor.ProcessRecordsInput) error {
	first := in.Records[0].SequenceNumber
	return u.call(ctx, "ProcessRecords", in.Grant.Token, first, func(a ailment) error {
		x := u.t.process
		x.w.j.add(x.name, u.t.lease, func() string {
			last := in.Records[len(in.Records)-1]
			from, _ := x.w.s.parse(in.Records[0])
			to, _ := x.w.s.parse(last)
			return fmt.Sprintf("is given %d records, %s (%s) to %s (%s), token %d", len(in.Records), from, shortNumber(first),
				to, shortNumber(last.SequenceNumber), in.Grant.Token)
		})
		last := in.Records[len(in.Records)-1].Position()
		var prepared *checkpoint.Prepared
		if u.how == TwoPhases {
			var err error
			if prepared, err = in.Checkpointer.Prepare(ctx, last, []byte(x.name)); err != nil {
				return fmt.Errorf("prepare: %w", err)
			}
		}
		for i, r := range in.Records {
			if (a.fails || a.panic) && i == int(a.at*float64(len(in.Records))) {
				return a.strike()
			}
			rec, err := x.w.s.parse(r)
			if err != nil {
				x.w.j.violate("S3", x.name, u.t.lease, "%v", err)
			}
			if !x.w.j.handle(u.t, rec) {
				return errGone
			}
			if u.since++; u.how == EveryFew && u.since%3 == 0 {
				// Of a batch that comes again a part may be checkpointed.
				if err := in.Checkpointer.CheckpointAt(ctx, r.Position()); err != nil && !errors.Is(err, checkpoint.ErrOutOfRange) {
					return fmt.Errorf("checkpoint: %w", err)
				}
			}
			if err := x.m.gate(ctx); err != nil {
				return err
			}
		}
		switch u.how {
		case EachBatch:
			return in.Checkpointer.Checkpoint(ctx)
		case TwoPhases:
			return prepared.Commit(ctx)
		case Elsewhere:
			u.later(ctx, in.Checkpointer, last)
		case EveryFew, OnlyAtTheEnd, Never, handlings:
		}
		return nil
	})
}

// later checkpoints a batch from another goroutine, when ProcessRecords has long returned.
func (u *user) later(ctx context.Context, c *checkpoint.Checkpointer, at checkpoint.ExtendedSequenceNumber) {
	x := u.t.process
	clock := loop.ClockOf(ctx)
	x.background.Go(func() {
		ctx := x.ctx
		if clock.Sleep(ctx, time.Second) != nil || x.m.gate(ctx) != nil || x.dead.Load() {
			return
		}
		_ = c.CheckpointAt(ctx, at) // refused if a later one was faster, or the lease is gone
	})
}

func (u *user) LeaseLost(ctx context.Context, _ processor.LeaseLostInput) {
	_ = u.call(ctx, "LeaseLost", 0, "", func(ailment) error { return nil })
}

func (u *user) ShardEnded(ctx context.Context, in processor.ShardEndedInput) error {
	return u.call(ctx, "ShardEnded", in.Grant.Token, "", func(a ailment) error {
		if err := a.strike(); err != nil {
			return err
		}
		return in.Checkpointer.Checkpoint(ctx)
	})
}

func (u *user) ShutdownRequested(ctx context.Context, in processor.ShutdownRequestedInput) error {
	return u.call(ctx, "ShutdownRequested", in.Grant.Token, "", func(ailment) error {
		if u.how == Never {
			return nil
		}
		return in.Checkpointer.Checkpoint(ctx)
	})
}

// parse reads what a record says of itself.
func (s Schedule) parse(r processor.Record) (record, error) {
	if s.Table {
		return parseChange(r)
	}
	key, num, _ := strings.Cut(string(r.Data), ":")
	n, err := strconv.Atoi(num)
	if err != nil || key != r.PartitionKey {
		return record{}, fmt.Errorf("a record with the key %q says %q", r.PartitionKey, r.Data)
	}
	return record{key, n}, nil
}
