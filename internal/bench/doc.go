// Command bench answers how much of a bare loop's speed is left when a worker reads, and how much memory a worker needs.
//
//	go run ./internal/bench                 # five rounds, some minutes on two cores
//	go run ./internal/bench -only 1KB -rounds 9
//	go run ./internal/bench -memory         # 1,000 shards that catch up; 10,000 idle ones
//
// # Speed
//
// The stream has 16 shards and lies in the emulator in this process, which the SDK calls without a socket. It is drained by
// a bare loop over GetRecords with a goroutine a shard, and by a whole worker that holds all leases, polls, and checkpoints
// each batch: in turns, in the same process, so that both find the same machine. A third contender sends the bare loop's
// requests once more and throws the answers away unread: what the server takes is in everybody's figures, and subtracting
// it leaves what a user's process does. Each contender hands every record to the same function, which adds up bytes.
//
// Figures are medians over the rounds; ratios are medians of the rounds' ratios. Records a second depend on what else the
// machine does; CPU time and allocations do so much less. Nothing here ever fails because of a figure: what was wanted, and
// whether it was reached, is printed.
//
// # Memory
//
// The program starts itself again as the worker, so that the server's memory is another process's. See memory.go.
package main
