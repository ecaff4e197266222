package leases_test

import (
	"errors"
	"time"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/internal/states"
	"github.com/shardlease/shardlease/leases"
)

// coreConsumer is a shard's consumer under one tenure: the state machine and the tracker are the product's, what carries them out is
// processor/steps.go once more, with waits that are events.
type coreConsumer struct {
	h       *coreHeld
	w       *coreWorker
	shard   *coreShard
	phase   states.Phase
	tracker *checkpoint.Tracker
	place   int64 // the last record that is handled
	batch   int64 // the last record of the batch in hand
	inHand  bool
	last    bool // the batch in hand is the last one
	stop    bool
	taken   leases.Lease // as the tenure began with it
}

// begin starts the consumer of a tenure, after that of the one before has ended.
func (h *coreHeld) begin() {
	key := h.lease.Key
	switch {
	case h.lease.Finished() || h.over():
		return
	case h.w.running[key] != nil:
		h.w.after(50*time.Millisecond, h.begin)
		return
	}
	at := h.lease.Checkpoint
	con := &coreConsumer{h: h, w: h.w, shard: h.w.c.stream.byID[key], place: max(0, coreNumber(at)), taken: h.lease}
	con.tracker = checkpoint.NewTracker(h, at, checkpoint.TrackerOptions{LeaseKey: key})
	h.consumer, h.w.running[key] = con, con
	if h.asked || h.w.stopping {
		con.stop = true
	}
	con.step()
}

// again is the next step, a moment later.
func (con *coreConsumer) again(low, high time.Duration) { con.w.soon(low, high, con.step) }

// interruption is what has happened outside that the phase does not take into account yet.
func (con *coreConsumer) interruption() (states.Event, bool) {
	changes := func(e states.Event) bool {
		p, _ := states.Next(con.phase, e)
		return p != con.phase
	}
	switch {
	case con.h.over() && changes(states.LeaseIsLost):
		return states.LeaseIsLost, true
	case con.stop && changes(states.StopRequested):
		return states.StopRequested, true
	}
	return states.Again, false
}

func (con *coreConsumer) move(e states.Event) {
	con.phase, _ = states.Next(con.phase, e)
	con.w.c.note("%s: %s %v, and is %v", con.w.id, con.shard.id, e, con.phase.State)
	con.w.c.mix(uint64(e))
	con.step()
}

func (con *coreConsumer) step() {
	if e, ok := con.interruption(); ok {
		con.move(e)
		return
	}
	action := con.phase.Action()
	acts := action == states.Initialize || action == states.Notify || action == states.RecordEnd || action == states.CallShardEnded
	if acts && !con.h.usable() {
		con.again(20*time.Millisecond, 100*time.Millisecond)
		return
	}
	switch action {
	case states.AwaitParents:
		con.awaitParents()
	case states.Initialize:
		con.call(func() {
			if con.w.c.random.IntN(10) == 0 {
				con.phase, _ = states.Next(con.phase, states.InitializeFailed)
				con.again(100*time.Millisecond, time.Second)
				return
			}
			con.move(states.Initialized)
		})
	case states.Process:
		con.process()
	case states.Notify:
		con.checkpoint(func(error) { con.move(states.Notified) })
	case states.RecordEnd:
		con.recordEnd()
	case states.CallShardEnded:
		con.tracker.BeginShardEnd()
		con.call(func() {
			con.checkpoint(func(error) {
				if con.tracker.Last().IsShardEnd() {
					con.move(states.ShardEnded)
					return
				}
				con.failed(states.EndFailed)
			})
		})
	case states.CallLeaseLost, states.Leave:
		con.tracker.Close(leases.ErrLeaseLost)
		con.move(states.Left)
	case states.None:
		con.done()
	}
}

// failed tries again after a pause.
func (con *coreConsumer) failed(e states.Event) {
	con.phase, _ = states.Next(con.phase, e)
	con.again(100*time.Millisecond, time.Second)
}

// call is a call of user code.
func (con *coreConsumer) call(returned func()) {
	c := con.w.c
	takes := c.between(time.Millisecond, 100*time.Millisecond)
	if c.faults && c.random.IntN(50) == 0 {
		takes = c.between(0, 2*c.cfg.LeaseManagement.FailoverTime)
	}
	con.w.after(takes, returned)
}

func (con *coreConsumer) awaitParents() {
	if len(con.shard.parents) == 0 || con.w.c.lacks == withoutWaiting {
		con.move(states.ParentsEnded)
		return
	}
	con.ask(&coreScript{run: func(p *coreScript) error {
		ended, err := p.syncer().ParentsEnded(p.ctx(), con.h.lease)
		p.ok = ended
		return err
	}}, func(s *coreScript, err error) {
		if err == nil && s.ok {
			con.move(states.ParentsEnded)
			return
		}
		con.again(500*time.Millisecond, time.Second)
	})
}

func (con *coreConsumer) recordEnd() {
	if con.w.c.lacks == withoutChildren {
		con.move(states.EndRecorded)
		return
	}
	end := con.shard.end()
	if con.w.c.random.IntN(4) == 0 {
		end.Children = nil // the service does not say
	}
	con.ask(&coreScript{run: func(p *coreScript) error { return p.syncer().EndShard(p.ctx(), con.taken, end) }}, func(_ *coreScript, err error) {
		switch {
		case con.h.over() && errors.Is(err, leases.ErrLeaseLost):
			con.move(states.LeaseIsLost)
		case err != nil:
			con.failed(states.EndFailed)
		default:
			con.move(states.EndRecorded)
		}
	})
}

// process fetches a batch if there is none in hand, and delivers it.
func (con *coreConsumer) process() {
	c, s := con.w.c, con.shard
	if !con.inHand {
		put := s.put()
		n := min(put, con.place+1+c.random.Int64N(4))
		if n == con.place && !s.closed {
			con.again(200*time.Millisecond, time.Second)
			return
		}
		con.batch, con.inHand, con.last = n, true, s.closed && n == put
	}
	if con.batch == con.place { // the end, and no records
		con.inHand = false
		con.move(states.LastBatchDone)
		return
	}
	if !con.h.usable() {
		con.again(20*time.Millisecond, 100*time.Millisecond)
		return
	}
	con.judge()
	con.tracker.BeginBatch(corePlace(con.batch))
	con.call(con.returned)
}

// judge looks at records that are about to be handed to user code.
func (con *coreConsumer) judge() {
	c, s := con.w.c, con.shard
	c.note("%s is given records %d to %d of %s under token %d", con.w.id, con.place+1, con.batch, s.id, con.h.token)
	c.mix(uint64(con.batch))
	if s.epoch > con.h.token {
		c.breaks("O4: %s acts on %s under token %d, and %s owns it since %d", con.w.id, s.id, con.h.token, s.nonce, s.epoch)
	}
	if con.place > s.handled {
		c.breaks("S3: %s reads %s from %d on, and only %d were handled", con.w.id, s.id, con.place+1, s.handled)
	}
	for _, p := range s.parents {
		if !p.ended {
			c.breaks("S4: %s reads %s before its parent %s is read to its end", con.w.id, s.id, p.id)
		}
	}
}

// returned is the end of a batch: it fails, or is handled; then the processor may checkpoint before it returns.
func (con *coreConsumer) returned() {
	c := con.w.c
	if c.random.IntN(12) == 0 {
		// Another goroutine of the processor checkpoints what was handled, which the batch was not.
		con.tracker.EndBatch(c.lacks == withoutHandled)
		con.checkpoint(func(error) { con.again(50*time.Millisecond, time.Second) })
		return
	}
	con.shard.handled = max(con.shard.handled, con.batch)
	finish := func(err error) {
		con.tracker.EndBatch(err == nil)
		if err != nil {
			con.again(50*time.Millisecond, time.Second)
			return
		}
		con.place, con.inHand = con.batch, false
		e := states.BatchDone
		if con.last {
			e = states.LastBatchDone
		}
		con.move(e)
	}
	if c.random.IntN(4) > 0 {
		finish(nil)
		return
	}
	con.checkpoint(finish)
}

// checkpoint is a call of the tracker's Checkpoint; then runs when it returns.
func (con *coreConsumer) checkpoint(then func(error)) {
	h := con.h
	if h.busy && !h.gone {
		con.w.after(20*time.Millisecond, func() { con.checkpoint(then) })
		return
	}
	if !h.usable() {
		then(leases.ErrLeaseLost)
		return
	}
	asked := con.w.stamp()
	h.busy, h.wrote = true, false
	con.w.call(con.tracker.Checkpointer().Checkpoint, func(err error) {
		if h.wrote {
			h.settle(asked, h.got, err)
		}
		h.busy = false
		if errors.Is(err, checkpoint.ErrOutOfRange) {
			con.w.c.breaks("S2: Checkpoint was refused: %v", err)
		}
		then(err)
	})
}

// done is the end of the consumer: the lease of a finished shard is kept.
func (con *coreConsumer) done() {
	h := con.h
	h.consumer = nil
	delete(con.w.running, con.shard.id)
	if h.asked || con.w.stopping || con.stop {
		h.giveUp()
	}
}

// ask runs a function of shardsync question by question, each of which takes its time and may fail.
func (con *coreConsumer) ask(s *coreScript, then func(*coreScript, error)) {
	s.w = con.w
	err := s.replay()
	if s.open == nil {
		then(s, err)
		return
	}
	con.w.read(func(ok bool) {
		if con.h.over() {
			then(s, leases.ErrLeaseLost)
			return
		}
		s.answer(ok, func() { con.ask(s, then) })
	})
}
