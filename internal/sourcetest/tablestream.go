package sourcetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	table "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/google/go-cmp/cmp"
)

// RunTableStreams tests the server that cfg reaches as DynamoDB Streams; every table it makes is deleted again. reshard closes
// all open shards of a table's stream and lets as many children follow each: the service does so when it likes, and nobody can
// ask it to, so that the cases about it are left out where reshard is nil.
func RunTableStreams(t *testing.T, cfg aws.Config, reshard func(table string, children int) error) {
	t.Helper()
	e := &tableEnv{
		db: dynamodb.NewFromConfig(cfg), streams: dynamodbstreams.NewFromConfig(cfg), run: time.Now().UnixNano(), reshard: reshard,
	}
	for _, c := range tableStreamCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, e)
		})
	}
	for _, c := range tableReshardCases {
		if reshard != nil {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.run(t, e)
			})
		}
	}
}

type tableCase struct {
	name string
	run  func(t *testing.T, e *tableEnv)
}

// tableEnv is the server under test.
type tableEnv struct {
	db      *dynamodb.Client
	streams *dynamodbstreams.Client
	run     int64
	tables  atomic.Int64
	reshard func(table string, children int) error
}

// table makes a table with a stream, or without one if view is empty, that lives as long as the test, and returns its name and
// the stream's ARN.
func (e *tableEnv) table(t *testing.T, view types.StreamViewType) (name, arn string) {
	t.Helper()
	name = fmt.Sprintf("streamtest-%d-%d", e.run, e.tables.Add(1))
	in := &dynamodb.CreateTableInput{
		TableName: &name, BillingMode: table.BillingModePayPerRequest,
		AttributeDefinitions: []table.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: table.ScalarAttributeTypeS}},
		KeySchema:            []table.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: table.KeyTypeHash}},
	}
	if view != "" {
		in.StreamSpecification = &table.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: table.StreamViewType(view)}
	}
	if _, err := e.db.CreateTable(t.Context(), in); err != nil {
		t.Fatalf("create table %s: %v", name, err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if _, err := e.db.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &name}); err != nil && code(err) != "ResourceNotFoundException" && code(err) != "ResourceInUseException" {
			t.Errorf("delete table %s: %v", name, err)
		}
	})
	return name, e.latest(t, name)
}

// latest waits until a table is ACTIVE and returns the ARN of its last stream.
func (e *tableEnv) latest(t *testing.T, name string) (arn string) {
	t.Helper()
	eventually(t, "table "+name+" is ACTIVE", func(ctx context.Context) bool {
		out, err := e.db.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &name})
		if err != nil {
			return false
		}
		arn = aws.ToString(out.Table.LatestStreamArn)
		return out.Table.TableStatus == table.TableStatusActive
	})
	return arn
}

func itemOf(id, v string) map[string]table.AttributeValue {
	item := keyOf(id)
	item["v"] = &table.AttributeValueMemberN{Value: v}
	return item
}

func keyOf(id string) map[string]table.AttributeValue {
	return map[string]table.AttributeValue{"id": &table.AttributeValueMemberS{Value: id}}
}

func (e *tableEnv) put(t *testing.T, name, id, v string) {
	t.Helper()
	if _, err := e.db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &name, Item: itemOf(id, v)}); err != nil {
		t.Fatalf("put %s: %v", id, err)
	}
}

func (e *tableEnv) remove(t *testing.T, name, id string) {
	t.Helper()
	if _, err := e.db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &name, Key: keyOf(id)}); err != nil {
		t.Fatalf("delete %s: %v", id, err)
	}
}

// shards lists all shards of a stream, by pages of this size.
func (e *tableEnv) shards(t *testing.T, arn string, page int32) (all []types.Shard, d types.StreamDescription) {
	t.Helper()
	in := &dynamodbstreams.DescribeStreamInput{StreamArn: &arn, Limit: &page}
	for {
		out, err := e.streams.DescribeStream(t.Context(), in)
		if err != nil {
			t.Fatalf("describe stream %s: %v", arn, err)
		}
		d = *out.StreamDescription
		if len(d.Shards) > int(page) {
			t.Errorf("a page of at most %d has %d shards", page, len(d.Shards))
		}
		all = append(all, d.Shards...)
		if d.LastEvaluatedShardId == nil {
			return all, d
		}
		in.ExclusiveStartShardId = d.LastEvaluatedShardId
	}
}

func (e *tableEnv) iterator(ctx context.Context, arn string, shard *string, kind types.ShardIteratorType, number *string) (*string, error) {
	out, err := e.streams.GetShardIterator(ctx, &dynamodbstreams.GetShardIteratorInput{
		StreamArn: &arn, ShardId: shard, ShardIteratorType: kind, SequenceNumber: number,
	})
	if err != nil {
		return nil, err
	}
	return out.ShardIterator, nil
}

// read reads a shard from an iterator until it ends, or a page brings nothing.
func (e *tableEnv) read(t *testing.T, iterator *string) (all []types.Record, ended bool) {
	t.Helper()
	for {
		out, err := e.streams.GetRecords(t.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: iterator})
		if err != nil {
			t.Fatalf("get records: %v", err)
		}
		all = append(all, out.Records...)
		if iterator = out.NextShardIterator; iterator == nil {
			return all, true
		}
		if len(out.Records) == 0 {
			return all, false
		}
	}
}

// history reads all of a stream, parents before children, and waits until it has as many records.
func (e *tableEnv) history(t *testing.T, arn string, want int) (all []types.Record) {
	t.Helper()
	eventually(t, fmt.Sprintf("the stream has %d records", want), func(ctx context.Context) bool {
		all = nil
		shards, _ := e.shards(t, arn, 100)
		for _, s := range byLineage(shards) {
			from, err := e.iterator(ctx, arn, s.ShardId, types.ShardIteratorTypeTrimHorizon, nil)
			if err != nil {
				t.Fatalf("iterator of %s: %v", *s.ShardId, err)
			}
			records, _ := e.read(t, from)
			all = append(all, records...)
		}
		return len(all) >= want
	})
	return all
}

// byLineage sorts shards such that parents come first.
func byLineage(shards []types.Shard) (sorted []types.Shard) {
	for len(sorted) < len(shards) {
		for _, s := range shards {
			has := func(id *string) bool {
				return slices.ContainsFunc(sorted, func(x types.Shard) bool { return *x.ShardId == *id })
			}
			listed := slices.ContainsFunc(shards, func(x types.Shard) bool { return s.ParentShardId != nil && *x.ShardId == *s.ParentShardId })
			if !has(s.ShardId) && (!listed || has(s.ParentShardId)) {
				sorted = append(sorted, s)
			}
		}
	}
	return sorted
}

// told is what a record says, in short.
func told(r types.Record) string {
	v := func(image map[string]types.AttributeValue) string {
		if image == nil {
			return "-"
		}
		n, _ := image["v"].(*types.AttributeValueMemberN)
		if n == nil {
			return "?"
		}
		return n.Value
	}
	id, _ := r.Dynamodb.Keys["id"].(*types.AttributeValueMemberS)
	if id == nil {
		return "a record without keys"
	}
	return fmt.Sprintf("%s %s %s>%s", r.EventName, id.Value, v(r.Dynamodb.OldImage), v(r.Dynamodb.NewImage))
}

func tell(records []types.Record) (lines []string) {
	for _, r := range records {
		lines = append(lines, told(r))
	}
	return lines
}

// expect compares a stream's records with those that are wanted; only those of one item have an order.
func (e *tableEnv) expect(t *testing.T, arn string, want ...string) []types.Record {
	t.Helper()
	got := e.history(t, arn, len(want))
	byItem := func(lines []string) []string {
		return slices.SortedStableFunc(slices.Values(lines), func(a, b string) int {
			return strings.Compare(strings.Fields(a)[1], strings.Fields(b)[1])
		})
	}
	if diff := cmp.Diff(byItem(want), byItem(tell(got))); diff != "" {
		t.Errorf("the stream's records (-want +got):\n%s", diff)
	}
	return got
}

// refused checks an error's code and its type.
func refused[E error](t *testing.T, err error) {
	t.Helper()
	if _, ok := errors.AsType[E](err); !ok {
		var want E
		t.Errorf("got %v, want a %T", err, want)
	}
}

func invalid(t *testing.T, err error) {
	t.Helper()
	if code(err) != "ValidationException" {
		t.Errorf("got %v, want a ValidationException", err)
	}
}

func isARNOf(arn, name string) bool {
	return strings.HasPrefix(arn, "arn:aws:dynamodb:") && strings.Contains(arn, ":table/"+name+"/stream/")
}
