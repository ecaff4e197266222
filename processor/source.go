package processor

import "context"

// RecordSource delivers one shard's records in order. It belongs to one consumer, which calls Next from one goroutine at a time.
// (KCL: RecordsPublisher)
type RecordSource interface {
	// Next returns the next batch. It blocks until there are records, until the shard has ended, or, when nothing
	// comes, until the source has something to say of its lag (a batch without records). Transient faults are retried
	// inside; an error is either the context's cause or final for this tenure.
	Next(ctx context.Context) (Batch, error)
	// Close ends the source's goroutines and waits for them.
	Close()
}

// Announcer is what a RecordSource may be beside: one for which nobody has to wait.
type Announcer interface {
	// Await reports whether Next would return at once. If not, ready is called as soon as it would: once, from any goroutine, and
	// not after Close. A later call of Await replaces what an earlier one was given. ready does not block.
	Await(ready func()) bool
	// Stop says, from any goroutine, that no more records are wanted, as the end of the context does that Open was given. It does
	// not block.
	Stop()
}

// Batch is what a RecordSource delivers at once.
type Batch struct {
	Records            []Record
	MillisBehindLatest int64
	End                *End   // not nil with the last batch of a shard
	Release            func() // gives the batch's share of the byte budget back; never nil; called once, when it was handled
}

// End says that a shard has no more records.
type End struct {
	Children []ChildShard // empty only if the service confirmed that the shard is closed, or gone, and names none
	Gone     bool         // the service knows the shard no longer
}

// ChildShard is a shard that follows one or two others.
type ChildShard struct {
	ID                             string
	ParentIDs                      []string
	StartingHashKey, EndingHashKey string // decimal
}
