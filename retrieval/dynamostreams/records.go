package dynamostreams

import (
	"cmp"
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	kinesistypes "github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

const (
	// mostRecords is the most that the service gives at once.
	mostRecords = 1000
	// pagesAtOnce is how many pages of which nothing is wanted are read within one GetRecords: a shard of four hours that takes a
	// thousand records a second has 14,400 of them, and after each answer the caller pauses.
	pagesAtOnce = 25
	// asks is how often it is asked what follows a shard, if nothing does, before the caller looks at the whole stream, which is many
	// requests.
	asks = 10
)

// GetRecords reads a page. Once the shard is read to its end it asks which shards follow, and the answer that names them is the last: it
// has no next iterator. As long as none is known, answers have no records and an iterator to ask again with. MillisBehindLatest is
// reckoned from the time in the last record, which the service gives in whole seconds, and is not known where no record came.
func (s *Source) GetRecords(ctx context.Context, in *kinesis.GetRecordsInput, _ ...func(*kinesis.Options)) (*kinesis.GetRecordsOutput, error) {
	it, err := parseIterator(aws.ToString(in.ShardIterator))
	if err != nil {
		return nil, err
	}
	page := &kinesis.GetRecordsOutput{}
	if it.inner != read {
		if page, err = s.page(ctx, &it, aws.ToInt32(in.Limit)); err != nil {
			return nil, err
		}
	}
	if it.inner == read {
		children, err := s.children(ctx, in.StreamARN, it.shard)
		switch {
		case err == nil && (len(children) > 0 || it.asked >= asks || s.Ended(aws.ToString(in.StreamARN))):
			page.ChildShards = children
			return page, nil
		case err == nil:
			it.asked++
		case len(page.Records) == 0:
			return nil, err
		}
	}
	page.NextShardIterator = aws.String(it.String())
	return page, nil
}

// page reads on until there is something that is wanted, and moves the iterator. What was passed over stays so if a later request fails:
// the caller's next one meets that fault, if it lasts.
func (s *Source) page(ctx context.Context, it *iterator, limit int32) (*kinesis.GetRecordsOutput, error) {
	page := &kinesis.GetRecordsOutput{}
	for pages := 1; ; pages++ {
		most := min(limit, mostRecords)
		if it.since != 0 {
			most = mostRecords // what is left out takes no room
		}
		out, err := s.api.GetRecords(ctx, &dynamodbstreams.GetRecordsInput{ShardIterator: &it.inner, Limit: &most}, ourRetries...)
		if err != nil {
			if pages > 1 {
				return page, nil
			}
			return nil, err
		}
		wanted := it.wanted(out.Records)
		it.inner = cmp.Or(aws.ToString(out.NextShardIterator), read)
		page.MillisBehindLatest, page.ResultMetadata = behind(out), out.ResultMetadata
		if len(wanted) == 0 && len(out.Records) > 0 && it.inner != read && pages < pagesAtOnce {
			continue
		}
		page.Records = make([]kinesistypes.Record, 0, len(wanted))
		for _, r := range wanted {
			page.Records = append(page.Records, recordOf(r))
		}
		return page, nil
	}
}

// wanted leaves out what is older than the iterator's time. From the first record on that is not, all are wanted.
func (i *iterator) wanted(records []types.Record) []types.Record {
	for i.since != 0 && len(records) > 0 {
		if d := records[0].Dynamodb; d == nil || d.ApproximateCreationDateTime == nil || d.ApproximateCreationDateTime.Unix() >= i.since {
			i.since = 0
			break
		}
		records = records[1:]
	}
	return records
}

// behind is how old the last record of an answer is by the service's own clock. Both times are whole seconds, rounded down, so that
// a second more or less says nothing.
func behind(out *dynamodbstreams.GetRecordsOutput) *int64 {
	now, ok := middleware.GetServerTime(out.ResultMetadata)
	if len(out.Records) == 0 || !ok {
		return nil
	}
	last := out.Records[len(out.Records)-1].Dynamodb
	if last == nil || last.ApproximateCreationDateTime == nil {
		return nil
	}
	return aws.Int64(max(now.Sub(*last.ApproximateCreationDateTime)-time.Second, 0).Milliseconds())
}

// children are the shards that follow one, as far as they are known.
func (s *Source) children(ctx context.Context, arn *string, shard string) (children []kinesistypes.ChildShard, err error) {
	out, err := s.describe(ctx, &dynamodbstreams.DescribeStreamInput{
		StreamArn: arn, ShardFilter: &types.ShardFilter{Type: types.ShardFilterTypeChildShards, ShardId: &shard},
	})
	if err != nil {
		return nil, err
	}
	for _, x := range out.StreamDescription.Shards {
		if aws.ToString(x.ParentShardId) == shard { // a server that knows no filter lists others, too
			children = append(children, kinesistypes.ChildShard{
				ShardId: x.ShardId, ParentShards: []string{shard}, HashKeyRange: &kinesistypes.HashKeyRange{},
			})
		}
	}
	return children, nil
}

// recordOf makes a record of Kinesis of a change.
func recordOf(r types.Record) kinesistypes.Record {
	out := kinesistypes.Record{Data: appendRecord(nil, r), PartitionKey: aws.String("")}
	if d := r.Dynamodb; d != nil {
		out.SequenceNumber, out.ApproximateArrivalTimestamp = d.SequenceNumber, d.ApproximateCreationDateTime
		out.PartitionKey = aws.String(string(appendItem(nil, d.Keys)))
	}
	return out
}
