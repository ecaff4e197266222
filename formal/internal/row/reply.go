package row

// ticks is the failover time in timed models: an owner may act until so many ticks after it has asked, and an observer takes
// after as many since it has seen.
const ticks = 2

// hold makes p the holder, as far as it knows, by the answer to o.
func (m *Model) hold(p *Proc, o *Op, behind, pos, mark, age uint8) {
	p.Held, p.Behind, p.Nonce, p.Pos, p.Handled, p.Mark = 1, behind, o.Nonce, pos, pos, mark
	p.Drained, p.Unsure, p.MustRenew, p.Claim, p.Age = 0, 0, 0, 0, age
	m.startConsumer(p)
}

// startConsumer is the start of a consumer under a new tenure: it waits until that of the one before has ended.
func (m *Model) startConsumer(p *Proc) {
	if m.Drain && (p.Draining == 0 || m.without == drainsBeforeStart) {
		p.Running = 1
	}
}

// drop ends the tenure; its consumer may take its time.
func (m *Model) drop(p *Proc) {
	if m.Drain && p.Running != 0 {
		p.Draining, p.Running = 1, 0
	}
	p.Held = 0
}

// extend lets the lease count from age ago, unless it counts from later already.
func (p *Proc) extend(age uint8) { p.Age, p.MustRenew = min(p.Age, age), 0 }

// reply is p taking in the answer to its request.
func (m *Model) reply(s *State, p *Proc) {
	o := p.Op
	p.Op = Op{}
	switch {
	case o.Kind == opAsk:
	case o.Process != Go:
		m.javaReply(p, &o)
	case o.Kind == opComplete || o.Kind == opRelease:
		m.gaveUp(p, &o)
	case o.Kind == opTake || o.Kind == opFirst:
		switch o.Verdict {
		case mine:
			m.again(p, o)
		case landed:
			if m.Timed && (o.Age >= ticks || o.Pre != 0) && m.without != stampsBeforeSending && m.without != distrustsOldReplies {
				// It was ours, then: take it once more, as it is now.
				n := s.fresh()
				m.makes(p, n)
				p.Op = Op{Kind: opTake, State: sent, ID: p.ID, Process: Go, Behind: o.VBehind, Nonce: n, Seen: m.seen(o.Nonce), Pos: o.VPos, Flags: o.Flags & flagLeaving}
				return
			}
			m.hold(p, &o, o.VBehind, o.VPos, o.VTo, m.since(&o))
		default:
			p.Claim = 0
		}
	case p.Held != 0:
		m.renewed(p, &o)
	}
}

// since is how long ago the call began that o is an answer to.
func (m *Model) since(o *Op) uint8 {
	if m.without == stampsBeforeSending {
		return 0
	}
	return o.Age
}

// again sends a request once more, based on the row that its answer showed to be ours already.
func (m *Model) again(p *Proc, o Op) {
	if o.Kind == opFirst { // which is a renewal as any other once it has landed
		o.Kind = opTake
	}
	p.Op = Op{
		Kind: o.Kind, State: sent, ID: o.ID, Process: o.Process, Behind: o.VBehind, Nonce: o.Nonce, Seen: m.seen(o.Nonce),
		Pos: o.Pos, To: o.To, Flags: o.Flags &^ flagInTransit, Adopted: 1, APos: o.VPos, Age: o.Age, Pre: o.Pre,
	}
}

// renewed takes in the answer to a renewal or a checkpoint.
func (m *Model) renewed(p *Proc, o *Op) {
	switch o.Verdict {
	case landed:
		p.Behind, p.Pos, p.Mark, p.Unsure = o.VBehind, o.VPos, o.VTo, 0
		if o.Pre == 0 || m.without == distrustsOldReplies {
			p.extend(m.since(o))
		}
	case mine:
		if o.Kind == opCheckpoint && o.Pos < o.VPos && m.without != keepsPosition { // RegressError
			p.Behind, p.Pos, p.Mark = o.VBehind, o.VPos, o.VTo
			return
		}
		m.again(p, *o)
	case duplicated:
		m.die(p)
	default:
		m.drop(p)
	}
}

// unanswered is p giving up waiting for its request, which may have landed or may yet land.
func (m *Model) unanswered(p *Proc, o *Op) {
	effect := o.Adopted != 0 && (o.Kind != opCheckpoint || o.Pos == o.APos)
	switch {
	case o.Kind == opTake || o.Kind == opFirst:
		if p.Claim == 0 {
			p.Claim, p.ClaimBehind, p.Unsure, p.UnsureAge = o.Nonce, o.Behind, 1+o.Pre, o.Age
		}
		age := m.earliest(p.UnsureAge, o)
		tooLate := m.Timed && (age >= ticks || p.Unsure == 2)
		if effect && !tooLate { // else it is taken once more, as any claim
			m.hold(p, o, o.Behind, o.APos, 0, age)
			m.unsure(p, o)
		}
	case p.Held == 0: // the row is left to expire
	case effect:
		p.Behind, p.Pos = o.Behind, o.APos
		if p.Unsure == 1 || p.Unsure == 2 && m.without == distrustsOldReplies {
			p.extend(m.earliest(p.UnsureAge, o))
		} else if m.without == stampsEarliest {
			p.extend(o.Age)
		}
		p.Unsure = 0
		m.unsure(p, o)
	case p.Unsure == 0:
		p.Unsure, p.UnsureAge = 1+o.Pre, o.Age
	}
}

// unsure notes that the repetition, which had no answer either, may have landed.
func (m *Model) unsure(p *Proc, o *Op) {
	if m.without != remembersRepetitions {
		p.Unsure, p.UnsureAge = 1+o.Pre, o.Age
	}
}

// earliest is the age of the call that may have landed first.
func (m *Model) earliest(unsure uint8, o *Op) uint8 {
	if m.without == stampsEarliest {
		return o.Age
	}
	return unsure
}

// gaveUp takes in the answer to a completion or a release, which are repeated until their outcome is known.
func (m *Model) gaveUp(p *Proc, o *Op) {
	if o.Verdict != mine {
		if o.Verdict == duplicated {
			m.die(p)
		}
		return
	}
	m.again(p, *o)
	p.Op.Flags |= o.Flags & flagNewTenure
	if o.VTo != 0 {
		p.Op.Kind, p.Op.To = opComplete, o.VTo
	} else {
		p.Op.Kind, p.Op.To = opRelease, 0
	}
}

// die is the end of a process.
func (m *Model) die(p *Proc) {
	late := p.Late
	switch {
	case p.Kind != Go:
		late = Op{} // a Java worker that starts over its own late write breaks itself, in any fleet
	case p.Op.State == sent && m.Late && late.State == 0:
		late = p.Op
	}
	*p = Proc{Kind: p.Kind, ID: p.ID, Late: late}
}

func (m *Model) seen(nonce uint8) uint8 {
	if m.Recreate {
		return nonce
	}
	return 0
}

// makes notes who made a nonce, where that matters.
func (m *Model) makes(p *Proc, nonce uint8) {
	if m.Twins {
		p.make(nonce)
	}
}
