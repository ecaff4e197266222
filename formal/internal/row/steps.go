package row

import "github.com/shardlease/shardlease/formal/internal/explore"

// What a process, or the world, does.
const (
	doLand = iota
	doReply
	doGiveUpWaiting
	doRetry
	doLandLate
	doLoseLate
	doCrash
	doStart
	doStartAnew
	doLook
	doStale
	doRegain
	doRegainComplete
	doTakeUnowned
	doTakeStale
	doSteal
	doAsk
	doFirstRenewal
	doTakeClaimed
	doCompleteClaimed
	doForgetClaim
	doTakeMarked
	doTakeOverdue
	doReleaseGiven
	doRenew
	doHandle
	doCheckpoint
	doDrain
	doHandOver
	doLeave
	doRelease
	doExit
	doExpire
	doSuspend
	doWake
	doWakeReread
	doActOnReading
	doEndConsumer
	doJavaTake
	doJavaRegain
	doJavaRenew
	doJavaCheckpoint
	doTick
	doDelete
	doVanish
	doCreate
)

// world is the Step.Who of what no process does.
const world = 255

type emit = func(next *State, step explore.Step, broken string)

// Steps implements [explore.System].
func (m *Model) Steps(s *State, emit emit) {
	for i := range m.Procs {
		m.procSteps(s, i, emit)
	}
	m.worldSteps(s, emit)
}

// do is one step: a copy of the state, changed by f, which returns the rule that it breaks; skip undoes the step.
func (m *Model) do(from *State, who uint8, what uint8, emit emit, f func(*State) string) {
	s := *from
	broken := f(&s)
	if broken == skip {
		return
	}
	if broken == "" {
		broken = m.invariant(&s)
	}
	m.canonical(&s)
	emit(&s, explore.Step{Who: who, What: what}, broken)
}

const skip = "-"

// invariant is what holds in each state beside what each write keeps.
func (m *Model) invariant(s *State) string {
	acting := 0
	for i := range m.Procs {
		p := &s.P[i]
		if m.Drain && p.Running != 0 && p.Draining != 0 {
			return "S8: two consumers of one shard run in one worker"
		}
		if p.Kind == Go && m.acts(p) {
			acting++
		}
	}
	if m.Timed && acting > 1 {
		return "two workers act under one lease at the same time"
	}
	return ""
}

// acts reports whether user code may be called under the lease.
func (m *Model) acts(p *Proc) bool {
	return p.Alive != 0 && p.Held != 0 && p.Suspended == 0 && p.MustRenew == 0 && p.Drained == 0 &&
		(!m.Timed || p.Age < ticks) && (!m.Drain || p.Running != 0)
}

// procSteps are the faults that any process may meet, and then what its kind does.
func (m *Model) procSteps(from *State, i int, emit emit) {
	now := &from.P[i]
	do := func(what uint8, f func(*State, *Proc) string) {
		m.do(from, uint8(i), what, emit, func(s *State) string { return f(s, &s.P[i]) })
	}
	m.late(now, do)
	if now.Alive == 0 {
		m.starts(now, i, do)
		return
	}
	if m.Crashes {
		do(doCrash, func(_ *State, p *Proc) string { m.die(p); return "" })
	}
	if now.Op.State == sent { // also while its sender is suspended
		m.lands(now.Op.Behind, doLand, do, func(p *Proc) *Op { return &p.Op })
	}
	if now.Suspended != 0 {
		m.wakes(now, do)
		return
	}
	if m.Suspends && now.Kind == Go && (now.Held != 0 || now.Op.State != 0) {
		do(doSuspend, func(_ *State, p *Proc) string { p.Suspended = 1; return "" })
	}
	if now.Held != 0 && !m.Timed {
		do(doExpire, func(_ *State, p *Proc) string { return m.expire(p) })
	}
	if now.Op.State == answered {
		do(doReply, func(s *State, p *Proc) string {
			if p.Held != 0 && p.Op.Verdict == lost && p.Op.Flags&flagStillOurs != 0 {
				return "an owner concludes that it has lost a row that is its own"
			}
			m.reply(s, p)
			return ""
		})
	}
	if now.Op.State != 0 && m.Losses {
		m.loses(now, do)
	}
	if now.Kind != Go {
		m.javaSteps(from, i, do)
		return
	}
	m.goSteps(from, i, do)
}

// lands is a request reaching the row. The counter of another incarnation may be equal by chance or not.
func (m *Model) lands(behind, what uint8, do func(uint8, func(*State, *Proc) string), op func(*Proc) *Op) {
	do(what, func(s *State, p *Proc) string { return m.land(s, op(p), false) })
	if behind == 3 {
		do(what, func(s *State, p *Proc) string { return m.land(s, op(p), true) })
	}
}

// late is what becomes of a request that nobody waits for any more.
func (m *Model) late(now *Proc, do func(uint8, func(*State, *Proc) string)) {
	if now.Late.State == 0 {
		return
	}
	for _, same := range []bool{false, true}[:1+b2u(now.Late.Behind == 3)] {
		do(doLandLate, func(s *State, p *Proc) string {
			broken := m.land(s, &p.Late, same)
			p.Late = Op{}
			return broken
		})
	}
	do(doLoseLate, func(_ *State, p *Proc) string { p.Late = Op{}; return "" })
}

func (m *Model) starts(now *Proc, i int, do func(uint8, func(*State, *Proc) string)) {
	def := m.Procs[i]
	start := func(id uint8) func(*State, *Proc) string {
		return func(_ *State, p *Proc) string {
			kind := p.Kind
			if def.Becomes != 0 {
				kind = def.Becomes
			}
			*p = Proc{Kind: kind, ID: id, Alive: 1, Starting: 1, Late: p.Late}
			return ""
		}
	}
	if m.Restarts || def.Down {
		do(doStart, start(now.ID))
	}
	if def.NewID != 0 && now.ID != def.NewID {
		do(doStartAnew, start(def.NewID))
	}
}

// expire is the end of a lease by time: a reply that comes later brings nothing back.
func (m *Model) expire(p *Proc) string {
	if o := p.Op; o.State != 0 && o.Kind != opAsk {
		if !m.abandon(p) {
			return skip
		}
	}
	m.drop(p)
	return ""
}

// abandon lets a process wait no more for its request. One such request is kept in mind for each process.
func (m *Model) abandon(p *Proc) bool {
	if p.Op.State == sent && m.Late {
		if p.Late.State != 0 {
			return false
		}
		p.Late = p.Op
	}
	p.Op = Op{}
	return true
}

// loses is a lost answer: the process gives up, or the same request is sent again while the first is under way or has landed.
func (m *Model) loses(now *Proc, do func(uint8, func(*State, *Proc) string)) {
	do(doGiveUpWaiting, func(_ *State, p *Proc) string {
		o := p.Op
		if !m.abandon(p) {
			return skip
		}
		if p.Kind == Go && o.Kind != opAsk {
			m.unanswered(p, &o)
		}
		return ""
	})
	if !m.Repeats || now.Kind != Go || now.Op.State == sent && (!m.Late || now.Late.State != 0) || now.Op.State == answered && now.Op.Verdict != landed {
		return
	}
	do(doRetry, func(_ *State, p *Proc) string {
		if p.Op.State == sent {
			p.Late = p.Op
			return ""
		}
		o := p.Op
		o.State, o.Verdict, o.VBehind, o.VPos, o.VTo = sent, 0, 0, 0, 0
		p.Op = o
		return ""
	})
}

func (m *Model) wakes(now *Proc, do func(uint8, func(*State, *Proc) string)) {
	if m.without == renewsAfterSuspend && now.Held != 0 && now.Behind == 0 {
		do(doWakeReread, func(_ *State, p *Proc) string { p.Suspended = 0; return "" })
	}
	do(doWake, func(_ *State, p *Proc) string {
		p.Suspended = 0
		if p.Held != 0 {
			p.MustRenew = 1
		}
		if p.Op.State != 0 {
			p.Op.Pre = 1
		}
		if p.Unsure != 0 {
			p.Unsure = 2
		}
		return ""
	})
}

// worldSteps is the passing of time, and what happens to the row by hands other than the workers'.
func (m *Model) worldSteps(from *State, emit emit) {
	do := func(what uint8, f func(*State) string) { m.do(from, world, what, emit, f) }
	if m.Timed {
		do(doTick, func(s *State) string { m.tick(s); return "" })
	}
	if m.Cleans && m.ended(&from.Row) && from.Cleaner.State == 0 {
		do(doDelete, func(s *State) string {
			s.Cleaner = Op{Kind: opDelete, State: sent, Seen: m.seen(s.Row.TNonce), Pos: s.Row.Pos}
			return ""
		})
	}
	if from.Cleaner.State == sent {
		for _, same := range []bool{false, true}[:1+b2u(from.Cleaner.Behind == 3)] {
			do(doLand, func(s *State) string {
				broken := m.land(s, &s.Cleaner, same)
				s.Cleaner = Op{}
				return broken
			})
		}
	}
	if m.Recreate {
		if from.Row.There != 0 {
			do(doVanish, func(s *State) string { s.vanish(); return "" })
		} else {
			do(doCreate, func(s *State) string { s.Row = Row{There: 1}; return "" })
		}
	}
}

// tick is one unit of time for all whose clocks run. Leases whose time is over end.
func (m *Model) tick(s *State) {
	older := func(age *uint8) { *age = min(*age+1, ticks) }
	for i := range m.Procs {
		p := &s.P[i]
		if p.Alive == 0 || p.Suspended != 0 {
			continue
		}
		if p.Op.State != 0 {
			older(&p.Op.Age)
		}
		if p.Unsure != 0 {
			older(&p.UnsureAge)
		}
		if p.Sight == seen {
			if older(&p.SightAge); p.SightAge == ticks {
				p.Sight, p.SightAge = stale, 0
			}
		}
		if p.Held == 0 {
			continue
		}
		if older(&p.Age); p.Age == ticks {
			if p.Op.State == sent && m.Late && p.Late.State == 0 {
				p.Late = p.Op
			}
			p.Op = Op{}
			m.drop(p)
		}
	}
}
