package sourcetest

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

// Features says what a server has. The zero value lacks everything that is optional; [Everything] is the service itself.
type Features struct {
	StreamARN               bool // StreamARN serves in the place of StreamName
	Resharding              bool // split and merged shards close, keep their records, and children name them as parents
	ChildShards             bool // the last page of a closed shard names its children
	EndAtOnce               bool // the page with the last record of a closed shard has no NextShardIterator
	ListShardsPages         bool // MaxResults, NextToken, ExclusiveStartShardId
	NextTokenAlone          bool // NextToken beside a stream's name is refused
	TimeBehind              bool // MillisBehindLatest tells how old the last record read is
	InvalidIterator         bool // a broken iterator is InvalidArgumentException
	FutureTimestamp         bool // AT_TIMESTAMP in the future is refused
	PageBytes               bool // a page holds at most 10 MiB
	InvalidSequence         bool // a sequence number of another stream is InvalidArgumentException
	LargeRecordRefused      bool // a record of more than 1 MiB
	LargeHashKeyRefused     bool // an ExplicitHashKey of 2^128
	EmptyBatchRefused       bool // PutRecords of nothing
	LongBatchRefused        bool // PutRecords of 501 records
	LargeBatchRefused       bool // PutRecords of more than 10 MiB
	SplitAtStartRefused     bool // SplitShard at the shard's own first hash key
	SplitOfClosedRefused    bool // SplitShard of a shard that is closed
	MergeOfStrangersRefused bool // MergeShards of shards that are not neighbours
	UpdateShardCount        bool
	OnDemand                bool // streams without a ShardCount
	Retention               bool // Increase- and DecreaseStreamRetentionPeriod with their checks
	Consumers               bool // Register-, Describe-, List-, DeregisterStreamConsumer
	SubscribeToShard        bool // event streams as the Go SDK reads them
	UnknownConsumer         bool // a subscription of a consumer that does not exist is ResourceNotFoundException
	SubscriptionsExclude    bool // a second subscription of a consumer to a shard is ResourceInUseException within 5 s
	SubscriptionsEndShard   bool // the last event of a closed shard names its children and the stream ends
	// Filters are the kinds of ListShards filters that work.
	Filters []types.ShardFilterType
	// FilterResolution is how far apart two times must be for a filter to tell them apart.
	FilterResolution time.Duration
}

// Everything is what Kinesis itself has.
func Everything() Features {
	return Features{
		StreamARN: true, Resharding: true, ChildShards: true, EndAtOnce: true, ListShardsPages: true, NextTokenAlone: true,
		TimeBehind: true, InvalidIterator: true, FutureTimestamp: true, PageBytes: true,
		InvalidSequence: true, LargeRecordRefused: true, LargeHashKeyRefused: true,
		EmptyBatchRefused: true, LongBatchRefused: true, LargeBatchRefused: true,
		SplitAtStartRefused: true, SplitOfClosedRefused: true, MergeOfStrangersRefused: true, UpdateShardCount: true, OnDemand: true, Retention: true,
		Consumers: true, SubscribeToShard: true, UnknownConsumer: true, SubscriptionsExclude: true, SubscriptionsEndShard: true,
		Filters: types.ShardFilterType("").Values(),
	}
}
