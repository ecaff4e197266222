package leases

import "time"

// A row that was deleted must not be made again: its counter would begin anew, and its shard would be read twice. That no row is
// there is all that the creation of one can be conditioned on. So whoever decides to create rows and whoever deletes them keep to
// times, each by its own clock:
//
//  1. A decision to create a row rests on something that holds only before the row's shard is finished: the row was missing, or its
//     parent was not finished. It is carried out within DecisionLife from then, or not at all.
//  2. A request takes effect within RequestLife after its sender has stopped waiting for it, or never. This is an assumption: the
//     network, and a service that is overloaded, must not keep a request for longer.
//  3. A finished row stays for config.LeaseCleanupConfig.KeepFinished after whoever deletes it has seen it finished: as long as both
//     together, by clocks of which one may be too slow and another too fast (2.5 %). Then every request to create it has landed, and
//     failed on it, or never will.
const (
	DecisionLife = 15 * time.Second
	RequestLife  = 30 * time.Second
)
