package row

import (
	"fmt"

	"github.com/shardlease/shardlease/formal/internal/explore"
)

// faults are the steps that a duty must do without.
var faults = map[uint8]bool{
	doCrash: true, doLeave: true, doSuspend: true, doGiveUpWaiting: true, doRetry: true, doStart: true, doStartAnew: true,
	doLandLate: true, doVanish: true,
}

// Duties are what must be possible from every state (B103: nothing is stuck).
func (m *Model) Duties() []explore.Duty[State] {
	if m.Timed || m.Twins { // in which staleness is no step; of which one has to stop when it finds the other
		return nil
	}
	var all []explore.Duty[State]
	for i, slot := range m.Procs {
		if slot.Kind != Go {
			continue
		}
		all = append(all, m.alone(uint8(i), slot))
	}
	return append(all, m.handsOver())
}

// serves reports whether a process acts under the lease and will go on to.
func (m *Model) serves(s *State, i uint8) bool {
	p := &s.P[i]
	return m.ended(&s.Row) || p.Kind == Go && m.acts(p) && p.Behind == 0 && p.Mark == 0
}

func waits(step explore.Step) bool { return step.What == doStale || step.What == doTakeOverdue }

// alone is that each worker, with all others standing still for ever, gets to read the shard.
func (m *Model) alone(i uint8, slot Slot) explore.Duty[State] {
	return explore.Duty[State]{
		Name: fmt.Sprintf("process %c (w%d) gets to act, all others standing still", 'a'+i, slot.ID),
		Need: func(s *State) bool {
			p := &s.P[i]
			return p.Alive != 0 && p.Leaving == 0 && p.Kind == Go && s.Row.There != 0
		},
		Goal: func(s *State) bool { return m.serves(s, i) },
		Allowed: func(_ *State, step explore.Step) bool {
			switch step.What {
			case doLoseLate:
				return true
			case doExpire, doGiveUpWaiting:
				return step.Who != i
			}
			return step.Who == i && !faults[step.What]
		},
		Costs: waits,
		Waits: 2,
	}
}

// handsOver is that a hand-off whose two workers live ends without anybody waiting for a failover time.
func (m *Model) handsOver() explore.Duty[State] {
	return explore.Duty[State]{
		Name: "a hand-off between two living workers ends",
		Need: func(s *State) bool {
			if !m.fact(&s.Row).live {
				return false
			}
			holder, target := false, false
			for i := range m.Procs {
				p := &s.P[i]
				holder = holder || p.Alive != 0 && p.Held != 0 && p.Behind == 0 && p.Nonce == s.Newest && p.Suspended == 0
				target = target || p.Alive != 0 && p.ID == s.Row.Owner && p.Leaving == 0 && p.Kind == Go && p.Suspended == 0
			}
			return holder && target
		},
		Goal: func(s *State) bool {
			for i := range m.Procs {
				if m.serves(s, uint8(i)) {
					return true
				}
			}
			return false
		},
		Allowed: func(_ *State, step explore.Step) bool {
			return step.What == doLoseLate || !faults[step.What] && step.What != doExpire && step.What != doExit
		},
		Costs: waits,
		Waits: 0,
	}
}
