package audit

import "time"

// Kind says what a report is about.
type Kind string

// The kinds of reports.
const (
	Ready    Kind = "ready"    // the worker has looked at the lease table for the first time
	Taken    Kind = "taken"    // the worker holds a lease: the table says so
	Started  Kind = "started"  // the shard's processor was initialised
	Batch    Kind = "batch"    // records were delivered
	Refused  Kind = "refused"  // the checkpoint of the last batch failed, so that the batch may come again in the same tenure
	Lost     Kind = "lost"     // a lease was lost
	Released Kind = "released" // a lease was given up
	Ended    Kind = "ended"    // a shard was read to its end
	Exited   Kind = "exited"   // made by the parent: the process is gone
)

// Report is one line of a worker's standard output.
type Report struct {
	Kind    Kind     `json:"kind"`
	Shard   string   `json:"shard,omitempty"`
	Token   int64    `json:"token,omitempty"`   // fencing token of the tenure: started, batch, refused
	From    string   `json:"from,omitempty"`    // previous owner: taken
	Keys    []string `json:"keys,omitempty"`    // of a batch's records, in their order
	Numbers []int64  `json:"numbers,omitempty"` // of a batch's records, in their order
	Err     string   `json:"err,omitempty"`     // of refused, lost, exited
}

// Arrival is a report as the parent got it. Times are the parent's: readings of one clock, since the start of the run.
type Arrival struct {
	Report
	Worker string
	At     time.Duration
}
