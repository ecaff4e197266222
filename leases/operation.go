package leases

import (
	"cmp"
	"fmt"
	"time"
)

// operation names one call to the table, for errors and events.
type operation struct {
	what   string // "renew lease", "list leases"
	key    string // of the row, "" if no single one is concerned
	on     string // what else it is about: a table
	action string // of DynamoDB, as its permission is called
	limit  time.Duration
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
