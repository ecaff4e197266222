// Package javakcl runs the Java KCL (amazon-kinesis-client 2.7.2 and 3.5.1) as it is: alone against the emulator, and beside Go
// workers on one lease table and stream; by polling, and by enhanced fan-out, as KCL reads unless told otherwise.
//
// Main.java and its neighbours are one worker program that Maven compiles against both versions (build.sh); it reports batches on
// its standard output as Go workers do here. Each test starts processes of both kinds, does to them what happens to fleets, and
// judges what they reported (internal/audit) and each write to the lease table in the order in which it took effect.
//
// The tests take minutes and a Java machine each, so that they run only when asked for: make java, make java-full.
package javakcl
