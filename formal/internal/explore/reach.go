package explore

import "fmt"

// Duty is something that must be possible: from each state that needs it, a state that is a goal can be reached by the
// steps that are allowed. It asks that a way exists, which an unfair scheduler might never take; so it finds states in which
// something is stuck, and not what is merely slow.
type Duty[S comparable] struct {
	Name    string
	Need    func(s *S) bool
	Goal    func(s *S) bool
	Allowed func(s *S, step Step) bool
	Costs   func(step Step) bool // steps that take a failover time
	Waits   int                  // how many of those the way may have
}

// Check looks whether the duty can be done from every state that was visited, by the edges that Run has kept. It returns the
// number of states from which it cannot, and the trace of the first.
func (g *Graph[S]) Check(d Duty[S]) (stuck int, trace string) {
	const never = 255
	n := g.states.n
	waits := make([]uint8, n)
	type way struct {
		from uint32
		next uint32 // the next way into the same state
		cost uint8
	}
	var (
		ways      = make([]way, 1, len(g.edges)/2+1)
		into      = make([]uint32, n) // the first way into each state, 0 for none
		now, then []uint32
	)
	from := uint32(0)
	for i := range n {
		at := g.states.at(i)
		out := g.edges[from:g.upTo[i]]
		from = g.upTo[i]
		waits[i] = never
		if d.Goal(at) {
			waits[i] = 0
			now = append(now, uint32(i))
			continue
		}
		for _, e := range out {
			if !d.Allowed(at, e.step) {
				continue
			}
			cost := uint8(0)
			if d.Costs != nil && d.Costs(e.step) {
				cost = 1
			}
			ways = append(ways, way{from: uint32(i), next: into[e.to], cost: cost})
			into[e.to] = uint32(len(ways) - 1)
		}
	}
	for w := uint8(0); len(now) > 0 && int(w) <= d.Waits; w++ {
		for len(now) > 0 {
			x := now[len(now)-1]
			now = now[:len(now)-1]
			if waits[x] != w {
				continue
			}
			for k := into[x]; k != 0; k = ways[k].next {
				e := ways[k]
				if w+e.cost >= waits[e.from] {
					continue
				}
				waits[e.from] = w + e.cost
				if e.cost == 0 {
					now = append(now, e.from)
				} else {
					then = append(then, e.from)
				}
			}
		}
		now, then = then, nil
	}
	for i := range n {
		if s := g.states.at(i); d.Need(s) && int(waits[i]) > d.Waits {
			if stuck == 0 {
				trace = g.trace(int(g.parent[i]), g.step[i], s, fmt.Sprintf("%s: no way with at most %d waits", d.Name, d.Waits))
			}
			stuck++
		}
	}
	return stuck, trace
}
