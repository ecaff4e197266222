// Package coordinator runs one worker: it wires lease taker, lease renewer, shard sync and consumers together, starts them
// in the right order, and stops them in the right order.
//
// [Scheduler.Run] is the whole life of a worker. Its states, and what leads from one to the next, are in this drawing; a
// test keeps it true:
//
//	stateDiagram-v2
//	%% worker
//	[*] --> New
//	New --> Starting: run
//	New --> Stopped: stop
//	Starting --> Running: started
//	Starting --> Draining: stop
//	Starting --> Draining: failed
//	Running --> Draining: stop
//	Running --> Draining: failed
//	Draining --> Releasing: drained
//	Releasing --> Stopped: released
//	Stopped --> [*]
//
// Starting makes the table usable, creates the first leases of an empty table, and regains what an earlier process with the
// same worker id held. In Running the taker looks for leases, the renewer keeps them, and every held lease has one consumer.
// Draining begins with the end of Run's context, with Shutdown, or with a fault that nothing can mend: nothing new is taken.
// Unless it is a fault, every lease says at once that this worker is leaving, and consumers go on until peers have asked for
// their leases; each is handed over by itself. What nobody asks for within 2.4 failover times, or within the grace, or if no Go worker
// is in sight, is not waited for: the consumer finishes its batch and lets its processor checkpoint, and its lease is released the
// moment it is done, so that a peer can go on with that shard while others still drain. Releasing gives up what is left. Leases are renewed until
// the last of them is given up.
//
// # Goroutines
//
// Run owns, and waits for: the renewer's loop, the taker's loop, the watch on the table's KCL mode, one goroutine for
// each lease with an unfinished shard in which something happens, and one for each hand-off under way. A consumer whose user code does not return, not even after its context has ended, is
// the one thing Run cannot wait for; it then returns an error that names the shard and the method.
package coordinator
