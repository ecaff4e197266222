package leases

// sharing is what the strategies have in common that compute an assignment anew, from the workers and the leases alone.
type sharing struct {
	fleet     Fleet
	target    []int // by lease
	count     []int // by worker
	open      []int // leases to be assigned
	receivers []int // workers that they may go to, in the order of their ids
}

// newSharing leaves what a Java worker holds with it, and gives Java workers nothing unless there are no others: a Java
// taker knows none of our strategies, balances by count in its own time, and would move a lease back that was taken from it.
func newSharing(f Fleet) *sharing {
	s := &sharing{fleet: f, target: make([]int, len(f.Leases)), count: make([]int, len(f.Workers))}
	for w, info := range f.Workers {
		if info.Go {
			s.receivers = append(s.receivers, w)
		}
	}
	if len(s.receivers) == 0 {
		for w := range f.Workers {
			s.receivers = append(s.receivers, w)
		}
	}
	for i, l := range f.Leases {
		s.target[i] = -1
		if l.Holder >= 0 && !f.Workers[l.Holder].Go {
			s.give(i, l.Holder)
		} else {
			s.open = append(s.open, i)
		}
	}
	return s
}

func (s *sharing) give(lease, to int) {
	s.target[lease] = to
	s.count[to]++
}

// hasRoom reports whether the worker may be given one more.
func (s *sharing) hasRoom(w int) bool {
	limit := s.fleet.Workers[w].Max
	return limit == 0 || s.count[w] < limit
}
