// Package sim answers whether a fleet keeps its promises whatever happens to it.
//
// A [Schedule] is drawn from a seed: how large the fleet is, how its processors behave, and what befalls it and when. [Run]
// lives through it in a testing/synctest bubble, with real workers, the real SDK and one emulator, each worker by a clock of
// its own: a crash, a pause, a network that loses, delays and repeats, a table that is away, reshards, deployments, user
// code that fails. Then everything is mended, and the fleet has a bounded time to be as if nothing had happened. One schedule in
// five is of workers of two or three streams, and in one in five some or all read by enhanced fan-out (fanout.go). One in
// eight is of workers that read the stream of a DynamoDB table (tablestream.go).
//
// What is judged, and by what:
//
//   - every write to the lease table, as the emulator applied it, by the rules of a row (rows.go): fencing, checkpoints that
//     neither go back nor run ahead of what was handled, deletions, hash keys without a lease;
//   - every call of user code (deliveries.go): loss, order of keys, order across reshards, two owners at once, calls after
//     the end;
//   - what retention takes before it was read (trimmed.go): told, and nothing else told;
//   - what workers were answered (register.go): linearizable as a register, lost replies included;
//   - the end of the schedule (settle.go): everything delivered, shared evenly, quiet and frugal, cleaned up, stopped, nothing leaked.
//
// Applications start at TRIM_HORIZON, and each third at LATEST or AT_TIMESTAMP. What is not simulated: Java workers (internal/leasetest
// has them), KPL aggregates, tables so large that nobody looks at all of them, networks that keep a request for
// longer than ten seconds, and clocks beyond what docs/guarantees.md assumes together with requests that come so late.
//
// Goroutines of a bubble run in any order, so a seed fixes what happens to the fleet and when, not every interleaving: a replay
// and each step of shrinking run a schedule several times.
package sim
