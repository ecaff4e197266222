package demo

import "time"

// kind says what a report is about.
type kind string

const (
	ready    kind = "ready"    // the worker has looked at the lease table for the first time
	taken    kind = "taken"    // the worker holds a lease: the table says so
	started  kind = "started"  // the shard's processor was initialised
	batch    kind = "batch"    // records were delivered
	lost     kind = "lost"     // a lease was lost
	released kind = "released" // a lease was given up
	ended    kind = "ended"    // a shard was read to its end
	exited   kind = "exited"   // made by the parent: the process is gone
)

// report is one line of a worker's standard output.
type report struct {
	Kind    kind     `json:"kind"`
	Shard   string   `json:"shard,omitempty"`
	Token   int64    `json:"token,omitempty"`   // fencing token of the tenure: started, batch
	From    string   `json:"from,omitempty"`    // previous owner: taken
	Keys    []string `json:"keys,omitempty"`    // of a batch's records, in their order
	Numbers []int64  `json:"numbers,omitempty"` // of a batch's records, in their order
	Err     string   `json:"err,omitempty"`     // of lost, exited
}

// arrival is a report as the parent got it. Times are the parent's: readings of one clock, since the start of the demo.
type arrival struct {
	report
	worker string
	at     time.Duration
}
