// Package audit answers whether a fleet of worker processes kept its promises: nothing lost, each key in order, and a cause for
// whatever came twice.
//
// Each worker is a process whose processor is made by a [Reporter]: it reports on the process's standard output, one JSON line a batch,
// before it checkpoints. What was reported counts as delivered, also if the process was killed a moment later. The parent reads
// the lines as [Arrival] values, notes what it does to workers as [Fate] values, and has [Judge] compare them with what was produced.
// Records are numbers: the n-th record of a key carries n in decimal.
package audit
