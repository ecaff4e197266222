// Package zombie answers what a sink does with the write of a worker that was stopped at the worst moment: after its last look
// at the lease, before its write. [Run] plays that with two workers over the emulator.
package zombie
