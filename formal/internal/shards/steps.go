package shards

import (
	"math/bits"

	"github.com/shardlease/shardlease/formal/internal/explore"
)

// What is done; Step.What holds the shard in its upper bits, Step.Who the kind of actor.
const (
	doReshard = iota
	doTake
	doAsk
	doStep
	doBegin
	doEnd
	doFinish
	doCrash
	doLook
	doList
	doCreate
	doClean
	doRead
	doDelete
	doGiveUp
	doDelay
	doLand
)

type emit = func(next *State, step explore.Step, broken string)

const (
	ofStream = iota << 4
	ofConsumer
	ofLeader
	ofCleaner
)

// Steps implements [explore.System].
func (m *Model) Steps(s *State, out emit) {
	do := func(who, what int, shard uint8, f func(*State) string) {
		next := *s
		broken := f(&next)
		m.canonical(&next)
		if broken == "" {
			broken = m.invariant(&next)
		}
		out(&next, explore.Step{Who: uint8(who), What: uint8(what) | shard<<5}, broken)
	}
	if s.Stage < m.Stages {
		do(ofStream, doReshard, 0, func(s *State) string { s.Stage++; return "" })
	}
	for left := s.Late; left != 0; left &= left - 1 {
		n := uint8(bits.TrailingZeros8(left))
		do(ofStream, doLand, n, func(s *State) string {
			broken := m.resurrects(s, n)
			s.Late &^= 1 << n
			m.create(s, n)
			return broken
		})
	}
	for i := range m.Consumers {
		m.consumer(s, i, do)
	}
	for i := range m.Leaders {
		m.leader(s, i, do)
	}
	for i := range m.Cleaners {
		m.cleaner(s, i, do)
	}
}

type doer = func(who, what int, shard uint8, f func(*State) string)

// canonical forgets who held what it does not hold any more.
func (m *Model) canonical(s *State) {
	for i := range s.Tenure {
		if t := s.Tenure[i]; t != 0 && int(s.Consumers[t-1].Shard) != i+1 {
			s.Tenure[i] = 0
		}
	}
	if m.Stopped {
		return
	}
	for i := range s.Consumers { // its context has ended with its lease
		if c := s.Consumers[i]; c.Shard != 0 && int(s.Tenure[c.Shard-1]) != i+1 && m.without != endsWithLease && m.without != finishesFenced {
			s.Consumers[i] = Consumer{}
		}
	}
}

// consumer is leases taken by the counter and coordinator and processor under them.
func (m *Model) consumer(from *State, i int, do doer) {
	c, who := from.Consumers[i], ofConsumer|i
	if c.Shard == 0 {
		for n := range uint8(len(m.Stream)) {
			if at := from.level(n); at == fresh || at == begun {
				do(who, doTake, n, func(s *State) string {
					s.Tenure[n], s.Consumers[i] = uint8(i)+1, Consumer{Shard: n + 1}
					return ""
				})
			}
		}
		return
	}
	n := c.Shard - 1
	do(who, doCrash, 0, func(s *State) string { s.Consumers[i] = Consumer{}; return "" })
	closed := m.Stream[n].Closed <= from.Stage
	holds := int(from.Tenure[n]) == i+1
	switch c.Phase {
	case waiting:
		do(who, doAsk, 0, func(s *State) string {
			s.Consumers[i].Phase, s.Consumers[i].Script = asking, m.begin(task{kind: parentsEnded, shard: n})
			return m.arrive(s, i)
		})
	case asking:
		m.proceed(from, who, i, do)
	case reading:
		if from.level(n) == fresh {
			do(who, doBegin, 0, func(s *State) string {
				if !holds {
					s.Consumers[i] = Consumer{}
				} else {
					s.set(n, begun)
				}
				return ""
			})
		}
		if closed {
			do(who, doEnd, 0, func(s *State) string {
				named := m.Named && m.Stream[n].Gone > s.Stage
				s.Consumers[i].Phase, s.Consumers[i].Script = ending, m.begin(task{kind: endShard, shard: n, named: named})
				return m.arrive(s, i)
			})
		}
		if closed && m.without == childrenFirst {
			do(who, doFinish, 0, func(s *State) string { return m.finish(s, i, holds) })
		}
	case ending:
		m.proceed(from, who, i, do)
	case finishing:
		do(who, doFinish, 0, func(s *State) string { return m.finish(s, i, holds) })
	}
}

// finish is the checkpoint at SHARD_END: fenced, as all that a tenure writes.
func (m *Model) finish(s *State, i int, holds bool) string {
	n := s.Consumers[i].Shard - 1
	s.Consumers[i] = Consumer{}
	if at := s.level(n); at == absent || !holds && m.without != finishesFenced {
		return ""
	}
	s.set(n, ended)
	s.Read |= 1 << n
	return ""
}

// proceed answers the question that a script asks.
func (m *Model) proceed(from *State, who, i int, do doer) {
	sc := m.scripts[from.Consumers[i].Script]
	q := sc.asks
	step := func(f func(*State) uint8) {
		do(who, doStep, 0, func(s *State) string {
			broken := ""
			if q.kind == askCreate {
				broken = m.resurrects(s, q.shard)
			}
			s.Consumers[i].Script = m.answer(s.Consumers[i].Script, f(s))
			if b := m.arrive(s, i); b != "" {
				broken = b
			}
			return broken
		})
	}
	switch q.kind {
	case askGet:
		step(func(s *State) uint8 {
			at := s.level(q.shard)
			switch {
			case at == absent && m.without == otherParentFirst && sc.task.kind == endShard:
				return begun
			case at == absent && m.without == absentIsNotEnded && sc.task.kind == parentsEnded:
				return ended
			}
			return at
		})
	case askList:
		step(func(s *State) uint8 { return s.Rows })
	case askShards:
		step(func(s *State) uint8 { return s.Stage })
		if m.StaleListings && from.Stage > 0 {
			step(func(s *State) uint8 { return s.Stage - 1 })
		}
	case askCreate:
		step(func(s *State) uint8 { return m.create(s, q.shard) })
		m.delay(from, who, q.shard, do)
	case askUpdate:
		step(func(s *State) uint8 {
			if s.level(q.shard) == absent {
				return 0
			}
			s.Knows |= 1 << q.shard
			return 1
		})
	}
}

// arrive moves a consumer on whose script has ended.
func (m *Model) arrive(s *State, i int) string {
	c := &s.Consumers[i]
	sc := m.scripts[c.Script]
	if !sc.done {
		return ""
	}
	c.Script = 0
	switch {
	case c.Phase == ending && sc.ok:
		c.Phase = finishing
	case c.Phase == ending:
		c.Phase = reading
	case !sc.ok:
		c.Phase = waiting
	default:
		c.Phase = reading
		for _, p := range m.Stream[c.Shard-1].Parents {
			if s.Read&(1<<p) == 0 && m.Stream[p].Gone > s.Stage {
				return "S4: a shard is read before its parent was read to its end"
			}
		}
	}
	return ""
}

// delay is that the sender of a request to create a row gives it up; then it sends another one, or crashes, or loses its lease.
func (m *Model) delay(from *State, who int, n uint8, do doer) {
	if m.Late && from.Late&(1<<n) == 0 {
		do(who, doDelay, n, func(s *State) string { s.Late |= 1 << n; return "" })
	}
}

// create is a conditional PutItem.
func (m *Model) create(s *State, n uint8) uint8 {
	if s.level(n) != absent && m.without != createsIfAbsent {
		return 0
	}
	s.set(n, fresh)
	s.Tenure[n] = 0
	return 1
}

// resurrects says whether the row of a shard that was read to its end is about to be made again. Only a process that was stopped
// between deciding and writing does that: the shard's records are then read twice, and nothing is lost.
func (m *Model) resurrects(s *State, n uint8) string {
	if s.Read&(1<<n) != 0 && (s.level(n) == absent || m.without == createsIfAbsent) && !m.Stopped {
		return "S7: a row is made again whose shard was read to its end"
	}
	return ""
}

// leader is an audit that has found a hole, or a first sync.
func (m *Model) leader(from *State, i int, do doer) {
	l, who := from.Leaders[i], ofLeader|i
	if l.Phase != leaderIdle {
		do(who, doCrash, 0, func(s *State) string { s.Leaders[i] = Leader{}; return "" })
	}
	stages := []uint8{from.Stage}
	if m.StaleListings && from.Stage > 0 {
		stages = append(stages, from.Stage-1)
	}
	switch l.Phase {
	case leaderIdle:
		for _, stage := range stages {
			if m.determine(from.Rows, stage) != 0 {
				do(who, doLook, 0, func(s *State) string { s.Leaders[i] = Leader{Phase: leaderSaw, Rows: s.Rows}; return "" })
				break
			}
		}
	case leaderSaw:
		for _, stage := range stages {
			do(who, doList, 0, func(s *State) string {
				missing := m.determine(l.Rows, stage)
				s.Leaders[i] = Leader{Phase: leaderCreates, Rows: l.Rows, Missing: missing}
				if missing == 0 {
					s.Leaders[i] = Leader{}
				}
				return ""
			})
		}
	case leaderCreates:
		for left := l.Missing; left != 0; left &= left - 1 {
			n := uint8(bits.TrailingZeros8(left))
			do(who, doCreate, n, func(s *State) string {
				broken := m.resurrects(s, n)
				m.create(s, n)
				if s.Leaders[i].Missing &^= 1 << n; s.Leaders[i].Missing == 0 {
					s.Leaders[i] = Leader{}
				}
				return broken
			})
			m.delay(from, who, n, do)
		}
	}
}

// cleaner is one row in the hands of cleanup: it reads the row, those of its parents, those of its children, and deletes.
func (m *Model) cleaner(from *State, i int, do doer) {
	c, who := from.Cleaners[i], ofCleaner|i
	if c.Shard == 0 {
		for n := range uint8(len(m.Stream)) {
			if from.level(n) == ended {
				do(who, doClean, n, func(s *State) string { m.look(s, i, n); return "" })
			}
		}
		return
	}
	n := c.Shard - 1
	do(who, doCrash, 0, func(s *State) string { s.Cleaners[i] = Cleaner{}; return "" })
	if c.Left == 0 {
		do(who, doDelete, 0, func(s *State) string { return m.remove(s, i) })
		return
	}
	do(who, doRead, 0, func(s *State) string {
		next := uint8(bits.TrailingZeros8(c.Left))
		for _, p := range m.Stream[n].Parents {
			if c.Left&(1<<p) != 0 {
				next = p
			}
		}
		w := &s.Cleaners[i]
		w.Rows |= s.level(next) << (2 * next)
		if w.Left &^= 1 << next; w.Left == 0 && !m.decide(w) {
			*w = Cleaner{}
		}
		return ""
	})
}

func (m *Model) look(s *State, i int, n uint8) {
	c := Cleaner{Shard: n + 1, Rows: s.level(n) << (2 * n), Knows: s.Knows >> n & 1}
	if m.Stream[n].Gone <= s.Stage {
		c.Gone = 1
		if m.covered(s, n) {
			c.Covered = 1
		}
	}
	for _, o := range m.Stream[n].Parents {
		c.Left |= 1 << o
	}
	if c.Knows != 0 {
		for _, o := range m.children(n) {
			c.Left |= 1 << o
		}
	}
	if c.Left == 0 && !m.decide(&c) {
		c = Cleaner{}
	}
	s.Cleaners[i] = c
}

// remove is a conditional DeleteItem.
func (m *Model) remove(s *State, i int) string {
	n := s.Cleaners[i].Shard - 1
	s.Cleaners[i] = Cleaner{}
	if s.level(n) == absent || s.level(n) != ended && m.without != deletesUnchanged {
		return ""
	}
	broken := m.mayGo(s, n)
	s.set(n, absent)
	s.Knows &^= 1 << n
	s.Tenure[n] = 0
	if m.without != keepsFinished {
		s.Late &^= 1 << n // the row was kept until they had arrived, and failed on it, or would arrive no more
	}
	for j := range s.Leaders {
		// A whole life of a row takes longer than a decision is good for.
		if l := &s.Leaders[j]; l.Phase != leaderIdle && l.Rows>>(2*n)&3 == absent && !m.Stopped && m.without != decisionsSpoil {
			*l = Leader{}
		}
	}
	return broken
}

// mayGo is S6.
func (m *Model) mayGo(s *State, n uint8) string {
	if s.level(n) != ended {
		return "S6: a row is deleted whose shard was not read to its end"
	}
	for _, p := range m.Stream[n].Parents {
		if s.level(p) != absent && !m.Stopped {
			return "S6: a row is deleted before that of its parent"
		}
	}
	garbage := m.Stream[n].Gone <= s.Stage && m.covered(s, n)
	for _, c := range m.children(n) {
		if at := s.level(c); at != begun && at != ended && s.Read&(1<<c) == 0 && !garbage {
			return "S6: a row is deleted before a child has begun"
		}
	}
	return ""
}
