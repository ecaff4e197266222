package row

// goSteps is what a worker of ours does: LeaseTaker and LeaseRenewer, as far as one row is concerned.
func (m *Model) goSteps(from *State, i int, do func(uint8, func(*State, *Proc) string)) {
	now := &from.P[i]
	if now.Leaving == 0 && m.Leaves {
		do(doLeave, func(_ *State, p *Proc) string { p.Leaving = 1; return "" })
	}
	if now.Draining != 0 {
		do(doEndConsumer, func(_ *State, p *Proc) string {
			p.Draining = 0
			if p.Held != 0 {
				p.Running = 1
			}
			return ""
		})
	}
	if now.Op.State != 0 {
		return
	}
	if now.Held != 0 {
		m.owner(now, do)
		return
	}
	if now.Leaving != 0 {
		m.leaver(from, now, do)
		return
	}
	m.taker(from, now, do)
}

// send sends a request. flagNewTenure gives it a nonce of its own.
func (m *Model) send(what uint8, o Op, do func(uint8, func(*State, *Proc) string)) {
	do(what, func(s *State, p *Proc) string {
		o.State, o.ID, o.Process = sent, p.ID, Go
		if (o.Kind == opTake || o.Kind == opFirst || o.Flags&flagNewTenure != 0) && o.Nonce == 0 {
			o.Nonce = s.fresh()
			m.makes(p, o.Nonce)
		}
		if p.Leaving != 0 {
			o.Flags |= flagLeaving
		}
		if what == doSteal && m.isGo[s.Row.Owner] && m.Distinct {
			return "a take that was meant for a Java worker's row goes to one that was handed over to a Go worker"
		}
		if what == doTakeClaimed && m.fact(&s.Row).actual != p.ID {
			return "a row with our nonce that belongs to another worker is taken back"
		}
		p.Starting = 0
		p.Op = o
		return ""
	})
}

// looks is a worker watching a row that is not its own: see leases/view.go.
func (m *Model) looks(now *Proc, r *Row, do func(uint8, func(*State, *Proc) string)) {
	if now.Sight == 0 && r.Owner != 0 {
		do(doLook, func(_ *State, p *Proc) string {
			p.Sight, p.Starting = seen, 0
			if m.without == waitsAtFirstSight {
				p.Sight = stale
			}
			return ""
		})
	}
	if now.Sight == seen && !m.Timed {
		do(doStale, func(_ *State, p *Proc) string { p.Sight = stale; return "" })
	}
}

// handles is a processor handling one more record.
func (m *Model) handles(now *Proc, do func(uint8, func(*State, *Proc) string)) {
	if now.Handled >= m.Positions {
		return
	}
	do(doHandle, func(s *State, p *Proc) string {
		if p.Handled > s.Highest {
			return "S3: a record is skipped"
		}
		p.Handled++
		s.Highest = max(s.Highest, p.Handled)
		return ""
	})
}

// taker is a worker that does not hold the lease: leases/taker.go, regain.go, asking.go.
func (m *Model) taker(from *State, now *Proc, do func(uint8, func(*State, *Proc) string)) {
	r, f, me := &from.Row, m.fact(&from.Row), now.ID
	if r.There == 0 {
		if now.Claim != 0 {
			do(doForgetClaim, func(_ *State, p *Proc) string { p.Claim = 0; return "" })
		}
		if now.Starting != 0 {
			do(doLook, func(_ *State, p *Proc) string { p.Starting = 0; return "" })
		}
		return
	}
	take := Op{Kind: opTake, Pos: r.Pos, Seen: m.seen(r.TNonce)}
	complete := Op{Kind: opComplete, To: r.Owner, Pos: r.Pos, Seen: m.seen(r.TNonce)}
	marked := f.live && r.CkptOwner == me
	if now.Starting != 0 {
		switch {
		case marked:
			complete.Flags = flagNewTenure
			m.send(doRegainComplete, complete, do)
		case f.actual == me && !f.transit, m.without == regainsActual && r.Owner == me:
			m.send(doRegain, take, do)
		case f.actual == me: // in transit
			take.Kind = opFirst
			m.send(doRegain, take, do)
		default:
			do(doLook, func(_ *State, p *Proc) string {
				p.Starting = 0
				return ""
			})
		}
		return
	}
	m.looks(now, r, do)
	if now.Claim != 0 { // a take without an answer: strays
		take.Nonce, take.Behind = now.Claim, now.ClaimBehind
		known := f.speaks && r.TNonce == now.Claim
		switch {
		case known && (f.actual == me || m.without == knowsOwner):
			m.send(doTakeClaimed, take, do)
		case now.ClaimBehind != 0: // only without a guard, else it is forgotten already
			do(doForgetClaim, func(_ *State, p *Proc) string { p.Claim = 0; return "" })
		case f.transit && r.Owner == me:
			take.Kind = opFirst
			m.send(doFirstRenewal, take, do)
		case r.Owner == 0:
			m.send(doTakeUnowned, take, do)
		case f.actual == me:
			m.send(doRegain, take, do)
		case now.Sight == stale:
			m.send(doTakeStale, take, do)
		case r.Owner == me && r.HandoffTo == me && r.CkptOwner != me && !m.Timed:
			m.send(doTakeOverdue, take, do)
		}
		return
	}
	switch {
	case r.Owner == 0:
		if !m.ended(r) {
			m.send(doTakeUnowned, take, do)
		}
	case f.transit && r.Owner == me:
		if m.without == firstRenewal {
			m.actOnReading(do)
			return
		}
		take.Kind = opFirst
		m.send(doFirstRenewal, take, do)
	case now.Sight == stale && marked: // ours once, and nobody acts under it
		complete.Flags = flagNewTenure
		m.send(doCompleteClaimed, complete, do)
	case now.Sight == stale:
		m.send(doTakeStale, take, do)
	case r.Owner == me && r.HandoffTo == me && !f.live: // a Java worker has written under our mark
		m.send(doTakeMarked, take, do)
	case r.Owner == me && r.HandoffTo == me && r.CkptOwner != me && !m.Timed: // GracefulHandoffTimeout
		m.send(doTakeOverdue, take, do)
	case f.actual == me || m.ended(r):
	case f.live || f.transit:
	case !f.speaks || r.CkptOwner != 0 || r.TWorker != r.Owner: // cannot be asked
		m.send(doSteal, take, do)
	default:
		m.send(doAsk, Op{Kind: opAsk, Seen: r.TNonce, To: r.Owner}, do)
	}
	if m.without == asksSpeaking && !f.live && r.CkptOwner == 0 && r.TWorker != 0 && r.Owner != me {
		m.send(doAsk, Op{Kind: opAsk, Seen: r.TNonce, To: r.Owner}, do)
	}
}

// actOnReading is what a successor must not do.
func (m *Model) actOnReading(do func(uint8, func(*State, *Proc) string)) {
	do(doActOnReading, func(s *State, p *Proc) string {
		broken := ""
		if s.Token == 0 {
			broken = "two tenures have the same token"
		}
		n := s.fresh()
		m.hold(p, &Op{Nonce: n}, 0, s.Row.Pos, 0, 0)
		s.Newest, s.Token = n, 0
		return broken
	})
}

// owner is the renewer and the consumer of a held lease: leases/renewing.go, release.go, coordinator/handoff.go.
func (m *Model) owner(now *Proc, do func(uint8, func(*State, *Proc) string)) {
	base := Op{Behind: now.Behind, Nonce: now.Nonce, Seen: m.seen(now.Nonce), Pos: now.Pos}
	o := base
	o.Kind = opRenew
	m.send(doRenew, o, do)
	if now.MustRenew != 0 { // no call of user code, no checkpoint
		return
	}
	over := m.End && now.Pos == m.Positions
	if m.acts(now) {
		m.handles(now, do)
	}
	most := now.Handled
	if m.without == handledOnly {
		most = m.Positions
	}
	for pos := now.Pos + 1; pos <= most; pos++ {
		o = base
		o.Kind, o.Pos = opCheckpoint, pos
		m.send(doCheckpoint, o, do)
	}
	if now.Mark == 0 && now.Leaving == 0 {
		return
	}
	if now.Drained == 0 && !over {
		do(doDrain, func(_ *State, p *Proc) string {
			p.Drained = 1
			m.endConsumer(p)
			return ""
		})
		return
	}
	// Its context ends before the row is written: it does not hold the lease any more.
	o = base
	if now.Mark != 0 {
		o.Kind, o.To = opComplete, now.Mark
		m.send(doHandOver, o, m.dropping(do))
	} else {
		o.Kind = opRelease
		m.send(doRelease, o, m.dropping(do))
	}
}

func (m *Model) endConsumer(p *Proc) {
	p.Running, p.Draining = 0, 0
}

// dropping lets a step also end the tenure.
func (m *Model) dropping(do func(uint8, func(*State, *Proc) string)) func(uint8, func(*State, *Proc) string) {
	return func(what uint8, f func(*State, *Proc) string) {
		do(what, func(s *State, p *Proc) string {
			broken := f(s, p)
			m.drop(p)
			return broken
		})
	}
}

// leaver is a worker that stops and holds nothing: it gives back what comes to it.
func (m *Model) leaver(from *State, now *Proc, do func(uint8, func(*State, *Proc) string)) {
	r, f, me := &from.Row, m.fact(&from.Row), now.ID
	do(doExit, func(_ *State, p *Proc) string { *p = Proc{Kind: p.Kind, ID: p.ID, Late: p.Late}; return "" })
	known := now.Claim != 0 && f.speaks && r.TNonce == now.Claim && f.actual == me
	o := Op{Pos: r.Pos, Seen: m.seen(r.TNonce)}
	switch {
	case known && f.live:
		o.Kind, o.To, o.Nonce = opComplete, r.Owner, now.Claim
		m.send(doCompleteClaimed, o, do)
	case known:
		o.Kind, o.Nonce = opRelease, now.Claim
		m.send(doRelease, o, do)
	case f.transit && r.Owner == me:
		o.Kind, o.Flags = opRelease, flagNewTenure|flagInTransit
		m.send(doReleaseGiven, o, do)
	}
}
