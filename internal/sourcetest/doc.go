// Package sourcetest answers whether a server behaves as Kinesis does, in everything that reading a stream through
// leases relies on: one suite for the emulator and for foreign servers.
//
// A server that lacks something declares it in [Features]; the suite then logs "declared missing: …" for each case that
// it leaves out, so that a gap is on record instead of silently green.
package sourcetest
