// Package examples holds programs that use shardlease as its users do: from a module of their own, so that what they need
// (a database driver) comes to no user of the library.
//
//   - fencedsql fences the tables of an SQL database with the token of the lease
//   - fencedobject fences an object of an S3-like store with the token and the store's conditional put
//
// Each runs against the emulator, stops one of two workers at the worst moment, and shows what becomes of its late write.
// docs/fencing.md explains them.
package examples
