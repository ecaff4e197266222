// Package states answers what a shard's consumer does next: its state machine, by itself. It is pure, so that package processor runs
// it, and the core of the protocol (leases/core_test.go) lives through it without a goroutine.
package states

import "fmt"

// State is where a shard's consumer stands. (KCL: ConsumerStates)
type State int

// The states of a consumer, in their usual order. ShutdownRequested is skipped unless the consumer is asked to stop.
const (
	WaitingOnParents  State = iota // the shard's parents are not read to their end
	Initializing                   // the processor is made and Initialize is called until it returns nil
	Processing                     // records are read and handed over
	ShutdownRequested              // the processor is told to checkpoint, because the lease will be given up
	ShuttingDown                   // the end of the shard is recorded, or the processor is told that the lease is lost
	Done                           // nothing will be called any more
)

var stateNames = [...]string{"WaitingOnParents", "Initializing", "Processing", "ShutdownRequested", "ShuttingDown", "Done"}

func (s State) String() string {
	if s < 0 || int(s) >= len(stateNames) {
		return fmt.Sprintf("State(%d)", int(s))
	}
	return stateNames[s]
}

// Reason is why a consumer stops. A reason gives way only to one of higher rank: the end of a shard is recorded although a
// stop was requested, and nothing is recorded once the lease is lost. (KCL: ShutdownReason)
type Reason int

// The reasons, by rank. The zero Reason means that the consumer is not stopping.
const (
	Requested Reason = iota + 1 // this worker gives the lease up, or cannot go on reading
	ShardEnd                    // the shard has no more records
	LeaseLost                   // another worker may own the shard
)

func (r Reason) String() string {
	switch r {
	case 0:
		return "none"
	case Requested:
		return "Requested"
	case ShardEnd:
		return "ShardEnd"
	case LeaseLost:
		return "LeaseLost"
	}
	return fmt.Sprintf("Reason(%d)", int(r))
}

// Event is what happened to a consumer; its name labels the arrows of the drawing in processor/doc.go.
type Event int

// What may happen.
const (
	Again            Event = iota // nothing was called, or it must be tried again: stay
	AlreadyEnded                  // the stored checkpoint was SHARD_END at the start
	ParentsEnded                  // every parent is read to its end, or there is none
	InitializeFailed              // Initialize was called, in vain
	Initialized                   // Initialize returned nil
	BatchDone                     // a batch was handled, and the shard goes on
	LastBatchDone                 // the last batch was handled
	SourceFailed                  // reading failed for good
	Notified                      // the user's ShutdownRequested returned
	EndRecorded                   // the children have their leases
	EndFailed                     // the children's leases, or ShardEnded, failed
	ShardEnded                    // the checkpoint is SHARD_END
	Left                          // LeaseLost returned, or nothing was to be called
	StopRequested                 // from outside: give the lease up
	Aborted                       // from outside: the time to stop gracefully is over
	LeaseIsLost                   // from outside

	Events = iota // how many there are
)

var eventNames = [Events]string{
	"again", "already ended", "parents ended", "initialize failed", "initialized", "batch done",
	"last batch done", "source failed", "notified", "end recorded", "end failed", "shard ended", "left", "stop requested",
	"aborted", "lease lost",
}

// String is the event as the drawing calls it.
func (e Event) String() string { return eventNames[e] }

// Action is what a consumer does next.
type Action int

// What may be done.
const (
	None           Action = iota // it is done
	AwaitParents                 // ask whether the parents have ended, waiting between questions
	Initialize                   // make the processor if there is none, call Initialize
	Process                      // fetch a batch if there is none in hand, call ProcessRecords
	Notify                       // call ShutdownRequested
	RecordEnd                    // create the children's leases
	CallShardEnded               // call ShardEnded until the checkpoint is SHARD_END
	CallLeaseLost                // call LeaseLost
	Leave                        // call nothing
)

var actionNames = [...]string{
	"none", "await parents", "initialize", "process", "notify", "record end", "call ShardEnded",
	"call LeaseLost", "leave",
}

func (a Action) String() string { return actionNames[a] }

// Phase is all that the next step depends on.
type Phase struct {
	State  State
	Reason Reason
	// Began: Initialize was called at least once, so there is a processor that may hold something. It decides only
	// whether LeaseLost is called for a lease that is lost before Initialize succeeded.
	Began bool
	// Stopping: a stop was requested. While the end of the shard is recorded it changes nothing until a try fails; then
	// there is no second one.
	Stopping bool
	last     Action // what remains to be done in ShuttingDown
}

// Action is what to do in this phase. It depends on nothing else, so every phase can be taken up again after a pause.
func (p Phase) Action() Action {
	switch p.State {
	case WaitingOnParents:
		return AwaitParents
	case Initializing:
		return Initialize
	case Processing:
		return Process
	case ShutdownRequested:
		return Notify
	case ShuttingDown:
		return p.last
	case Done:
	}
	return None
}

// Next is the consumer's state machine. An event that cannot happen in a phase leaves it unchanged.
func Next(p Phase, e Event) (Phase, Action) {
	p = p.after(e)
	return p, p.Action()
}

func (p Phase) after(e Event) Phase {
	switch {
	case e == LeaseIsLost:
		return p.afterLeaseLost()
	case e == Aborted:
		return p.afterAbort()
	case e == StopRequested:
		return p.afterStopRequest()
	case p.State == ShuttingDown:
		return p.afterLastStep(e)

	case p.State == WaitingOnParents && e == AlreadyEnded:
		return p.shutDown(ShardEnd, Leave)
	case p.State == WaitingOnParents && e == ParentsEnded:
		p.State = Initializing
	case p.State == Initializing && e == InitializeFailed:
		p.Began = true
	case p.State == Initializing && e == Initialized:
		p.State, p.Began = Processing, true
	case p.State == Processing && e == LastBatchDone:
		return p.shutDown(ShardEnd, RecordEnd)
	case p.State == Processing && e == SourceFailed:
		// The lease is still held: as good a moment to checkpoint as a requested stop.
		p.State, p.Reason, p.Stopping = ShutdownRequested, Requested, true
	case p.State == ShutdownRequested && e == Notified:
		return p.shutDown(p.Reason, Leave)
	}
	return p
}

// afterLastStep is the part of Next that concerns ShuttingDown.
func (p Phase) afterLastStep(e Event) Phase {
	switch {
	case p.last == RecordEnd && e == EndRecorded:
		p.last = CallShardEnded
	case p.last == RecordEnd && e == EndFailed && p.Stopping:
		// ShardEnded was not called, so the processor can still checkpoint what it handled. Whoever gets the lease next
		// finds the end of the shard again.
		p.State, p.last = ShutdownRequested, None
	case p.last == CallShardEnded && e == EndFailed && p.Stopping:
		p.last = CallLeaseLost
	case p.last == CallShardEnded && e == ShardEnded,
		(p.last == CallLeaseLost || p.last == Leave) && e == Left:
		p.State = Done
	}
	return p
}

// afterLeaseLost: whatever was going on, all that remains is to tell the processor, if it was ever called.
func (p Phase) afterLeaseLost() Phase {
	if p.Leaving() {
		return p
	}
	if p.Began {
		return p.shutDown(LeaseLost, CallLeaseLost)
	}
	return p.shutDown(LeaseLost, Leave)
}

// afterAbort: for the processor, the end of the grace period is a lost lease. The reason stays what it was, since the lease
// itself is still held and should be released.
func (p Phase) afterAbort() Phase {
	if p.Leaving() {
		return p
	}
	p.Stopping = true
	if p.State > Initializing {
		return p.shutDown(max(p.Reason, Requested), CallLeaseLost)
	}
	return p.shutDown(Requested, Leave)
}

func (p Phase) afterStopRequest() Phase {
	if p.Leaving() {
		return p
	}
	p.Stopping = true
	switch {
	case p.State < Processing:
		return p.shutDown(Requested, Leave)
	case p.State == Processing:
		p.State, p.Reason = ShutdownRequested, Requested
	}
	return p
}

// Leaving reports whether no reason can change anything any more: the last call, if there is one, is decided.
func (p Phase) Leaving() bool {
	return p.State == Done || p.State == ShuttingDown && (p.last == CallLeaseLost || p.last == Leave)
}

func (p Phase) shutDown(why Reason, last Action) Phase {
	p.State, p.Reason, p.last = ShuttingDown, why, last
	return p
}
