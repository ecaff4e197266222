package processor

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

// event is what happened to a consumer; its name labels the arrows of the drawing in doc.go.
type event int

const (
	again            event = iota // nothing was called, or it must be tried again: stay
	alreadyEnded                  // the stored checkpoint was SHARD_END at the start
	parentsEnded                  // every parent is read to its end, or there is none
	initializeFailed              // Initialize was called, in vain
	initialized                   // Initialize returned nil
	batchDone                     // a batch was handled, and the shard goes on
	lastBatchDone                 // the last batch was handled
	sourceFailed                  // reading failed for good
	notified                      // the user's ShutdownRequested returned
	endRecorded                   // the children have their leases
	endFailed                     // the children's leases, or ShardEnded, failed
	shardEnded                    // the checkpoint is SHARD_END
	left                          // LeaseLost returned, or nothing was to be called
	stopRequested                 // from outside: give the lease up
	aborted                       // from outside: the time to stop gracefully is over
	leaseLost                     // from outside

	events = iota
)

var eventNames = [events]string{
	"again", "already ended", "parents ended", "initialize failed", "initialized", "batch done",
	"last batch done", "source failed", "notified", "end recorded", "end failed", "shard ended", "left", "stop requested",
	"aborted", "lease lost",
}

func (e event) String() string { return eventNames[e] }

// action is what a consumer does next.
type action int

const (
	none           action = iota // it is done
	awaitParents                 // ask whether the parents have ended, waiting between questions
	initialize                   // make the processor if there is none, call Initialize
	process                      // fetch a batch if there is none in hand, call ProcessRecords
	notify                       // call ShutdownRequested
	recordEnd                    // create the children's leases
	callShardEnded               // call ShardEnded until the checkpoint is SHARD_END
	callLeaseLost                // call LeaseLost
	leave                        // call nothing
)

var actionNames = [...]string{
	"none", "await parents", "initialize", "process", "notify", "record end", "call ShardEnded",
	"call LeaseLost", "leave",
}

func (a action) String() string { return actionNames[a] }

// phase is all that the next step depends on.
type phase struct {
	State  State
	Reason Reason
	// began: Initialize was called at least once, so there is a processor that may hold something. It decides only
	// whether LeaseLost is called for a lease that is lost before Initialize succeeded.
	began bool
	// stopping: a stop was requested. While the end of the shard is recorded it changes nothing until a try fails; then
	// there is no second one.
	stopping bool
	last     action // what remains to be done in ShuttingDown
}

// action is what to do in this phase. It depends on nothing else, so every phase can be taken up again after a pause.
func (p phase) action() action {
	switch p.State {
	case WaitingOnParents:
		return awaitParents
	case Initializing:
		return initialize
	case Processing:
		return process
	case ShutdownRequested:
		return notify
	case ShuttingDown:
		return p.last
	case Done:
	}
	return none
}

// next is the consumer's state machine. An event that cannot happen in a phase leaves it unchanged.
func next(p phase, e event) (phase, action) {
	p = p.after(e)
	return p, p.action()
}

func (p phase) after(e event) phase {
	switch {
	case e == leaseLost:
		return p.afterLeaseLost()
	case e == aborted:
		return p.afterAbort()
	case e == stopRequested:
		return p.afterStopRequest()
	case p.State == ShuttingDown:
		return p.afterLastStep(e)

	case p.State == WaitingOnParents && e == alreadyEnded:
		return p.shutDown(ShardEnd, leave)
	case p.State == WaitingOnParents && e == parentsEnded:
		p.State = Initializing
	case p.State == Initializing && e == initializeFailed:
		p.began = true
	case p.State == Initializing && e == initialized:
		p.State, p.began = Processing, true
	case p.State == Processing && e == lastBatchDone:
		return p.shutDown(ShardEnd, recordEnd)
	case p.State == Processing && e == sourceFailed:
		// The lease is still held: as good a moment to checkpoint as a requested stop.
		p.State, p.Reason, p.stopping = ShutdownRequested, Requested, true
	case p.State == ShutdownRequested && e == notified:
		return p.shutDown(p.Reason, leave)
	}
	return p
}

// afterLastStep is the part of next that concerns ShuttingDown.
func (p phase) afterLastStep(e event) phase {
	switch {
	case p.last == recordEnd && e == endRecorded:
		p.last = callShardEnded
	case p.last == recordEnd && e == endFailed && p.stopping:
		// ShardEnded was not called, so the processor can still checkpoint what it handled. Whoever gets the lease next
		// finds the end of the shard again.
		p.State, p.last = ShutdownRequested, none
	case p.last == callShardEnded && e == endFailed && p.stopping:
		p.last = callLeaseLost
	case p.last == callShardEnded && e == shardEnded,
		(p.last == callLeaseLost || p.last == leave) && e == left:
		p.State = Done
	}
	return p
}

// afterLeaseLost: whatever was going on, all that remains is to tell the processor, if it was ever called.
func (p phase) afterLeaseLost() phase {
	if p.leaving() {
		return p
	}
	if p.began {
		return p.shutDown(LeaseLost, callLeaseLost)
	}
	return p.shutDown(LeaseLost, leave)
}

// afterAbort: for the processor, the end of the grace period is a lost lease. The reason stays what it was, since the lease
// itself is still held and should be released.
func (p phase) afterAbort() phase {
	if p.leaving() {
		return p
	}
	p.stopping = true
	if p.State > Initializing {
		return p.shutDown(max(p.Reason, Requested), callLeaseLost)
	}
	return p.shutDown(Requested, leave)
}

func (p phase) afterStopRequest() phase {
	if p.leaving() {
		return p
	}
	p.stopping = true
	switch {
	case p.State < Processing:
		return p.shutDown(Requested, leave)
	case p.State == Processing:
		p.State, p.Reason = ShutdownRequested, Requested
	}
	return p
}

// leaving reports whether no reason can change anything any more: the last call, if there is one, is decided.
func (p phase) leaving() bool {
	return p.State == Done || p.State == ShuttingDown && (p.last == callLeaseLost || p.last == leave)
}

func (p phase) shutDown(why Reason, last action) phase {
	p.State, p.Reason, p.last = ShuttingDown, why, last
	return p
}
