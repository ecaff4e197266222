package coordinator

import (
	"cmp"
	"maps"
	"slices"
	"unicode/utf16"

	"github.com/shardlease/shardlease/leases"
)

// LeaderDecider says whether this worker does what only one of the fleet needs to do: the audit of shards and leases, and the
// cleanup of finished ones. It is no lock. Nothing that must happen waits for a leader, and everything that a leader does may
// be done by several at once. (KCL: LeaderDecider)
type LeaderDecider interface {
	IsLeader() bool
}

// DeterministicLeader chooses the leader without a word between workers: each finds the same one in the rows of the lease
// table, which its lease taker reads anyway. It is the choice that KCL 2.x makes, so that in a fleet of Java and Go workers
// all agree, but for two things that let it follow the fleet sooner. KCL reads the table every five minutes, this is asked
// anew each time; and a worker whose every row is stale in our view does not count here, so that after a crash there is
// another leader as soon as the dead one's leases may be taken. Until they are, Java workers may have another opinion.
//
// Leases of finished shards count as any other. While nobody owns a lease, or nothing is known yet, every worker leads. A
// worker that owns none does not lead otherwise. Its method may be called from any goroutine.
// (KCL: DeterministicShuffleShardSyncLeaderDecider)
type DeterministicLeader struct {
	me   string
	view func() leases.View
}

// NewDeterministicLeader makes a decider for the worker me. view returns what it knows of the table, usually
// LeaseTaker.View.
func NewDeterministicLeader(me string, view func() leases.View) *DeterministicLeader {
	return &DeterministicLeader{me: me, view: view}
}

// IsLeader implements [LeaderDecider].
func (d *DeterministicLeader) IsLeader() bool {
	leader, found := LeaderOf(d.owners())
	return !found || leader == d.me
}

// owners are the workers that count. KCL looks at leaseOwner alone: of a lease that is being handed over, that is the worker
// it goes to. Our own rows are alive because we are.
func (d *DeterministicLeader) owners() []string {
	alive := map[string]struct{}{}
	for _, row := range d.view().All() {
		if owner := row.Lease.Owner; owner != "" && (row.Knowledge != leases.Stale || owner == d.me) {
			alive[owner] = struct{}{}
		}
	}
	return slices.Collect(maps.Keys(alive))
}

// LeaderOf is the leader among the owners of leases, in whatever order, found is false if there are none. It is the first of
// them after a shuffle by a random generator that always starts from the same seed, so that a worker which comes or goes
// usually changes the leader, but all workers that see the same owners choose the same one.
func LeaderOf(owners []string) (leader string, found bool) {
	sorted := slices.Clone(owners)
	slices.SortFunc(sorted, compareUTF16)
	sorted = slices.Compact(sorted)
	if len(sorted) == 0 {
		return "", false
	}
	return sorted[leaderIndex(len(sorted))], true
}

// leaderSeed is that of KCL.
const leaderSeed = 1947

// leaderIndex tells which of n sorted owners a Collections.shuffle moves to the front.
func leaderIndex(n int) int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	random := newJavaRandom(leaderSeed)
	for i := n; i > 1; i-- {
		j := random.intn(i)
		order[i-1], order[j] = order[j], order[i-1]
	}
	return order[0]
}

// compareUTF16 orders strings as Java does: by UTF-16 code units. Bytes give another order only where a character beyond
// U+FFFF, which UTF-16 writes as surrogates from U+D800 on, meets one from U+E000 to U+FFFF.
func compareUTF16(a, b string) int {
	return cmp.Or(slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b))), cmp.Compare(a, b))
}

// javaRandom is java.util.Random, whose algorithm is part of its documentation: a linear congruential generator of 48 bits.
type javaRandom struct{ state uint64 }

const (
	javaMultiplier = 0x5DEECE66D
	javaIncrement  = 0xB
	javaMask       = 1<<48 - 1
)

func newJavaRandom(seed uint64) *javaRandom {
	return &javaRandom{state: (seed ^ javaMultiplier) & javaMask}
}

// bits31 is next(31): a number of 31 bits.
func (r *javaRandom) bits31() int {
	r.state = (r.state*javaMultiplier + javaIncrement) & javaMask
	return int(r.state >> 17)
}

// intn is nextInt(n): a number from 0 to n−1, n positive.
func (r *javaRandom) intn(n int) int {
	const end int64 = 1 << 31
	if n&(n-1) == 0 {
		return int(uint64(n) * uint64(r.bits31()) >> 31)
	}
	for {
		// Numbers from the last multiple of n on would favour small remainders; Java finds them by an overflow.
		bits := r.bits31()
		if v := bits % n; int64(bits-v)+int64(n)-1 < end {
			return v
		}
	}
}
