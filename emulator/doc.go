// Package emulator answers what Kinesis and DynamoDB would answer, in memory and in this process: for the demo,
// for examples, for this module's tests and for the tests of programs that use it.
//
//	server := emulator.New()
//	if err := server.CreateStream("orders", 4); err != nil { … }
//	worker, err := shardlease.New(config.Default("orders-audit", "orders"), server.AWSConfig(), factory)
//
// The streams of DynamoDB's tables (DynamoDB Streams) are there, too, on the same endpoint.
//
// [Server.AWSConfig] gives the real AWS SDK a client that reaches the server without a socket, so that a whole fleet
// runs inside a testing/synctest bubble, hours of lease traffic in seconds; [Server.Listen] offers the same on a port,
// for other processes. [Server.Inject] adds faults, [Server.Counts] tells what was asked and what it would have cost,
// and [Server.Observe] shows every request with its answer.
//
// What it does, it does as the services document it, errors included. What it does not know (an operation, a member of a
// request) it refuses with an error that names it: it never ignores a parameter in silence. The services' rate limits
// are off until [WithLimits].
//
// The server starts no goroutine of its own and holds nothing that must be closed, except the port of [Server.Listen].
package emulator
