// Package leasetest answers whether a DynamoDB server keeps the promises that leases.Table builds on, and whether the table
// keeps its own on that server. [Run] is the suite; it runs against the emulator with every go test, and against any other
// server when SHARDLEASE_DYNAMODB_ENDPOINT says where that is (see the test of this package).
//
// What a server cannot do is declared in [Features] and checked as declared: a missing feature is logged and the way around it
// is tested in its place, and one that turns out to work fails the suite until the declaration says so.
package leasetest
