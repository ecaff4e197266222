// Command matrix answers which server can do what: it runs the suites of both seams (internal/leasetest, internal/sourcetest) and the
// audited fleet (TestFleet of integration) against servers that are running, compares what was seen with what is recorded in
// integration/matrix/results, and fails when that differs. With -update it records instead, and rewrites the tables of
// docs/compatibility.md, which a test of this package holds to the records.
//
//	go run ./integration/matrix dynalite@4.0.0=http://127.0.0.1:8000 kinesis-local@0.6.2=http://127.0.0.1:4567 emulator
//
// integration/conformance.sh starts the servers and calls it.
package main
