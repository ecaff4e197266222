// Package kinesis answers what Kinesis Data Streams would have said: streams, shards, records, iterators and fan-out,
// kept in memory.
//
//	service.go    the Service type, dispatch of operations
//	hash.go       128-bit hash keys             sequence.go   sequence numbers
//	stream.go     a stream and its states       shard.go      a shard: append, read, trim
//	control.go    create, describe, delete      settings.go   retention, mode, encryption, tags
//	reshard.go    split, merge, shard count     list.go       ListShards
//	put.go        PutRecord, PutRecords         iterator.go   GetShardIterator
//	get.go        GetRecords                    consumer.go   fan-out consumers
//	subscribe.go  SubscribeToShard              limits.go     the service's rates
//	answer.go     shapes of answers
//
// Requests are decoded, and answers encoded, outside the one mutex; under it a call on records costs a binary search.
// Records never change once stored, so a page is a slice of the shard's own.
//
// Nothing runs in the background: what has a duration (CREATING, an iterator's life, retention) is worked out from the
// time of the call, and a subscription runs on its request's goroutine.
package kinesis
