package leases

import (
	"cmp"
	"slices"
	"time"

	"github.com/shardlease/shardlease/config"
)

// Moves is what one worker does about the fleet's balance now.
type Moves struct {
	// Take are leases that nobody reads, unowned or stale (and finished ones whose owner is gone): to be taken by their counter.
	Take []Lease
	// Ask are leases of live workers that this worker should hold instead: to be asked for, or, where the owner is a Java
	// worker, to be taken by their counter.
	Ask []Lease

	Held    int // leases that this worker holds, finished ones left out
	Target  int // how many it should hold
	Workers int // live workers in view, this one included
	// Unassigned are leases that nobody reads and that nobody will take, since every live worker is at its limit.
	Unassigned int
	// Again is when to look again if that is sooner than usual, from the view's moment on; 0 if it is not.
	Again time.Duration
}

// startFree is how many leases a worker takes or asks for without waiting for other starters to stop appearing.
const startFree = 8

// pace holds the times of a start.
type pace struct {
	fast time.Duration // between the looks of a starter: half a second, less if the failover time is below 10 s
	slow time.Duration // the unit of waiting before live owners are asked
}

func paceOf(failover time.Duration) pace {
	return pace{fast: min(failover/20, 500*time.Millisecond), slow: failover / 5}
}

// Plan says what worker me does to bring the fleet nearer to balance, given its view. It is pure and deterministic: given
// the same view, all workers compute the same assignment and each returns its own part only, so that they do not race for
// the same leases.
//
//   - Leases that nobody reads come first; while there are any whose owner died, no live owner is asked.
//
//   - A worker without a lease is in nobody's view. It takes, or asks for, exactly one, which it finds by a hash of its own id
//     and the key, so that starters who cannot see each other choose differently; then it looks again. It asks for none that the
//     strategy would not leave with it.
//
//   - A starter goes on fast with leases that nobody reads, and waits with asking until no other starters appear. The first
//     eight leases do not wait, and stale leases never do.
//
//   - Only what brings a worker to its target moves, and nobody exceeds its limit: a balanced fleet writes nothing.
//
//   - Finished leases weigh nothing; one whose owner is gone is taken, so that it does not linger under a dead name.
//
//   - The leases of a worker that is stopping are on offer: they are asked for before anybody's surplus. Whoever should have
//     asked and did not is stepped in for.
//
// Asking moves no work until the owner has finished its batch, so a worker asks for all that it should hold, or
// cfg.MaxLeasesToStealAtOneTime in one look if that is set. A Java worker's leases are taken by their counter, and each such
// move repeats what the owner had not checkpointed: one at a time, or as many as that setting says.
func Plan(me string, view View, cfg config.LeaseManagementConfig, by AssignmentStrategy) Moves {
	if by == nil {
		by = LeaseCount{}
	}
	view.me = me
	s := view.survey()
	fleet, rows := view.fleet(s, cfg)
	p := planner{
		view: view, cfg: cfg, fleet: fleet, rows: rows, pace: paceOf(cfg.FailoverTime),
		me:   slices.IndexFunc(fleet.Workers, func(w FleetWorker) bool { return w.ID == me }),
		draw: newDraw(fleet),
	}
	p.by = by
	p.assign()
	if !view.shows(me) {
		p.first()
	} else {
		p.share()
	}
	p.finished()
	return p.moves
}

// shows reports whether others can see the worker: it has a row, be it of a finished shard.
func (v View) shows(worker string) bool {
	return slices.ContainsFunc(v.rows, func(s *Sighting) bool {
		return s.Knowledge == Fresh && (s.Lease.ActualOwner() == worker || s.Lease.Owner == worker)
	})
}

// planner is one run of Plan.
type planner struct {
	view  View
	cfg   config.LeaseManagementConfig
	fleet Fleet
	rows  []*Sighting // of fleet.Leases
	pace  pace
	me    int
	draw  draw
	by    AssignmentStrategy

	target []int // by lease
	count  []int // leases held, by worker
	moves  Moves
}

// assign asks the strategy, and corrects what no strategy may decide.
func (p *planner) assign() {
	answer := p.by.Assign(p.fleet)
	p.target = make([]int, len(p.fleet.Leases))
	p.count = make([]int, len(p.fleet.Workers))
	for i, l := range p.fleet.Leases {
		p.target[i] = l.Holder
		if !l.Fixed && i < len(answer) && answer[i] < len(p.fleet.Workers) && (answer[i] >= 0 || l.Holder < 0) {
			p.target[i] = max(answer[i], -1)
		}
		if l.Holder >= 0 {
			p.count[l.Holder]++
		}
		if p.target[i] == p.me {
			p.moves.Target++
		}
	}
	p.moves.Unassigned = p.unassigned()
	p.moves.Held = p.count[p.me]
	p.moves.Workers = len(p.fleet.Workers)
	if limit := p.cfg.MaxLeasesForWorker; limit > 0 {
		p.moves.Target = min(p.moves.Target, limit)
	}
}

// unassigned counts the leases that nobody reads and that are more than all limits together allow.
func (p *planner) unassigned() (n int) {
	assigned := make([]int, len(p.fleet.Workers))
	for i, l := range p.fleet.Leases {
		if w := p.target[i]; w >= 0 {
			assigned[w]++
		} else if l.Unread {
			n++
		}
	}
	for w, info := range p.fleet.Workers {
		if info.Max == 0 || assigned[w] < info.Max {
			return 0 // it may have more, or is a Java worker, which takes what it wants
		}
	}
	return n
}

// takeable reports whether a lease can be taken now without asking anybody.
func (p *planner) takeable(i int) bool {
	return p.rows[i].Knowledge == Free || p.rows[i].Knowledge == Stale
}

// first is the move of a worker that holds nothing.
func (p *planner) first() {
	if p.moves.Target == 0 {
		p.overdue()
		p.ripening()
		return
	}
	gives := make([]bool, len(p.fleet.Workers)) // holds something that it should not
	for i, l := range p.fleet.Leases {
		if l.Holder >= 0 && p.target[i] != l.Holder {
			gives[l.Holder] = true
		}
	}
	rank := func(i int) int {
		l := p.fleet.Leases[i]
		switch {
		case p.takeable(i) && l.Lease.ActualOwner() == p.view.me:
			return 3 // it was ours: after an outage of the table everybody comes back to its own
		case p.takeable(i) && l.Former != p.me:
			return 2
		case l.Leaving:
			return 1
		case l.Holder >= 0 && !l.Fixed && gives[l.Holder]:
			return 0
		}
		return -1
	}
	choose := func(among func(i int) bool) int {
		best := -1
		for i := range p.fleet.Leases {
			if rank(i) >= 0 && among(i) && (best < 0 || cmp.Or(cmp.Compare(rank(i), rank(best)), cmp.Compare(p.mine(i), p.mine(best))) > 0) {
				best = i
			}
		}
		return best
	}
	best := choose(func(int) bool { return true })
	if best >= 0 && rank(best) == 0 && !p.keeps(best) {
		best = choose(func(i int) bool { return p.target[i] == p.me })
	}
	if best < 0 {
		return
	}
	if rank(best) >= 2 {
		p.moves.Take = []Lease{p.fleet.Leases[best].Lease}
	} else {
		p.moves.Ask = []Lease{p.fleet.Leases[best].Lease}
	}
	p.again(p.pace.fast)
}

// keeps reports whether the strategy would leave a lease with this worker if it had it. One that means each lease for somebody may not:
//
//  1. Of two workers one holds both leases, the other none. Each is meant to have one.
//  2. The other asks for the wrong one. Now it is seen, and the right one is meant for it: it asks for that, too.
//  3. It holds both, and the first one none: as before, with the two in each other's place.
func (p *planner) keeps(i int) bool {
	if p.target[i] == p.me {
		return true
	}
	f := p.fleet
	f.Leases = slices.Clone(f.Leases)
	f.Leases[i].Holder = p.me
	answer := p.by.Assign(f)
	return i < len(answer) && answer[i] == p.me
}

// mine is this worker's hash for a lease.
func (p *planner) mine(i int) uint64 { return mix(p.draw.workers[p.me] ^ p.draw.keys[i]) }

// share is the moves of a worker that others can see.
func (p *planner) share() {
	room := len(p.fleet.Leases)
	if limit := p.cfg.MaxLeasesForWorker; limit > 0 {
		room = limit - p.moves.Held
	}
	orphans := false // leases of dead owners that somebody is to take
	var stale, free, offered, ask []int
	for i, l := range p.fleet.Leases {
		gone := p.rows[i].Knowledge == Stale || l.Unread && l.Lease.Owner != ""
		orphans = orphans || gone && p.target[i] >= 0
		switch {
		case p.target[i] != p.me || l.Holder == p.me:
		case p.rows[i].Knowledge == Stale:
			stale = append(stale, i)
		case p.rows[i].Knowledge == Free:
			free = append(free, i)
		case l.Leaving:
			offered = append(offered, i)
		case l.Holder >= 0:
			ask = append(ask, i)
		}
	}
	for _, list := range [][]int{stale, free, offered, ask} {
		slices.SortFunc(list, p.draw.order)
	}
	slices.SortStableFunc(offered, func(a, b int) int { return p.leavingSince(a).Compare(p.leavingSince(b)) })
	// Who stops is about to be replaced as a rule, and the one that takes its place wants its leases, not the others'.
	if orphans || len(p.view.leaving) > 0 {
		ask = nil
	}
	stale = stale[:clamp(len(stale), room)]
	p.take(stale)
	room -= len(stale)
	p.watchers()

	free = free[:clamp(len(free), room)]
	most, more := p.freeAllowance()
	allowed := free[:clamp(len(free), most-p.moves.Held-len(stale))]
	p.take(allowed)
	room -= len(free)
	if len(allowed) < len(free) {
		p.again(more)
	}

	p.ask(append(offered, ask...), room)
	if !p.view.settled {
		p.again(p.pace.slow)
	}
	p.overdue()
	p.ripening()
}

// ask asks for leases in the given order, for no more than there is room for.
func (p *planner) ask(leases []int, room int) {
	leases = leases[:clamp(len(leases), room)]
	limit, steals := len(leases), max(1, p.cfg.MaxLeasesToStealAtOneTime)
	if p.cfg.MaxLeasesToStealAtOneTime > 0 {
		limit = p.cfg.MaxLeasesToStealAtOneTime
	}
	allowed := p.allowance(p.pace.slow) - p.moves.Held - len(p.moves.Take)
	for _, i := range leases {
		java := p.fleet.Leases[i].Java
		switch {
		case len(p.moves.Ask) >= allowed:
			p.againAtNextStep(p.pace.slow)
			return
		case len(p.moves.Ask) >= limit || java && steals == 0:
			p.again(p.pace.fast) // the next one only after reading again, but soon
			continue
		case java:
			steals--
		}
		p.moves.Ask = append(p.moves.Ask, p.fleet.Leases[i].Lease)
	}
}

// leavingSince is since when the owner of a lease on offer has been seen to be stopping.
func (p *planner) leavingSince(i int) time.Time {
	return p.view.leaving[p.fleet.Leases[i].Lease.ActualOwner()]
}

// ripening looks again when leases of a worker that is stopping come on offer.
func (p *planner) ripening() {
	for _, since := range p.view.leaving {
		if wait := since.Add(ripe(p.cfg.FailoverTime)).Sub(p.view.now); wait > 0 {
			p.again(wait)
		}
	}
}

// allowance is how many leases a starter may hold by now that it has to ask for: all once no other starter has appeared for
// two steps, a quarter of its share after one.
func (p *planner) allowance(step time.Duration) int {
	all := max(len(p.fleet.Leases), startFree)
	quiet := p.view.now.Sub(p.view.grew)
	switch {
	case p.view.settled || quiet >= 2*step || p.view.now.Sub(p.view.started) >= p.cfg.FailoverTime:
		return all
	case quiet >= step:
		return max(startFree, p.moves.Target/4)
	}
	return startFree
}

func (p *planner) againAtNextStep(step time.Duration) {
	quiet := p.view.now.Sub(p.view.grew)
	if quiet < step {
		p.again(step - quiet)
	} else {
		p.again(2*step - quiet)
	}
}

// freeAllowance is how many leases a starter may hold by now of those that nobody reads, and when it may hold more: a
// sixteenth of all after a step, then twice as many after each, and all after the fourth. Others who start are not known
// before they show themselves, and a pause among them means nothing when there are few; with this they find something left
// for some seconds, and what nobody else wants is read all the same before long.
func (p *planner) freeAllowance() (most int, more time.Duration) {
	const steps = 4
	all := max(len(p.fleet.Leases), startFree)
	step := 2 * p.pace.fast
	age := p.view.now.Sub(p.view.started)
	passed := int(age / step)
	if p.view.settled || passed >= steps {
		return all, 0
	}
	most = startFree
	if passed > 0 {
		most = max(most, all>>(steps+1-passed))
	}
	return most, time.Duration(passed+1)*step - age
}

func (p *planner) again(d time.Duration) {
	if d = max(d, p.pace.fast/5); p.moves.Again == 0 || d < p.moves.Again {
		p.moves.Again = d
	}
}

func (p *planner) take(leases []int) {
	for _, i := range leases {
		p.moves.Take = append(p.moves.Take, p.fleet.Leases[i].Lease)
	}
}

// overdue takes what somebody else should have taken and did not: a worker that is stopping, or stuck, or whose view is
// another, must not leave a shard unread. The others step in one after the other, the emptiest first.
func (p *planner) overdue() {
	limit := p.cfg.MaxLeasesForWorker
	for i, l := range p.fleet.Leases {
		if !p.takeable(i) && !l.Leaving || p.target[i] == p.me || l.Former == p.me {
			continue
		}
		if limit > 0 && p.moves.Held+len(p.moves.Take)+len(p.moves.Ask) >= limit {
			return
		}
		due := p.due(p.rows[i])
		switch {
		case p.unaware(p.target[i], i):
			due = p.rows[i].expires(p.view.failover)
		case l.Leaving:
			due = p.leavingSince(i).Add(ripe(p.cfg.FailoverTime) + p.lateness())
		}
		at := due.Add(time.Duration(p.turn(i)) * p.cfg.FailoverTime / 40)
		switch wait := at.Sub(p.view.now); {
		case wait <= 0 && l.Leaving:
			p.moves.Ask = append(p.moves.Ask, l.Lease)
		case wait <= 0:
			p.moves.Take = append(p.moves.Take, l.Lease)
		case wait < p.cfg.FailoverTime:
			p.again(wait)
		}
	}
}

// due is when a lease should have been taken by whoever was meant to: a free one after a look of everybody, a stale one
// after everybody's timer, which start up to a look apart.
func (p *planner) due(row *Sighting) time.Time {
	if row.Knowledge == Stale {
		return row.expires(p.view.failover).Add(p.cfg.FailoverTime / 4)
	}
	// Who has just started does not take its whole share at once.
	return later(row.Since, p.view.grew.Add(2*p.pace.slow)).Add(p.lateness())
}

// unaware reports whether worker w came so late that a stale lease is not yet stale to it when others step in: then there is
// nothing to wait for. A worker that was started in place of a dead one is emptier than all others, and for it the dead one's
// leases begin to stand still when it first sees them.
func (p *planner) unaware(w, i int) bool {
	row := p.rows[i]
	return w >= 0 && w != p.me && row.Knowledge == Stale &&
		p.view.appeared[p.fleet.Workers[w].ID].After(row.Since.Add(p.cfg.FailoverTime/4))
}

// lateness is how long after it could, a worker has done its part for certain: by then it has looked.
func (p *planner) lateness() time.Duration {
	interval := cmp.Or(p.cfg.LeaseTakerInterval, p.cfg.FailoverTime/2)
	return interval + interval/4
}

// turn is how many others step in before this worker does.
func (p *planner) turn(i int) int {
	before := 0
	for w, info := range p.fleet.Workers {
		if w == p.me || w == p.target[i] || w == p.fleet.Leases[i].Former || !info.Go || info.Max > 0 && p.count[w] >= info.Max || p.unaware(w, i) {
			continue
		}
		less := cmp.Compare(p.count[w], p.count[p.me])
		if less < 0 || less == 0 && mix(p.draw.workers[w]^p.draw.keys[i]) > p.mine(i) {
			before++
		}
	}
	return before
}

// finished takes ended leases whose owner is gone.
func (p *planner) finished() {
	for _, row := range p.view.rows {
		if row.Knowledge != Stale || !row.Lease.Finished() {
			continue
		}
		key := hashOf(row.Lease.Key)
		before := 0
		for w, info := range p.fleet.Workers {
			if w != p.me && info.Go && mix(p.draw.workers[w]^key) > mix(p.draw.workers[p.me]^key) {
				before++
			}
		}
		// The first by hash at once, the next ones only if it is still there.
		at := row.expires(p.view.failover)
		if before > 0 {
			at = p.due(row).Add(time.Duration(before) * p.cfg.FailoverTime / 40)
		}
		switch wait := at.Sub(p.view.now); {
		case wait <= 0:
			p.moves.Take = append(p.moves.Take, *row.Lease)
		case wait < p.cfg.FailoverTime:
			p.again(wait)
		}
	}
}

func clamp(n, limit int) int { return max(0, min(n, limit)) }
