package shardsync

import (
	"errors"
	"fmt"
)

// What listing a stream's shards may fail with for good. A [ShardDetector] wraps them in a [*PermanentError].
var (
	// ErrStreamNotFound: the service knows no stream of this name, in this account and region.
	ErrStreamNotFound = errors.New("stream not found")
	// ErrStreamDeleting: the stream is being deleted.
	ErrStreamDeleting = errors.New("stream is being deleted")
	// ErrNotAllowed: the credentials are refused, or lack a permission.
	ErrNotAllowed = errors.New("not allowed")
)

// ErrInconsistent means that a listing of shards contradicts itself or has gaps, as it does for moments while a stream is
// resharded. Nothing was created because of it; list again, later.
var ErrInconsistent = errors.New("shard list is inconsistent")

// ErrOtherParentUnread means that a merged shard has ended, and that its child must wait: the other parent has no lease yet,
// but will get one, because a lease of one of its ancestors is not finished. A lease of the child made now would be read
// before the other parent. It may take as long as that lineage lags; try again later and keep the lease meanwhile.
var ErrOtherParentUnread = errors.New("the other parent of a merge has not been reached")

// PermanentError is a refusal that repeating does not cure. The message says what to do.
type PermanentError struct {
	Doing  string // what was being done, and to what
	Advice string
	Err    error
}

func (e *PermanentError) Error() string {
	if e.Advice == "" {
		return fmt.Sprintf("%s: %v", e.Doing, e.Err)
	}
	return fmt.Sprintf("%s: %v; %s", e.Doing, e.Err, e.Advice)
}

func (e *PermanentError) Unwrap() error { return e.Err }
