package shards

import "github.com/shardlease/shardlease/formal/internal/explore"

// lineage is a shard and its ancestors, as bits.
func (m *Model) lineage(n uint8) uint8 {
	set := uint8(1) << n
	for _, p := range m.Stream[n].Parents {
		set |= m.lineage(p)
	}
	return set
}

// invariant is S5: whatever happens from here on, each shard that exists has somebody whose duty it is to bring it about.
func (m *Model) invariant(s *State) string {
	if s.Rows == 0 && s.Read == 0 {
		return ""
	}
	for n := range uint8(len(m.Stream)) {
		sh := m.Stream[n]
		if sh.Born > s.Stage || sh.Gone <= s.Stage || s.Read&(1<<n) != 0 {
			continue
		}
		line := m.lineage(n)
		has, follows := false, false
		for o := range uint8(len(m.Stream)) {
			if line&(1<<o) != 0 && (s.level(o) == fresh || s.level(o) == begun) {
				has = true
			}
		}
		for _, p := range sh.Parents {
			follows = follows || s.Read&(1<<p) != 0
		}
		switch {
		case has:
		case follows:
			return "S5: a parent was read to its end, and nobody will read the child"
		case m.determine(s.Rows, s.Stage)&line == 0:
			return "S5: a shard that no lease will bring, and no audit finds missing"
		}
	}
	return ""
}

// Duties are that everything gets read and cleaned up, whatever has happened, and that the table is then the one that a single
// worker would have left (S3, S5, S7).
func (m *Model) Duties() []explore.Duty[State] {
	return []explore.Duty[State]{{
		Name: "everything is read, and of the rows only those of open shards are left",
		Need: func(*State) bool { return true },
		Goal: func(s *State) bool {
			if s.Stage != m.Stages {
				return false
			}
			for n, sh := range m.Stream {
				open := sh.Closed > s.Stage
				if open && s.level(uint8(n)) != begun || !open && (s.level(uint8(n)) != absent || s.Read&(1<<n) == 0 && sh.Gone > s.Stage) {
					return false
				}
			}
			return true
		},
		// A consumer that stops and gives its lease up is as one that crashes.
		Allowed: func(_ *State, step explore.Step) bool { return step.What != doCrash || step.Who>>4 == ofConsumer>>4 },
	}}
}
