// Package sourcetest answers whether a server behaves as Kinesis does, or as DynamoDB Streams do, in everything that reading a stream through
// leases relies on: one suite for the emulator and for foreign servers.
//
// A server that lacks something declares it in [Features]; the suite then logs "declared missing: …" and expects the case
// to fail, so that a gap is on record instead of silently green, and so is its end. What each server has and lacks is told
// by attributes of the tests, "has" and "lacks", of which docs/compatibility.md is made.
package sourcetest
