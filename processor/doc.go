// Package processor answers what a program sees of a shard, and what the life of one shard's consumer is.
//
// A program that handles records one at a time needs only [Each]. One that wants batches embeds [Base] and writes
// ProcessRecords. One that keeps state of its own implements the whole of [RecordProcessor].
//
// # What is called, and when
//
// For every lease that this worker gets, the [Factory] makes one processor. Its methods are called one at a time, not
// always on the same goroutine (an idle shard has none), in this order:
//
//	Initialize          once it returned nil, never again; after an error again, on the same processor
//	ProcessRecords      any number of times
//	ShutdownRequested   at most once: no more records come, as the lease will be given up or the stream is gone; checkpoint now
//	LeaseLost           at most once, and last: the shard may be another worker's already
//	ShardEnded          last, if it checkpoints: the shard has no more records and all of them are handled
//
// A processor whose Initialize returned nil learns how its tenure ends, by exactly one of: ShutdownRequested alone, LeaseLost
// (also after a ShutdownRequested during which the lease was lost, or a ShardEnded that did not checkpoint), or a ShardEnded
// that checkpointed. It learns nothing only if the process dies. A processor whose Initialize never returned nil may get
// LeaseLost, nothing else; if Initialize was not called at all, nothing is.
//
// Records come in the order of the shard, without gaps, from the stored checkpoint on. The same record may come again: to the
// next owner, for everything after the last checkpoint, and in a repeated batch.
//
// A batch without records is not handed over, unless CallProcessRecordsEvenForEmptyRecordList is set; the last batch of a
// shard never is if it has none.
//
// # Errors and panics
//
// An error is retried with the same arguments after a pause, which starts at TaskBackoff, doubles up to MaxTaskBackoff and is
// jittered: Initialize until it succeeds, ProcessRecords with the same records until it succeeds, ShardEnded until the
// checkpoint is SHARD_END. Nothing is skipped: one record that can never be handled stops its shard (and no other) until the
// program decides to return nil for it. ShutdownRequested is not repeated; its error is part of what Run of the worker
// returns. Each repetition is told by config.Hooks.Retried.
//
// A panic in a method, or in the Factory, is told by config.Hooks.Panicked with its stack and then treated as an error of
// that call. The processor goes on being used: whatever its state was when it panicked, the next call finds it. What cannot
// be caught is runtime.Goexit (and so testing.T.FailNow): it ends the processor, and after a pause like those above a new one
// goes on from the checkpoint.
//
// # Checkpoints
//
// The library never checkpoints by itself. Checkpoint covers every batch whose ProcessRecords returned nil and, while
// ProcessRecords runs, the batch in hand. After an error or a panic it covers only the batches before. The Checkpointer may
// be kept and used from other goroutines; a processor that names a place in the middle of a batch by CheckpointAt, and then
// fails, gets the whole batch again, and may name the places before that one again, which writes nothing; once the tenure is over, however
// it ended, and no method but LeaseLost runs, each call fails with checkpoint.ErrLeaseLost. While a method still runs after the lease was
// lost, each write fails so; a call that has nothing to write, as CheckpointAt of the place that is durable already, or Flush, returns nil.
//
// ShardEnded must checkpoint, else the shard's children never start; before it is called their leases were created. If a
// stop was requested meanwhile, each of these two steps is tried once, and the next owner repeats what failed.
//
// What an earlier owner prepared and did not commit is in InitializationInput.Pending; Initialize may commit it, and reading
// then starts behind it.
//
// # Contexts
//
// The context of a method is done when the lease is lost (cause: checkpoint.ErrLeaseLost, with the reason), when
// ShutdownGrace is over, or, of a shard that another worker has asked for, shortly before GracefulHandoffTimeout is. It is not
// done when a stop is requested or a lease asked for: the batch in hand may be finished. LeaseLost is the
// exception: what the others had is done by then, so it gets a live context with 5 s to go.
//
// A method should return soon after its context is done. Until it does nothing else is called, and the shard's other owner
// may be working already: what the method still writes elsewhere should carry Grant.Token, so that the sink can refuse it.
// A method that never returns cannot be ended; it is warned about, and when the grace is over the worker's Run returns
// without it, with an error that names the shard and the method. Its goroutine stays behind.
//
// # The consumer's states
//
// A stop has a [Reason]; one of higher rank replaces one of lower: Requested, ShardEnd, LeaseLost. It is honoured in every
// state, also while parents are awaited and while something is retried.
//
//	stateDiagram-v2
//	%% shard consumer
//	[*] --> WaitingOnParents
//	WaitingOnParents --> Initializing: parents ended
//	WaitingOnParents --> ShuttingDown: already ended
//	WaitingOnParents --> ShuttingDown: stop requested
//	WaitingOnParents --> ShuttingDown: aborted
//	WaitingOnParents --> ShuttingDown: lease lost
//	Initializing --> Processing: initialized
//	Initializing --> ShuttingDown: stop requested
//	Initializing --> ShuttingDown: aborted
//	Initializing --> ShuttingDown: lease lost
//	Processing --> ShutdownRequested: stop requested
//	Processing --> ShutdownRequested: source failed
//	Processing --> ShuttingDown: last batch done
//	Processing --> ShuttingDown: aborted
//	Processing --> ShuttingDown: lease lost
//	ShutdownRequested --> ShuttingDown: notified
//	ShutdownRequested --> ShuttingDown: aborted
//	ShutdownRequested --> ShuttingDown: lease lost
//	ShuttingDown --> ShutdownRequested: end failed
//	ShuttingDown --> Done: shard ended
//	ShuttingDown --> Done: left
//	Done --> [*]
//
// "aborted" is the end of ShutdownGrace. "end failed" leads back only if a stop was requested and ShardEnded was not called
// yet: then the processor can still checkpoint what it handled.
package processor
