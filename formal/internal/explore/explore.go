package explore

import (
	"fmt"
	"hash/maphash"
	"strings"
)

// System is what is explored. S holds everything that a later step may depend on, and no pointer.
type System[S comparable] interface {
	Initial() S
	// Steps calls emit for each thing that can happen in s. broken names the rule that the step, or the state that it leads
	// to, breaks; it is empty as a rule. next must not be kept.
	Steps(s *S, emit func(next *S, step Step, broken string))
	// Describe says for people what a step was and what state it has led to.
	Describe(step Step, after *S) string
}

// Step is who did what; the numbers are the system's own.
type Step struct{ Who, What uint8 }

// Graph is what Run has visited.
type Graph[S comparable] struct {
	Broken    string // the rule that was broken, empty if none was
	Trace     string // how, one line a step
	Truncated bool   // there are more states than the limit

	system System[S]
	states arena[S]
	seen   table
	seed   maphash.Seed
	parent []uint32
	step   []Step

	// The edges, if they are kept: those that leave state i end at upTo[i].
	edges []edge
	upTo  []uint32
}

// edge is a step that was found; it leads to the state of that number.
type edge struct {
	to   uint32
	step Step
}

// Len is the number of states.
func (g *Graph[S]) Len() int { return g.states.n }

// At is the state of that number, in the order of their discovery.
func (g *Graph[S]) At(i int) *S { return g.states.at(i) }

// Run visits every state, at most limit, and stops at the first broken rule. keep is for a later Check.
func Run[S comparable](system System[S], limit int, keep bool) *Graph[S] {
	g := &Graph[S]{system: system, seed: maphash.MakeSeed()}
	first := system.Initial()
	g.add(&first, 0, Step{})
	for i := 0; i < g.states.n && g.Broken == ""; i++ {
		now := *g.states.at(i)
		system.Steps(&now, func(next *S, step Step, broken string) {
			switch {
			case g.Broken != "":
			case broken != "":
				g.Broken, g.Trace = broken, g.trace(i, step, next, broken)
			case g.states.n >= limit:
				if _, known := g.seen.get(g.hash(next)); !known {
					g.Truncated = true
				}
			default:
				to := g.add(next, i, step)
				if keep && to != uint32(i) {
					g.edges = append(g.edges, edge{to, step})
				}
			}
		})
		if keep {
			g.upTo = append(g.upTo, uint32(len(g.edges)))
		}
	}
	return g
}

func (g *Graph[S]) hash(s *S) uint64 { return maphash.Comparable(g.seed, *s) }

// add returns the number of a state, which it gives it if it is new.
func (g *Graph[S]) add(s *S, parent int, step Step) uint32 {
	if n, known := g.seen.put(g.hash(s), uint32(g.states.n)); known {
		return n
	}
	g.states.add(s)
	g.parent = append(g.parent, uint32(parent))
	g.step = append(g.step, step)
	return uint32(g.states.n - 1)
}

// trace tells how state i was reached, and what happened then.
func (g *Graph[S]) trace(i int, last Step, after *S, broken string) string {
	lines := []string{g.system.Describe(last, after) + "   <== " + broken}
	for ; i != 0; i = int(g.parent[i]) {
		lines = append(lines, g.system.Describe(g.step[i], g.states.at(i)))
	}
	var b strings.Builder
	for n := range lines {
		fmt.Fprintf(&b, "    %3d  %s\n", n+1, lines[len(lines)-1-n])
	}
	return b.String()
}

// arena holds values in blocks, so that it grows without copying.
type arena[S any] struct {
	blocks [][]S
	n      int
}

const block = 1 << 15

func (a *arena[S]) at(i int) *S { return &a.blocks[i/block][i%block] }

func (a *arena[S]) add(s *S) {
	if a.n%block == 0 {
		a.blocks = append(a.blocks, make([]S, 0, block))
	}
	last := &a.blocks[len(a.blocks)-1]
	*last = append(*last, *s)
	a.n++
}

// table maps hashes to numbers, by open addressing: a Go map of the same takes more than twice the memory.
type table struct {
	keys []uint64
	vals []uint32
	n    int
}

// slot is where k is, or would be.
func (t *table) slot(k uint64) int {
	mask := uint64(len(t.keys) - 1)
	i := k & mask
	for t.keys[i] != 0 && t.keys[i] != k {
		i = (i + 1) & mask
	}
	return int(i)
}

func (t *table) get(k uint64) (uint32, bool) {
	k = max(k, 1)
	if t.n == 0 {
		return 0, false
	}
	i := t.slot(k)
	return t.vals[i], t.keys[i] == k
}

// put gives k the value v unless it has one, and returns that and whether it had.
func (t *table) put(k uint64, v uint32) (uint32, bool) {
	k = max(k, 1)
	if 2*t.n >= len(t.keys) {
		old := *t
		size := max(1<<12, 2*len(old.keys))
		t.keys, t.vals = make([]uint64, size), make([]uint32, size)
		for i, k := range old.keys {
			if k != 0 {
				j := t.slot(k)
				t.keys[j], t.vals[j] = k, old.vals[i]
			}
		}
	}
	i := t.slot(k)
	if t.keys[i] == k {
		return t.vals[i], true
	}
	t.keys[i], t.vals[i] = k, v
	t.n++
	return v, false
}

// Edges is the number of steps that were kept.
func (g *Graph[S]) Edges() int { return len(g.edges) }
