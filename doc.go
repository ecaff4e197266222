// Package shardlease lets a fleet of Go processes share the reading of a Kinesis stream.
//
// Each shard has one lease, a row in a DynamoDB table. Whoever holds the lease reads the shard, hands its records to the
// user's processor.RecordProcessor, and writes how far it got into the same row. Workers never talk to each other. The rows
// are those of the Kinesis Client Library (KCL) for Java in its 2.x mode, so Java and Go workers can share a table.
//
// A worker is made with [New] and run with [Worker.Run]:
//
//	w, err := shardlease.New(config.Default("orders-audit", "orders"), cloud,
//		processor.Each(func(ctx context.Context, r processor.Record) error {
//			fmt.Printf("%s %s\n", r.PartitionKey, r.Data)
//			return nil
//		}))
//
// [WithSource] has it read the stream of a DynamoDB table instead.
//
// Package config holds what can be set, package processor what a program implements, package checkpoint how it says how
// far it got, and package emulator a Kinesis and DynamoDB in this process to test against.
package shardlease
