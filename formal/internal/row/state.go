package row

import (
	"strconv"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/leases"
)

// Row is the row of the table. Workers are numbers, 0 is nobody. A nonce is a label that stands for one tenure.
type Row struct {
	There           uint8
	Owner, Pos      uint8 // leaseOwner, checkpoint
	TWorker, TNonce uint8 // tenure.worker, tenure.nonce
	TBehind         uint8 // by how much tenure.at lies behind leaseCounter: 0, 1, 2 or more
	TLeaving        uint8 // tenure.leaving
	CkptOwner       uint8 // checkpointOwner
	HandoffTo       uint8 // handoffTo
}

// Op is a request: on its way, or answered and the answer on its way.
//
// Counters are not numbers but distances behind that of the row: 0, 1, or 2 for more. A write conditions on equality and adds
// one, so nothing else can be seen of them, and tenures need no bound. After the row was deleted a distance is 3: the counter
// of another incarnation, which may be equal to the present one or not.
type Op struct {
	Kind, State        uint8
	ID, Process        uint8 // the worker that sent it; what kind of process that is
	Behind             uint8 // of the counter that the condition names
	Nonce              uint8 // of the tenure that writes
	Seen               uint8 // the nonce that the condition names
	Pos, To            uint8 // checkpoint; who is asked, or handed over to
	Flags              uint8
	Adopted, APos      uint8 // an earlier attempt was found on the row, which had this position: this one is the repetition
	Age, Pre           uint8 // ticks since the call began; it began before a suspend
	Verdict            uint8
	VBehind, VPos, VTo uint8 // the row in the answer: counter, position, who has asked for it
}

const (
	flagLeaving   = 1 << iota // writes tenure.leaving
	flagNewTenure             // the write is the first of its tenure
	flagInTransit             // the row was in transit when it was read
	flagKnowsMark             // KCL 3.5 renews on under a mark that it has learnt
	flagStillOurs             // of an answer that says "lost": the row is the sender's nevertheless
)

// What a request does.
const (
	opNone = iota
	opTake
	opFirst // the first renewal of a row that was handed over
	opRenew
	opCheckpoint
	opAsk
	opComplete
	opRelease
	opDelete
	opJavaTake
	opJavaRenew
	opJavaRegain
	opJavaCheckpoint
)

var opNames = [...]string{
	"", "take", "first renewal", "renewal", "checkpoint", "ask", "completion", "release", "deletion",
	"Java take", "Java renewal", "Java regain", "Java checkpoint",
}

const ( // Op.State
	sent = 1 + iota
	answered
)

const ( // Op.Verdict
	landed     = 1 + iota
	mine       // the condition failed on an earlier write of the same tenure
	learnt     // KCL 3.5: the condition failed on a mark
	lost       // the row is somebody else's, or gone
	duplicated // it is that of another process with our worker id
)

// Kinds of process.
const (
	Go     = 1 + iota
	Java2  // KCL 2.7
	Java35 // KCL 3.5 in 2x mode
)

// Proc is one process and what it knows.
type Proc struct {
	Kind, ID, Alive uint8
	Starting        uint8 // it has not looked at the table yet
	Suspended       uint8
	Leaving         uint8

	// While it holds the lease.
	Held           uint8
	Behind, Nonce  uint8
	Pos            uint8 // the checkpoint that it knows
	Handled        uint8 // what its processor has handled
	Mark           uint8 // who has asked for the lease
	Drained        uint8 // the consumer has finished
	Unsure         uint8 // a write got no answer (2: before a suspend)
	MustRenew      uint8 // after a suspend
	Age, UnsureAge uint8 // ticks since the write that the lease counts from was asked for; since the first without an answer

	// While it does not.
	Sight, SightAge    uint8 // what it knows of the row (see seen), for how many ticks
	Claim, ClaimBehind uint8 // the nonce of a take without an answer, and the counter that it was for

	Draining uint8    // a consumer of an earlier tenure still runs
	Running  uint8    // a consumer of this one does
	Made     [2]uint8 // nonces that this process made, as bits; only where two have the same id

	Op   Op // the request that it waits for
	Late Op // one that it has given up, or sent before it died; it may land at any time, or never
}

const ( // Proc.Sight
	seen = 1 + iota
	stale
)

// MostProcs is how many processes there may be.
const MostProcs = 3

// made notes that the process made a nonce.
func (p *Proc) make(nonce uint8)      { p.Made[nonce/8] |= 1 << (nonce % 8) }
func (p *Proc) forget(nonce uint8)    { p.Made[nonce/8] &^= 1 << (nonce % 8) }
func (p *Proc) made(nonce uint8) bool { return p.Made[nonce/8]&(1<<(nonce%8)) != 0 }

// State is everything. It and all in it is made of bytes only, so that it is hashed as one piece of memory.
type State struct {
	Row     Row
	Newest  uint8 // nonce of the newest tenure that has made its own first write
	Token   uint8 // how far the counter has moved since that write: 0, 1, 2 or more
	Highest uint8 // up to where records were handled without a gap
	P       [MostProcs]Proc
	Cleaner Op
}

// fact is what production code says of a row.
type fact struct {
	known                 bool
	live, transit, speaks bool // MarkIsLive, InTransit, TenureSpeaks
	actual                uint8
	state                 leases.RowState
}

// facts asks production code, once for each row that makes a difference to it.
type facts [1 << 20]fact

func (m *Model) fact(r *Row) *fact {
	key := int(r.Owner) | int(r.TWorker)<<4 | int(r.CkptOwner)<<8 | int(r.HandoffTo)<<12 | int(r.TBehind)<<16 | int(r.There)<<18
	if m.ended(r) {
		key |= 1 << 19
	}
	f := &m.facts[key]
	if !f.known {
		l := m.Lease(*r)
		*f = fact{
			known: true, live: l.MarkIsLive(), transit: l.InTransit(), speaks: l.TenureSpeaks(),
			actual: number(l.ActualOwner()), state: l.State(),
		}
		m.weaken(f, r)
	}
	return f
}

// ended reports whether the shard was read to its end.
func (m *Model) ended(r *Row) bool { return m.End && r.There != 0 && r.Pos == m.Positions }

// counter is leaseCounter wherever a row is written down.
const counter = 100

// Lease is the row as production code sees it.
func (m *Model) Lease(r Row) leases.Lease {
	if r.There == 0 {
		return leases.Lease{}
	}
	l := leases.Lease{
		Key: "shardId-000000000001", Owner: worker(r.Owner), Counter: counter, Checkpoint: m.position(r.Pos),
		CheckpointOwner: worker(r.CkptOwner), HandoffTo: worker(r.HandoffTo), EntityType: "LEASE",
	}
	if r.TWorker != 0 {
		l.Tenure = &leases.Tenure{Worker: worker(r.TWorker), Nonce: nonce(r.TNonce), At: counter - int64(r.TBehind), Leaving: r.TLeaving != 0}
	}
	return l
}

func (m *Model) position(p uint8) checkpoint.ExtendedSequenceNumber {
	switch {
	case m.End && p == m.Positions:
		return checkpoint.ShardEnd
	case p == 0:
		return checkpoint.TrimHorizon
	}
	return checkpoint.ExtendedSequenceNumber{SequenceNumber: strconv.Itoa(int(p))}
}

func worker(n uint8) string {
	if n == 0 {
		return ""
	}
	return "w" + strconv.Itoa(int(n))
}

func number(worker string) uint8 {
	if worker == "" {
		return 0
	}
	n, _ := strconv.Atoi(worker[1:]) // made by worker
	return uint8(n)
}

// nonce is a label written down. Its sequence is the label; the process, which only an error's text needs, is one for all.
func nonce(label uint8) string { return "host/1/0000000000000000/" + strconv.Itoa(int(label)) }
