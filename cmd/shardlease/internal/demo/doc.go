// Package demo answers whether a fleet of processes keeps its promises while everything happens to it that happens to
// fleets: shards split and merge, a process is killed, another is stopped, a new one joins.
//
// The parent process holds the emulator and the producer; each worker is a process of its own, whose reports (package audit) the
// parent keeps on a board, draws the screen from, and has judged at the end. Then, too, the rows of the lease table are compared with
// the open shards.
package demo
