package row

// moved is a write that moves the counter: every distance grows, and who watches the row has seen it stand until now.
func (m *Model) moved(s *State) {
	age := func(d *uint8) {
		if *d < 2 {
			*d++
		}
	}
	age(&s.Token)
	if s.Row.TWorker != 0 {
		age(&s.Row.TBehind)
	}
	if s.Cleaner.State != 0 {
		age(&s.Cleaner.Behind)
	}
	for i := range s.P {
		p := &s.P[i]
		if p.Kind == 0 {
			continue
		}
		if p.Held != 0 {
			age(&p.Behind)
		}
		if p.Claim != 0 {
			age(&p.ClaimBehind)
		}
		if p.Op.State != 0 {
			age(&p.Op.Behind)
			if p.Op.State == answered {
				age(&p.Op.VBehind)
			}
		}
		if p.Late.State != 0 {
			age(&p.Late.Behind)
		}
		if m.without != watchesCounter {
			p.Sight, p.SightAge = 0, 0
		}
	}
}

// vanish is the end of the row. Every counter that anybody knows is one of another incarnation from now on.
func (s *State) vanish() {
	s.Row, s.Newest, s.Token = Row{}, 0, 0
	s.Cleaner.Behind = 3
	for i := range s.P {
		p := &s.P[i]
		p.Behind, p.ClaimBehind, p.Op.Behind, p.Op.VBehind, p.Late.Behind = 3, 3, 3, 3, 3
		p.Sight, p.SightAge = 0, 0
	}
}

// labels calls f with every nonce in the state.
func (s *State) labels(f func(*uint8)) {
	f(&s.Row.TNonce)
	f(&s.Newest)
	f(&s.Cleaner.Seen)
	for i := range s.P {
		p := &s.P[i]
		f(&p.Nonce)
		f(&p.Claim)
		f(&p.Op.Nonce)
		f(&p.Op.Seen)
		f(&p.Late.Nonce)
		f(&p.Late.Seen)
	}
}

// fresh is a label that nothing bears.
func (s *State) fresh() uint8 {
	used := uint32(1)
	s.labels(func(n *uint8) { used |= 1 << *n })
	for n := uint8(1); ; n++ {
		if used&(1<<n) == 0 {
			for i := range s.P { // what bore it before is forgotten everywhere
				s.P[i].forget(n)
			}
			return n
		}
	}
}

// canonical makes states that differ in nothing that matters equal: it forgets what nobody will look at, and numbers the nonces
// anew.
func (m *Model) canonical(s *State) {
	for i := range s.P {
		p := &s.P[i]
		if p.Kind == 0 {
			continue
		}
		if p.Held == 0 {
			p.Behind, p.Nonce, p.Pos, p.Handled, p.Mark, p.Drained, p.MustRenew, p.Age = 0, 0, 0, 0, 0, 0, 0, 0
			if p.Claim == 0 {
				p.Unsure, p.UnsureAge, p.ClaimBehind = 0, 0, 0
			}
		} else {
			p.Sight, p.SightAge, p.Starting, p.Claim, p.ClaimBehind = 0, 0, 0, 0, 0
			if p.Unsure == 0 {
				p.UnsureAge = 0
			}
		}
		if !m.Timed {
			p.Unsure, p.UnsureAge, p.Age = 0, 0, 0
		}
		if p.Claim != 0 && p.ClaimBehind != 0 && p.Op.State == 0 && m.without != knowsOwner {
			// Somebody has written since it was made. If that was not the claim itself, it cannot land any more: the next look
			// forgets it.
			if f := m.fact(&s.Row); !f.speaks || s.Row.TNonce != p.Claim || f.actual != p.ID {
				p.Claim, p.ClaimBehind, p.Unsure, p.UnsureAge = 0, 0, 0, 0
			}
		}
		if p.Op.State == 0 {
			p.Op = Op{}
		} else {
			m.bare(&p.Op)
		}
		if p.Late.State == 0 || !m.canLand(s, &p.Late) {
			p.Late = Op{}
		} else {
			m.bare(&p.Late)
		}
	}
	if s.Cleaner.State == 0 {
		s.Cleaner = Op{}
	}
	var to [32]uint8
	next := uint8(1)
	s.labels(func(n *uint8) {
		if *n == 0 {
			return
		}
		if to[*n] == 0 {
			to[*n] = next
			next++
		}
		*n = to[*n]
	})
	for i := range s.P {
		if old := s.P[i]; old.Made != [2]uint8{} {
			s.P[i].Made = [2]uint8{}
			for n := range uint8(16) {
				if old.made(n) && to[n] != 0 {
					s.P[i].make(to[n])
				}
			}
		}
	}
}

// bare keeps of a request what its landing, its answer, or its sender will look at.
func (m *Model) bare(o *Op) {
	if !m.Timed {
		o.Age, o.Pre = 0, 0
	}
	if o.Kind != opCheckpoint && o.Kind != opJavaCheckpoint && o.Kind != opDelete && m.without != knowsLaterWrites {
		o.Pos = 0
	}
	if o.State == answered && (o.Verdict == lost || o.Kind == opAsk) {
		*o = Op{
			Kind: o.Kind, State: answered, ID: o.ID, Process: o.Process, Behind: o.Behind, Nonce: o.Nonce, Flags: o.Flags & flagStillOurs,
			Adopted: o.Adopted, APos: o.APos, Pos: o.Pos, Age: o.Age, Pre: o.Pre, Verdict: o.Verdict,
		}
		if o.Kind == opAsk {
			o.Nonce, o.Behind = 0, 0
		}
	}
}

// canLand tells whether a request that nobody waits for can still pass its condition, now or later.
func (m *Model) canLand(s *State, o *Op) bool {
	switch {
	case m.ignoresCounter(o):
		return true
	case o.Kind == opAsk: // a nonce that has left the row does not come back
		return o.Seen == s.Row.TNonce || m.without == asksByNonce
	}
	return o.Behind == 0 || o.Behind == 3 && m.Recreate
}
