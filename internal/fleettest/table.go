package fleettest

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/shardlease/shardlease"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/processor"
	"github.com/shardlease/shardlease/retrieval/dynamostreams"
)

// Table is the name of the table whose stream a TableFleet reads.
const Table = "orders"

// TableFleet is a fleet over the stream of a DynamoDB table.
type TableFleet struct {
	*Fleet
	Streams *dynamodbstreams.Client
	ARN     string // of the table's stream
}

// NewOfTable makes a fleet without workers over the stream of a table.
func NewOfTable(tb testing.TB, opts ...emulator.Option) *TableFleet {
	tb.Helper()
	f := &TableFleet{Fleet: NewWith(tb, func(func(string, int)) {}, opts...)}
	judge := f.Server.ClientConfig("test")
	judge.RetryMaxAttempts = 20
	f.Streams = dynamodbstreams.NewFromConfig(judge)
	out, err := f.DynamoDB.CreateTable(tb.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String(Table), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
		StreamSpecification:  &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages},
	})
	if err != nil {
		tb.Fatal(err)
	}
	f.ARN = *out.TableDescription.LatestStreamArn
	return f
}

// Enable enables or disables the table's stream; enabled, it is another one, with another ARN.
func (f *TableFleet) Enable(on bool) {
	f.T.Helper()
	spec := &types.StreamSpecification{StreamEnabled: &on}
	if on {
		spec.StreamViewType = types.StreamViewTypeNewAndOldImages
	}
	out, err := f.DynamoDB.UpdateTable(f.T.Context(), &dynamodb.UpdateTableInput{TableName: aws.String(Table), StreamSpecification: spec})
	if err != nil {
		f.T.Fatal(err)
	}
	f.ARN = *out.TableDescription.LatestStreamArn
}

// PutItems makes n changes of items, spread over the keys, each with the next number of its key.
func (f *TableFleet) PutItems(n, keys int) {
	f.T.Helper()
	for i := range n {
		f.PutItem("key" + strconv.Itoa(i%keys))
	}
}

// PutItem makes one change of an item, with its next number.
func (f *TableFleet) PutItem(id string) {
	f.T.Helper()
	if _, err := f.DynamoDB.PutItem(f.T.Context(), &dynamodb.PutItemInput{TableName: aws.String(Table), Item: map[string]types.AttributeValue{
		"id": &types.AttributeValueMemberS{Value: id}, "n": &types.AttributeValueMemberN{Value: strconv.Itoa(f.next[id])},
	}}); err != nil {
		f.T.Fatalf("put item %s: %v", id, err)
	}
	f.next[id]++
}

// Forget takes what was put so far for delivered, or lost with a reason: what is put from now on is what counts, beginning with
// other keys.
func (f *TableFleet) Forget() { clear(f.next) }

// Config is the configuration that StartOnTable begins with.
func (f *TableFleet) Config(id string) config.Config {
	c := config.Default(App, "")
	c.StreamARN, c.WorkerID = f.ARN, id
	return c
}

// Source is one for a worker of that id.
func (f *TableFleet) Source(id string) shardlease.Option {
	return shardlease.WithSource(dynamostreams.New(dynamodbstreams.NewFromConfig(f.Server.ClientConfig(id))))
}

// StartOnTable starts a worker whose processor hands every change to the audit and checkpoints each batch.
func (f *TableFleet) StartOnTable(id string, change ...func(*config.Config)) *Worker {
	f.T.Helper()
	return f.StartOnTableWith(id, func(processor.Shard) processor.RecordProcessor { return &tableAuditor{f: f, worker: id} }, change...)
}

// StartOnTableWith starts a worker with another processor.
func (f *TableFleet) StartOnTableWith(id string, p processor.Factory, change ...func(*config.Config)) *Worker {
	f.T.Helper()
	f.With(f.Source(id)) // the last one counts
	return f.StartWith(id, p, append([]func(*config.Config){func(c *config.Config) { *c = f.Config(id) }}, change...)...)
}

// Shards are those that the stream has, closed ones too, and those of them that are open.
func (f *TableFleet) Shards() (all, open []string) {
	f.T.Helper()
	in := &dynamodbstreams.DescribeStreamInput{StreamArn: &f.ARN}
	for tries := 0; ; {
		out, err := f.Streams.DescribeStream(f.T.Context(), in)
		if err != nil { // a fault that a test injects for all may cut the body, which the SDK does not repeat
			if tries++; tries > 20 {
				f.T.Fatal(err)
			}
			continue
		}
		for _, s := range out.StreamDescription.Shards {
			all = append(all, *s.ShardId)
			if s.SequenceNumberRange.EndingSequenceNumber == nil {
				open = append(open, *s.ShardId)
			}
		}
		if in.ExclusiveStartShardId = out.StreamDescription.LastEvaluatedShardId; in.ExclusiveStartShardId == nil {
			return all, open
		}
	}
}

// Changes hands the changes among records to the audit.
func (f *TableFleet) Changes(worker string, in processor.ProcessRecordsInput) error {
	told := in
	told.Records = make([]processor.Record, 0, len(in.Records))
	for _, r := range in.Records {
		e, err := dynamostreams.EventOf(r)
		if err != nil {
			return err
		}
		id, _ := e.NewImage["id"].(*types.AttributeValueMemberS)
		n, _ := e.NewImage["n"].(*types.AttributeValueMemberN)
		if id == nil || n == nil || e.StreamViewType != string(streamtypes.StreamViewTypeNewAndOldImages) {
			return fmt.Errorf("change %+v is none that was made", e)
		}
		told.Records = append(told.Records, processor.Record{
			SequenceNumber: r.SequenceNumber, PartitionKey: id.Value, Data: fmt.Appendf(nil, "%s:%s", id.Value, n.Value),
		})
	}
	f.Audit.Deliver(worker, told)
	return nil
}

type tableAuditor struct {
	processor.Base
	f      *TableFleet
	worker string
}

func (p *tableAuditor) ProcessRecords(ctx context.Context, in processor.ProcessRecordsInput) error {
	if err := p.f.Changes(p.worker, in); err != nil {
		return err
	}
	return in.Checkpointer.Checkpoint(ctx)
}
