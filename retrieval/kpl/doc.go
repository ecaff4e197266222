// Package kpl answers which user records a Kinesis record holds.
//
// The Kinesis Producer Library (KPL), and libraries that do as it does, pack many user records into one Kinesis record, an
// aggregate:
//
//	F3 89 9A C2 | protobuf message AggregatedRecord | MD5 sum of the message, 16 bytes
//
//	AggregatedRecord: 1 repeated string partition_key_table
//	                  2 repeated string explicit_hash_key_table
//	                  3 repeated Record records
//	Record:           1 required uint64 partition_key_index      into the table
//	                  2 optional uint64 explicit_hash_key_index  into the table
//	                  3 required bytes  data
//	                  4 repeated Tag    tags                     ignored
//
// [Expand] takes the aggregates of a page apart, [Aggregate] makes one.
//
// User records that belong to another shard are left out, one by one: a producer that has not heard of a reshard yet packs
// by the old shards, and whoever owns the right shard gets nothing of it. (KCL drops the whole aggregate from the first such
// record on, with records that are this shard's: nobody ever sees them.)
//
// What begins like an aggregate and is none is handed over as it came, with processor.Record.Err saying why. (KCL hands over
// a wrong sum without a word, and skips the whole page after some other faults.)
//
// Data is neither copied nor interpreted: what AWS Glue Schema Registry puts before a payload is still there.
package kpl
