package row

// javaSteps is a Java worker: KCL 2.7, or 3.5 in 2x mode. Beside Go workers it takes any row, at any time, as its leases' balance
// may tell it to.
func (m *Model) javaSteps(from *State, i int, do func(uint8, func(*State, *Proc) string)) {
	now, r := &from.P[i], &from.Row
	if now.Op.State != 0 {
		return
	}
	send := func(what uint8, o Op) {
		do(what, func(s *State, p *Proc) string {
			o.State, o.ID, o.Process = sent, p.ID, p.Kind
			if o.Kind == opJavaTake || o.Kind == opJavaRegain {
				o.Nonce = s.fresh() // it writes none: this is how the model tells tenures apart
			}
			p.Starting = 0
			p.Op = o
			return ""
		})
	}
	if now.Held == 0 {
		if now.Starting != 0 {
			do(doLook, func(_ *State, p *Proc) string { p.Starting = 0; return "" })
			if r.Owner == now.ID && (now.Kind == Java2 || r.CkptOwner == 0) {
				send(doJavaRegain, Op{Kind: opJavaRegain, Pos: r.Pos})
			}
			return
		}
		if m.ended(r) || r.There == 0 {
			return
		}
		if r.Owner != now.ID || r.Owner == 0 {
			send(doJavaTake, Op{Kind: opJavaTake, Pos: r.Pos})
		} else { // its own row, which it does not hold: it waits for that to become stale
			m.looks(now, r, do)
			if now.Sight == stale {
				send(doJavaTake, Op{Kind: opJavaTake, Pos: r.Pos})
			}
		}
		return
	}
	var flags uint8
	if now.Mark != 0 {
		flags = flagKnowsMark
	}
	send(doJavaRenew, Op{Kind: opJavaRenew, Behind: now.Behind, Nonce: now.Nonce, Pos: now.Pos, Flags: flags})
	m.handles(now, do)
	if now.Handled > now.Pos {
		send(doJavaCheckpoint, Op{Kind: opJavaCheckpoint, Behind: now.Behind, Nonce: now.Nonce, Pos: now.Handled})
	}
}

// javaAnswer is what a Java worker concludes from a failed condition: a renewal that finds its own name and a counter that is
// one ahead has landed before.
func (m *Model) javaAnswer(s *State, o *Op) {
	r := &s.Row
	o.Verdict = lost
	switch {
	case o.Kind == opJavaRenew && o.Process == Java35 && o.Behind == 0 && r.CkptOwner == o.ID && r.Owner != o.ID:
		o.Verdict = learnt // it goes on, by the counter alone
	case (o.Kind == opJavaRenew || o.Kind == opJavaRegain && o.Nonce == s.Newest) &&
		r.Owner == o.ID && o.Behind == 1 && (o.Process == Java2 || r.CkptOwner == 0):
		o.Verdict = mine
	}
}

func (m *Model) javaReply(p *Proc, o *Op) {
	if o.Kind == opJavaTake || o.Kind == opJavaRegain {
		if o.Verdict == landed || o.Verdict == mine {
			m.hold(p, o, o.VBehind, o.VPos, 0, 0)
		}
		return
	}
	if p.Held == 0 {
		return
	}
	switch o.Verdict {
	case landed:
		p.Behind = o.VBehind
		if o.Kind == opJavaCheckpoint {
			p.Pos = o.Pos
		}
	case mine:
		p.Behind = o.VBehind
	case learnt:
		p.Mark = 1
	default:
		m.drop(p)
	}
}
