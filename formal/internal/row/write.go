package row

// land lets a request reach the row. It fills in the answer and returns the rule that this breaks, if any. same says what to
// make of a counter of another incarnation: whether it is equal to the row's by chance.
//
// What a request does to a row, and what its sender is told, is that of leases.Table; a test sends each request that the model
// has met, with the row that it met, through the real one.
func (m *Model) land(s *State, o *Op, same bool) (broken string) {
	r := &s.Row
	before, request := *r, *o
	ok := m.holds(r, o, same)
	if ok {
		broken = m.effect(s, o)
	}
	m.answer(s, o, ok)
	if m.met != nil && o.Behind <= 2 {
		m.met(before, request, *r, *o)
	}
	return broken
}

// holds is the condition of a request.
func (m *Model) holds(r *Row, o *Op, same bool) bool {
	if r.There == 0 {
		return false
	}
	unchanged := o.Behind == 0 || o.Behind == 3 && same
	switch o.Kind { // of Java workers, who look at the counter alone
	case opJavaTake, opJavaCheckpoint:
		return unchanged
	case opJavaRegain:
		return unchanged && (o.Process == Java2 || r.CkptOwner == 0)
	case opJavaRenew:
		return unchanged && (o.Process == Java2 || r.CkptOwner == 0 || o.Flags&flagKnowsMark != 0)
	case opAsk:
		return r.Owner == o.To && r.CkptOwner == 0 && (!m.ended(r) || m.without == asksUnended) &&
			(r.TBehind == 0 && r.TWorker != 0 || m.without == asksSpeaking) && (r.TNonce == o.Seen || m.without == asksByNonce)
	case opDelete:
		if m.without == deletesByCounter {
			return true
		}
		return unchanged && m.sameTenure(r, o) && r.Pos == o.Pos
	}
	if m.ignoresCounter(o) {
		unchanged = o.Kind == opTake || r.Owner == o.ID || r.CkptOwner == o.ID // as a worker would that compares its name
	}
	if !unchanged || !m.sameTenure(r, o) {
		return false
	}
	switch o.Kind {
	case opFirst:
		return r.Owner == o.ID && r.CkptOwner == 0
	case opComplete:
		return r.Owner == o.To && r.HandoffTo == o.To && r.CkptOwner == o.ID
	case opRelease:
		return (r.CkptOwner == 0 || m.without == releasesUnmarked) && (o.Flags&flagInTransit == 0 || r.Owner == o.ID)
	}
	return true
}

// sameTenure is the second half of the condition: it matters only after the row was deleted and made anew.
func (m *Model) sameTenure(r *Row, o *Op) bool {
	return o.Behind != 3 || o.Seen == r.TNonce || m.without == namesIncarnation
}

// effect is what a request does that passes its condition.
func (m *Model) effect(s *State, o *Op) (broken string) {
	r := &s.Row
	owned := func() { // by the tenure that writes; S1
		if o.Flags&flagNewTenure != 0 && o.Adopted == 0 {
			s.Newest, s.Token = o.Nonce, 0
		} else if o.Nonce != s.Newest {
			broken = "S1: a " + opNames[o.Kind] + " of an older tenure landed after the first write of a newer one"
		}
	}
	switch o.Kind {
	case opAsk:
		if r.TNonce != o.Seen || r.TBehind != 0 {
			broken = "an ask landed on a tenure that was not asked"
		}
		if m.ended(r) {
			broken = "an ask landed on a row whose shard has ended"
		}
		r.CkptOwner, r.Owner, r.HandoffTo = r.Owner, o.ID, o.ID
		return broken
	case opDelete:
		if !m.ended(r) {
			broken = "S6: a row was deleted whose shard had not ended"
		}
		s.vanish()
		return broken
	}
	m.moved(s)
	switch o.Kind {
	case opTake:
		s.Newest, s.Token = o.Nonce, 0
		if o.Adopted == 0 { // else it is ours already, and perhaps asked for since
			r.Owner, r.CkptOwner, r.HandoffTo = o.ID, 0, 0
		}
	case opFirst:
		s.Newest, s.Token = o.Nonce, 0
		if o.Adopted == 0 {
			r.HandoffTo = 0
		}
	case opRenew:
		owned()
	case opCheckpoint:
		owned()
		broken = m.moveTo(s, o.Pos, broken)
	case opComplete:
		owned()
		r.CkptOwner = 0
		if m.without == keepsHandoffTo {
			r.HandoffTo = 0
		}
	case opRelease:
		owned()
		r.Owner, r.HandoffTo = 0, 0
	case opJavaTake:
		s.Newest, s.Token = o.Nonce, 0
		r.Owner = o.ID
		if o.Process == Java35 {
			r.CkptOwner = 0
		}
		return broken
	case opJavaRegain:
		s.Newest, s.Token = o.Nonce, 0
		return broken
	case opJavaRenew:
		owned()
		return broken
	case opJavaCheckpoint:
		owned()
		return m.moveTo(s, o.Pos, broken)
	}
	r.TWorker, r.TNonce, r.TBehind, r.TLeaving = o.ID, o.Nonce, 0, b2u(o.Flags&flagLeaving != 0)
	return broken
}

// moveTo is the checkpoint of a write.
func (m *Model) moveTo(s *State, pos uint8, broken string) string {
	switch {
	case pos < s.Row.Pos:
		broken = "S2: the checkpoint moved back"
	case pos > s.Highest:
		broken = "S3: the checkpoint covers a record that nobody has handled"
	}
	s.Row.Pos = pos
	return broken
}

// answer is what the sender will be told: the row, and what leases.Table concludes from it.
func (m *Model) answer(s *State, o *Op, ok bool) {
	r := &s.Row
	f := m.fact(r)
	o.State, o.VBehind, o.VPos, o.VTo = answered, 0, r.Pos, 0
	if f.live && r.CkptOwner == o.ID {
		o.VTo = r.Owner
	}
	ours := f.speaks && r.TNonce == o.Nonce && (f.actual == o.ID || m.without == knowsOwner)
	if m.without == knowsByNonce {
		ours = o.Behind == 1 && r.Owner == o.ID
	}
	if m.without == knowsLaterWrites { // as KCL's renewal does
		ours = ours && o.Behind == 1 && r.Pos == o.Pos
	}
	stays := o.Kind == opTake || o.Kind == opFirst || o.Kind == opRenew || o.Kind == opCheckpoint
	switch {
	case ok && stays && o.Process == Go && f.actual != o.ID:
		o.Verdict = lost // KCL 3.x assigned it to another worker, by a write that moves no counter
	case ok:
		o.Verdict = landed
	case o.Process != Go:
		m.javaAnswer(s, o)
	case r.There == 0 || o.Kind == opAsk || o.Kind == opDelete:
		o.Verdict = lost
	case o.Kind == opComplete && f.transit && r.TNonce == o.Nonce, o.Kind == opRelease && f.speaks && r.TNonce == o.Nonce && r.Owner == 0:
		o.Verdict = landed
	case ours:
		o.Verdict = mine
	case m.Twins && o.Kind != opTake && f.speaks && r.TWorker == o.ID && s.madeByAnother(o, r.TNonce):
		o.Verdict = duplicated
	default:
		o.Verdict = lost
		if stays && f.speaks && r.TNonce == o.Nonce && s.Newest == o.Nonce && f.actual == o.ID {
			o.Flags |= flagStillOurs
		}
	}
}

// madeByAnother reports whether another process than the one that sent o made a nonce.
func (s *State) madeByAnother(o *Op, nonce uint8) bool {
	for i := range s.P {
		if p := &s.P[i]; o == &p.Op || o == &p.Late {
			return !p.made(nonce)
		}
	}
	return false
}

func b2u(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}
