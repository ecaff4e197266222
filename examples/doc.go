// Package examples holds programs that use shardlease as its users do: from a module of their own, so that what they need
// (a database driver) comes to no user of the library.
//
//   - fencedsql fences the tables of an SQL database with the token of the lease
//   - fencedobject fences an object of an S3-like store with the token and the store's conditional put
//   - multistream reads several Kinesis streams as one application
//   - tablestream reads what happens to the items of a DynamoDB table
//
// Those that fence run against an emulator of their own, stop one of two workers at the worst moment, and show what becomes of its late write;
// docs/fencing.md explains them. Those that read run until they are interrupted, against "shardlease emulator" or AWS; docs/multi-stream.md and
// docs/dynamodb-streams.md have the commands, and their tests give them, as programs, to the emulator, which is another one.
package examples
