package leases

import (
	"cmp"
	"fmt"
	"time"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/loop"
)

// operation names one call to the table, for errors and events.
type operation struct {
	what   string        // "renew lease", "list leases"
	key    string        // of the row, "" if no single one is concerned
	on     string        // what else it is about: a table
	action string        // of DynamoDB, as its permission is called
	limit  time.Duration // of one attempt
	rank   rank
	sent   *stamp // if not nil, becomes when the first attempt was sent that may have been applied
}

// attempts is how long one request may take, at a single row and at anything else.
//
// A lease lasts for FailoverTime and is renewed each third of it. An attempt that takes a sixth leaves room for another
// before the next renewal is due, and for five before the lease ends.
func attempts(cfg config.LeaseManagementConfig) (row, page time.Duration) {
	page = cfg.RequestTimeout
	if page <= 0 {
		page = defaultRequestTimeout
	}
	row = page
	if sixth := cfg.FailoverTime / 6; sixth > 0 {
		row = min(row, sixth)
	}
	return row, page
}

// pauses are those between the attempts of one call.
func (o operation) pauses() loop.Backoff {
	return loop.Backoff{Base: min(retryBase, o.limit), Max: min(retryMax, o.limit)}
}

// attempt is how long one attempt may take if the lease that the call is to keep ends after left: a request that hangs must leave
// time for others.
func (o operation) attempt(left time.Duration) time.Duration {
	return min(o.limit, max(2*retryBase, left/3))
}

// urgentOf is how long before a lease ends its requests wait for nobody: three or four attempts.
func urgentOf(cfg config.LeaseManagementConfig) time.Duration { return cfg.FailoverTime / 4 }

// hasten shortens a pause so that the rest of a lease's life, if the call is to keep one, has room for several more attempts.
func hasten(pause, left time.Duration) time.Duration {
	return min(pause, max(retryBase, left/8))
}

func (o operation) String() string {
	if object := cmp.Or(o.key, o.on); object != "" {
		return o.what + " " + object
	}
	return o.what
}

// ended is the error of a call that its context ended: nobody knows what became of it.
func (o operation) ended(cause error, tries int, last error) error {
	switch {
	case tries == 0:
		return fmt.Errorf("%s: not begun: %w", o, cause)
	case last == nil:
		return fmt.Errorf("%s: %w", o, cause)
	}
	return fmt.Errorf("%s: outcome unknown after %d attempts: %w; the last one: %w", o, tries, cause, last)
}

// lost is the error of a write whose condition failed on a row that is not ours.
func (o operation) lost(why string) error {
	return fmt.Errorf("%s: %w: %s", o, ErrLeaseLost, why)
}
