//go:build unix

// Command chaos answers whether a fleet of real worker processes keeps its promises over foreign servers while processes, network,
// servers and clocks fail.
//
// It starts dynalite (lease table) and kinesis-local (stream) and a worker process at each of its places. Between a place and each server
// stand two proxies: toxiproxy for what befalls networks, and one of ours that loses replies: the request is done, the answer does not
// come. A schedule that follows from -seed says what happens when. Meanwhile numbered records are put, straight to the server; at the end
// package audit judges what the workers reported, and every write of the lease table that the proxy has seen is looked at.
//
// integration/chaos.sh builds and runs it; docs/chaos.md says how to read what it prints.
package main
