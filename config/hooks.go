package config

import "time"

// Hooks are functions that shardlease calls when something happened; every one may be nil, and so may a *Hooks. They are the
// only way in which a worker tells what it does: logs ([SlogHooks]) and metrics are made of them.
//
// A hook is called on the goroutine in which the event happened, after it happened, and that goroutine goes on when the hook
// returns: a slow hook makes a slow worker, and one that blocks for FailoverTime loses leases. So a hook must return quickly,
// must not wait for anything, and must be safe for concurrent use. Events of one lease come in order; events of different
// leases do not. A panic in a hook is not caught: it ends the process, as it would anywhere in the program's own goroutines.
//
// Fields may be added, also to the event types. [Chain] joins several Hooks.
type Hooks struct {
	WorkerStarted func(WorkerEvent) // Run has begun
	WorkerStopped func(WorkerEvent) // Run is about to return

	LeaseCreated  func(LeaseEvent) // a row was created by this worker
	LeaseTaken    func(LeaseEvent) // this worker holds a lease it did not hold
	LeaseRenewed  func(LeaseEvent) // the table has accepted a renewal
	LeaseLost     func(LeaseEvent) // held no more, against our will; Err says why
	LeaseReleased func(LeaseEvent) // given up on purpose
	LeaseDeleted  func(LeaseEvent) // this worker removed the row of a finished shard, or of a former stream's; Reason says why
	LeaseSkipped  func(LeaseEvent) // a row that cannot be read as a lease; once per key and process; Err says why

	CheckpointWritten func(CheckpointEvent)
	CheckpointRefused func(CheckpointEvent) // Err says why: out of order, beyond what was delivered, lease lost, table

	Fetched        func(FetchEvent)       // one read from the stream, also an empty or failed one
	Subscribed     func(SubscribeEvent)   // fan-out: a subscription was opened, or could not be
	Trimmed        func(TrimmedEvent)     // a shard's position is older than what the stream keeps: records may be lost
	Deaggregated   func(DeaggregateEvent) // KPL aggregates of one read were taken apart, or could not be
	BatchProcessed func(BatchEvent)       // ProcessRecords returned
	Retried        func(RetryEvent)       // something failed and will be tried again
	Panicked       func(PanicEvent)       // user code panicked
	ShardEnded     func(LeaseEvent)       // a shard was read to its end and its checkpoint says so
	Synced         func(SyncEvent)        // leases were compared with shards
	StateChanged   func(StateEvent)       // a consumer moved to another state
	WorkerLooked   func(LookEvent)        // the lease taker has read the table

	FailoverDiffers func(FailoverEvent) // another worker has another FailoverTime; once for each such worker
	StreamAdded     func(StreamEvent)   // of several streams: one is to be read that this worker was not told of before
	StreamFaulty    func(StreamEvent)   // one that the StreamTracker names is not read, since its configuration has a fault, which Err says; once a fault
	StreamRemoved   func(StreamEvent)   // one that was to be read is not any more; FormerStreams says what becomes of its leases
}

// WorkerEvent is about this worker.
type WorkerEvent struct {
	Worker string
	Err    error // of WorkerStopped: what Run returns
}

// LeaseEvent is about one lease.
type LeaseEvent struct {
	Worker   string
	LeaseKey string
	Counter  int64         // after the event
	Token    int64         // fencing token of this worker's tenure, if it has one
	From     string        // of LeaseTaken: the previous owner, empty if there was none
	To       string        // of LeaseReleased: the worker that had asked for it and got it, empty if it is free
	Elapsed  time.Duration // of LeaseRenewed: how long the write took
	Reason   string        // of LeaseDeleted
	Err      error
}

// CheckpointEvent is about one checkpoint.
type CheckpointEvent struct {
	Worker, LeaseKey  string
	SequenceNumber    string
	SubSequenceNumber int64
	Pending           bool // first half of a two-phase checkpoint
	Elapsed           time.Duration
	Err               error
}

// FetchEvent is about one read from the stream.
type FetchEvent struct {
	Worker, LeaseKey   string
	Records            int
	Bytes              int
	MillisBehindLatest int64
	Elapsed            time.Duration
	Err                error
}

// SubscribeEvent is about one subscription to a shard by enhanced fan-out. Its events are told by Fetched, how it breaks by
// Retried; if it ends in its time, the next one is opened without a word.
type SubscribeEvent struct {
	Worker, LeaseKey string
	Consumer         string // ARN
	Position         string // where it starts, as AFTER_SEQUENCE_NUMBER
	SequenceNumber   string // empty unless Position needs one
	Elapsed          time.Duration
	Err              error
}

// TrimmedEvent is about a gap: the position from which a shard was to be read on is older than what the stream keeps. Whether there
// were records between it and the first one that there is, nobody can tell any more; in a shard in which nothing happened for the
// whole retention period there were none. It is told once for each time that the shard is opened for reading, before anything is handed
// over that comes after the gap.
type TrimmedEvent struct {
	Worker, LeaseKey string
	Stream, ShardID  string
	// Position is the record that was handled, or read, last, as 4957…/3 if it is the fourth of an aggregate. Of a shard that is
	// gone it may also be TRIM_HORIZON, LATEST or AT_TIMESTAMP.
	Position     string
	First        string    // sequence number of the first record that there is; empty if Gone, or if the shard has ended without one
	FirstArrival time.Time // when that one came into the stream: what is lost came before; zero if not known
	Gone         bool      // the whole shard left the stream before it was read to its end
	Failed       bool      // Retrieval.OnTrimmed is FailRun: nothing is skipped, Run ends
}

// DeaggregateEvent is about the KPL aggregates that one read brought. Those that the checkpoint covers are counted too.
type DeaggregateEvent struct {
	Worker, LeaseKey string
	Aggregates       int // taken apart
	Users            int // user records in them
	// Outside are user records in them that were left out, because their keys are another shard's: a producer packed them by
	// shards that have been split or merged since. The KPL notices and sends them again.
	Outside int
	Damaged int   // records that begin like an aggregate and are none; they are handed over as they came, with Record.Err
	Err     error // of the first of those
}

// BatchEvent is about one call of ProcessRecords.
type BatchEvent struct {
	Worker, LeaseKey   string
	Records            int
	MillisBehindLatest int64
	Elapsed            time.Duration
	Err                error
}

// RetryEvent is about something that failed and will be tried again.
type RetryEvent struct {
	Worker, LeaseKey string // LeaseKey is empty if no single lease is concerned
	What             string // what was being done, as "list leases", "initialize", "process records"
	Attempt          int    // how often it has failed in a row, from 1
	Wait             time.Duration
	Err              error
}

// PanicEvent is about a panic of user code.
type PanicEvent struct {
	Worker, LeaseKey string
	What             string // the method that panicked
	Value            any
	Stack            []byte
}

// SyncEvent is about one comparison of shards and leases.
type SyncEvent struct {
	Worker, Stream string
	Shards         int // listed
	Leases         int // found in the table
	Created        int
	Elapsed        time.Duration
	Err            error
	// Attempt counts the leader's audits that failed in a row, from 1 on; 0 if this one did not, and when a worker starts.
	Attempt int
}

// StreamEvent is about one of several streams.
type StreamEvent struct {
	Worker     string
	Stream     string // its name; of one without a name its ARN
	Identifier string // account:name:epoch, with which the keys of its leases begin; empty if this worker was not told and has not asked
	Err        error  // of StreamFaulty: what is wrong with its configuration
}

// StateEvent is about one consumer.
type StateEvent struct {
	Worker, LeaseKey string
	From, To         string
}

// FailoverEvent is about another worker whose FailoverTime (KCL: failoverTimeMillis) is not this one's. Go workers bear that; of
// a Java and a Go worker one takes the other's leases while that lives.
type FailoverEvent struct {
	Worker string
	Peer   string        // the other worker
	Java   bool          // it is one of the Java KCL
	Own    time.Duration // this worker's
	Peers  time.Duration // the other one's; of a Java worker an estimate, from how often it renews
}

// LookEvent is about one look at the lease table.
type LookEvent struct {
	Worker  string
	Leases  int // rows seen
	Workers int // live workers seen, this one included
	Held    int // leases this worker holds
	Target  int // leases this worker should hold
	// Unassigned are leases that nobody reads and that no live worker may take, since all hold MaxLeasesForWorker. More workers,
	// or a larger limit, are needed.
	Unassigned int
	Elapsed    time.Duration
	Err        error
}
