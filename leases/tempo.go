package leases

import (
	"math"
	"time"
)

// rank is what a request to the table is for. When the table is asked too much, lower ranks (larger numbers) wait first.
type rank int

const (
	// rankOther is not subject to the budget: requests about the table itself, or to another table.
	rankOther rank = iota
	// rankKeep keeps what this worker holds: renewals, checkpoints, releases, hand-overs.
	rankKeep
	// rankMove gets what this worker should hold, and moves shards on: takes, asks, the reading of single rows, the rows of children.
	rankMove
	// rankLook is reading the table.
	rankLook
	// rankTidy can wait: audits and cleanup.
	rankTidy
)

// share is how much a rank may ask for, in requests for each one that the table answers. Those that keep leases push the table
// to its limit, and learn by its refusals when there is room again. All others stay below it, so that in the end nothing is refused.
func (k rank) share() float64 {
	switch k {
	case rankMove:
		return 0.9
	case rankLook:
		return 0.8
	case rankTidy:
		return 0.5
	case rankOther, rankKeep:
	}
	return 1.25
}

const (
	tempoMemory  = 2 * time.Second  // an answer so long ago weighs 1/e of one now
	tempoCalm    = 10 * time.Second // so long after the table last refused too much the limit ends
	tempoGrowth  = 5 * time.Second  // so long after that the limit has doubled
	tempoKeep    = time.Second      // the same for what keeps leases
	tempoFloor   = 2.0              // requests a second that may always be sent
	tempoRefusal = 0.1              // the part of requests refused that is too much: single refusals are no reason to wait
)

// tempo is how fast one worker may ask the table. There is no limit until the table refuses a good part of what it is asked;
// then requests go out as fast as it has been answering, times the share of their rank. It is told the time, and reads no clock.
// The zero value has no limit. docs/adr/0008-budget.md says why it is as it is.
type tempo struct {
	at        time.Time // of the next three
	answered  float64   // requests that the table answered; older ones weigh less
	refused   float64   // that it refused, or was very slow with; likewise
	tokens    float64   // requests that may be sent at once
	too       time.Time // when it last refused too much
	throttled time.Time // when it last did so by saying that it is asked too often; slowness alone does not hold up what keeps leases
}

// limits reports whether a rank may have to wait.
func (p *tempo) limits(k rank) bool {
	since := p.too
	if k == rankKeep {
		since = p.throttled
	}
	return !since.IsZero() && p.at.Sub(since) < tempoCalm
}

// pass lets time go by up to now.
func (p *tempo) pass(now time.Time) {
	gone := now.Sub(p.at)
	if gone <= 0 {
		return
	}
	if !p.at.IsZero() {
		rate := p.rate()
		p.tokens = min(p.tokens+rate*gone.Seconds(), max(2, rate/2))
	}
	fade := math.Exp(-gone.Seconds() / tempoMemory.Seconds())
	p.answered *= fade
	p.refused *= fade
	p.at = now
}

// rate is how many tokens a second there are.
func (p *tempo) rate() float64 {
	return p.answered/tempoMemory.Seconds()*p.grown(tempoGrowth) + tempoFloor
}

// grown is what the limit has grown to since the table last refused too much.
func (p *tempo) grown(doubled time.Duration) float64 {
	if p.too.IsZero() {
		return 1
	}
	calm := min(p.at.Sub(p.too), tempoCalm).Seconds() / doubled.Seconds()
	return 1 + calm*calm
}

// cost is how many tokens a request needs.
func (p *tempo) cost(k rank) float64 {
	if k == rankKeep {
		return 1 / k.share() * p.grown(tempoGrowth) / p.grown(tempoKeep)
	}
	return 1 / k.share()
}

// wait is how long a request of this rank has to wait as things stand; 0: it may be sent.
func (p *tempo) wait(now time.Time, k rank) time.Duration {
	p.pass(now)
	lacking := p.cost(k) - p.tokens
	if !p.limits(k) || lacking <= 1e-9 {
		return 0
	}
	return time.Duration(lacking/p.rate()*float64(time.Second)) + 1
}

// spend takes account of a request that is sent now, whether or not it had to wait.
func (p *tempo) spend(now time.Time, k rank) {
	p.pass(now)
	p.tokens = max(p.tokens-p.cost(k), -1)
}

// verdict is what an answer tells of the table's load.
type verdict int

const (
	noVerdict      verdict = iota // an error that has other reasons
	tableAnswered                 // in good time
	tableSlow                     // hardly, or not at all
	tableThrottled                // it said that it is asked too often
)

// judge takes in an answer that came now.
func (p *tempo) judge(now time.Time, v verdict) {
	p.pass(now)
	switch v {
	case tableAnswered:
		p.answered++
	case tableSlow, tableThrottled:
		p.refused++
		if p.refused < 1.5 || p.refused <= tempoRefusal*(p.answered+p.refused) {
			return
		}
		if !p.limits(rankTidy) {
			p.tokens = 0
		}
		p.too = now
		if v == tableThrottled {
			p.throttled = now
		}
	case noVerdict:
	}
}
