// Package retrieval answers how records come out of a shard.
//
// [Polling] reads shards with GetRecords: it fetches ahead of the processor, as far as the worker's byte
// budget allows, and delivers pages through a processor.RecordSource. A shard has a goroutine while it is read, and none while its next
// read is not due. What fails for a time is repeated inside, at the
// exact place; what ends a source for good is the end of its shard, confirmed by the service.
//
// [KinesisShardDetector] lists a stream's shards for package shardsync.
//
// A [LineageAPI] stands in front of another service, whose shards have no hash keys: package dynamostreams has the one for the streams
// of DynamoDB tables.
//
// Both switch the SDK's own retries off, call by call, so that pauses are spaced for a whole fleet, obey the lease's
// context, and can be seen through config.Hooks.
package retrieval
