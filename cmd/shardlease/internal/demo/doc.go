// Package demo answers whether a fleet of processes keeps its promises while everything happens to it that happens to
// fleets: shards split and merge, a process is killed, another is stopped, a new one joins.
//
// The parent process holds the emulator and the producer; each worker is a process of its own, which reports on its
// standard output, one JSON line a batch, before it checkpoints. What a worker reported counts as delivered, also if it was
// killed a moment later. At the end the rows of the lease table are compared with the open shards. The parent keeps the reports on a board, draws the screen from it, and audits them at the end.
package demo
