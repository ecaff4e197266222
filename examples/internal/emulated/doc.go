// Package emulated answers whether an example does what its first lines say, run as a user runs it: a program of its own against
// "shardlease emulator", another one.
package emulated
