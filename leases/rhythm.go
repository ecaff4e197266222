package leases

import "time"

// rhythms judge, from what whole looks show, whether other workers have another failover time than this one. It belongs to the
// taker's goroutine.
//
// A Go worker writes its own into each row. A Java worker writes none, but renews each third of it, less 25 ms: the counters of its
// quiet rows tell how often. (Checkpoints move counters, too, so only rows whose checkpoint stays count.) Nothing repairs a
// difference. With a longer one than ours, a Java worker that lives is taken for dead between two renewals; with a shorter
// one, it takes us for dead.
type rhythms struct {
	me    string
	own   time.Duration
	rows  map[string]quiet
	peers map[string]*rhythm
}

// quiet is a row of a Java worker, as it was when its counter was first seen.
type quiet struct {
	owner, checkpoint string
	counter           int64
	at                time.Time
}

// rhythm is what is known of one peer.
type rhythm struct {
	since    time.Time // when watching began
	renewals int64
	over     time.Duration // the time that they took, added up over rows
	told     bool
}

// otherFailover is a peer whose failover time differs.
type otherFailover struct {
	peer string
	java bool
	time time.Duration // estimated, if java
}

const (
	// enoughTime, in failover times of ours, is how long a peer is watched before it is judged. A look sees each move up to its own
	// interval late, which in this time means a renewal more or less of some thirty for each row.
	enoughTime = 12
	// enoughRenewals have to be seen in it, or it is watched for longer.
	enoughRenewals = 10
	// failoverTolerance is the ratio from which on a Java worker's failover time counts as another one. Below it a live owner is renewed
	// at least 1.8 times before the other side's time is over.
	failoverTolerance = 1.6
)

func newRhythms(me string, own time.Duration) rhythms {
	return rhythms{me: me, own: own, rows: map[string]quiet{}, peers: map[string]*rhythm{}}
}

// look takes in a listing of the whole table and returns the peers that were found to differ, each once.
func (r *rhythms) look(rows []Lease, at time.Time) (found []otherFailover) {
	seen, peers := make(map[string]quiet), make(map[string]*rhythm)
	for i := range rows {
		l := &rows[i]
		owner := l.ActualOwner()
		if owner == "" || owner == r.me {
			continue
		}
		p := r.peers[owner]
		if p == nil {
			p = &rhythm{since: at}
		}
		peers[owner] = p
		if l.TenureSpeaks() {
			if l.Tenure.Worker == owner && l.Tenure.Failover != 0 && l.Tenure.Failover != r.own && !p.told {
				p.told = true
				found = append(found, otherFailover{owner, false, l.Tenure.Failover})
			}
			continue
		}
		is := quiet{owner, l.Checkpoint.String(), l.Counter, at}
		was, known := r.rows[l.Key]
		switch {
		case !known || was.owner != is.owner || was.checkpoint != is.checkpoint || is.counter < was.counter:
		case is.counter == was.counter:
			is = was // until it moves, its owner may be dead
		default:
			p.renewals += is.counter - was.counter
			p.over += at.Sub(was.at)
		}
		seen[l.Key] = is
	}
	r.rows, r.peers = seen, peers
	for peer, p := range peers {
		if f, differs := p.judge(r.own, at); differs {
			found = append(found, otherFailover{peer, true, f})
		}
	}
	return found
}

// judge estimates a Java worker's failover time once enough was seen of it, and begins anew.
func (p *rhythm) judge(own time.Duration, at time.Time) (failover time.Duration, differs bool) {
	if p.renewals < enoughRenewals || at.Sub(p.since) < enoughTime*own {
		return 0, false
	}
	failover = 3 * (p.over/time.Duration(p.renewals) + 25*time.Millisecond)
	p.since, p.renewals, p.over = at, 0, 0
	ratio := failover.Seconds() / own.Seconds()
	if p.told || ratio < failoverTolerance && ratio > 1/failoverTolerance {
		return failover, false
	}
	p.told = true
	return failover.Round(100 * time.Millisecond), true
}
