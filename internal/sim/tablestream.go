package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"

	"github.com/shardlease/shardlease"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/processor"
	"github.com/shardlease/shardlease/retrieval/dynamostreams"
)

// One schedule in eight is of a fleet that reads the stream of a DynamoDB table. Records are changes of items there; shards have no hash
// keys, and all of them end now and then. At AWS that is each four hours, which no schedule lasts, so that it is a fault here (Roll).

// overTable chooses whether the fleet reads a table's stream, and adds what befalls one. It has a source of its own, and leaves alone
// what cannot be there: several streams, fan-out, a stream that is deleted. Whatever else was drawn stays; of merges, which there are none,
// all shards roll.
func (s *Schedule) overTable() {
	r := rand.New(rand.NewPCG(s.Seed, 0x7ab1e))
	if r.IntN(5) != 0 || s.Streams > 1 || s.Reading != ByPolling || s.has(DeleteStream) {
		return
	}
	s.Table = true
	if s.From == AtTimestamp { // there is no iterator at a time
		s.From = Latest
	}
	for i := range s.Faults {
		if s.Faults[i].Kind == Merge {
			s.Faults[i].Kind = Roll
		}
	}
	// Rows of what ended late are renewed for half a minute while everything else is at rest, and a schedule costs what its rows cost.
	if roll := s.draw(r, Roll); !s.has(Roll) || r.IntN(3) == 0 {
		roll.At = roll.At * 2 / 3
		s.Faults = append(s.Faults, roll)
	}
	switch r.IntN(10) {
	case 0:
		if !s.has(Night) {
			s.Faults = append(s.Faults, Fault{Kind: Night, At: s.Lasts / 2, Worker: -1, Lasts: 25 * time.Hour})
		}
	case 1, 2, 3: // so short that whoever lags loses records
		s.Retention = []time.Duration{20 * time.Second, 45 * time.Second}[r.IntN(2)]
		s.Faults = append(s.Faults, Fault{
			Kind: CutStream, At: s.Lasts / 10, Worker: r.IntN(s.Workers), Lasts: s.Retention + time.Duration(r.Int64N(int64(s.Retention/2))),
		})
	}
}

// service is the one that the fleet's readers ask.
func (s Schedule) service() emulator.Service {
	if s.Table {
		return emulator.DynamoDBStreams
	}
	return emulator.Kinesis
}

// listing is the operation that lists shards there.
func (s Schedule) listing() string {
	if s.Table {
		return "DescribeStream"
	}
	return "ListShards"
}

// createTable makes the table and its stream.
func (w *world) createTable() {
	cloud := w.cloud("admin", nil)
	w.table = w.dynamodb(cloud)
	w.streams = w.streamsOf(cloud)
	made, err := w.table.CreateTable(w.root, &dynamodb.CreateTableInput{
		TableName: aws.String(stream), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
		StreamSpecification:  &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewImage},
	})
	if err != nil {
		w.j.violate("L0", "", "", "the simulator cannot make the table: %v", err)
		return
	}
	w.arn = *made.TableDescription.LatestStreamArn
	time.Sleep(w.s.ControlDelay)
}

// itemChanged notes a change of an item, which is a record of the table's stream.
func (w *world) itemChanged(c emulator.ItemChange) {
	n, err := strconv.Atoi(c.New.Text("n"))
	if err != nil || c.Shard == "" {
		w.j.violate("L0", "", c.Shard, "item %q was written as number %q, in shard %q", c.New.Text("id"), c.New.Text("n"), c.Shard)
		return
	}
	w.j.produced(c.Shard, c.SequenceNumber, c.New.Text("id"), n)
}

// putItems writes items, each with its next number.
func (w *world) putItems(keys []string) {
	var batch []types.WriteRequest
	for _, key := range keys {
		batch = append(batch, types.WriteRequest{PutRequest: &types.PutRequest{Item: map[string]types.AttributeValue{
			"id": &types.AttributeValueMemberS{Value: key}, "n": &types.AttributeValueMemberN{Value: strconv.Itoa(w.next[key])},
		}}})
		w.next[key]++
	}
	w.calls.Add(1)
	out, err := w.table.BatchWriteItem(w.root, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{stream: batch}})
	if err != nil || len(out.UnprocessedItems) > 0 {
		w.j.violate("L0", "", "", "the simulator cannot write items: %v, %v", out, err)
	}
}

// putEverywhereInTable writes items until each open shard has got one, and returns how many shards are open. Which shard an item belongs
// to, nobody is told before it is written.
func (w *world) putEverywhereInTable() (shards int) {
	lacks := map[string]int{} // how many records each shard had
	for _, id := range w.openOfTable() {
		lacks[id] = w.j.countPut(id)
	}
	shards = len(lacks)
	for i := 0; len(lacks) > 0; i++ {
		w.putItems([]string{"of shard " + strconv.Itoa(i)})
		for id, had := range lacks {
			if w.j.countPut(id) > had {
				delete(lacks, id)
			}
		}
	}
	return shards
}

// tableShard is a shard of the table's stream as it is listed.
type tableShard struct {
	id, parent string
	open       bool
}

// shardsOfTable lists the shards of the table's stream.
func (w *world) shardsOfTable() (all []tableShard) {
	in := &dynamodbstreams.DescribeStreamInput{StreamArn: &w.arn}
	for {
		w.calls.Add(1)
		out, err := w.streams.DescribeStream(w.root, in)
		if err != nil {
			w.j.violate("L0", "", "", "the simulator cannot list shards: %v", err)
			return nil
		}
		for _, s := range out.StreamDescription.Shards {
			all = append(all, tableShard{*s.ShardId, aws.ToString(s.ParentShardId), s.SequenceNumberRange.EndingSequenceNumber == nil})
		}
		if in.ExclusiveStartShardId = out.StreamDescription.LastEvaluatedShardId; in.ExclusiveStartShardId == nil {
			return all
		}
	}
}

// openOfTable are those of them that are open.
func (w *world) openOfTable() (open []string) {
	for _, s := range w.shardsOfTable() {
		if s.open {
			open = append(open, s.id)
		}
	}
	return open
}

// roll ends all shards of the table's stream; one follows each.
func (w *world) roll() string {
	open := w.openOfTable()
	children, err := w.server.RollTableStream(stream)
	if err != nil {
		return "nothing: " + err.Error()
	}
	w.closes(0, open...)
	return fmt.Sprintf("all shards end, and %v follow", children)
}

// splitTable splits a shard of the table's stream.
func (w *world) splitTable(pick uint64) string {
	open := w.openOfTable()
	if len(open) == 0 || len(open) >= mostShards {
		return "nothing: there are enough shards"
	}
	id := open[pick%uint64(len(open))]
	children, err := w.server.SplitTableStream(stream, id)
	if err != nil {
		return "nothing: " + err.Error()
	}
	w.closes(0, id)
	return fmt.Sprintf("split %s into %v", id, children)
}

// source is what a process reads the table's stream with.
func (w *world) source(cloud aws.Config) shardlease.Option {
	return shardlease.WithSource(dynamostreams.New(streamsClient{w.streamsOf(cloud), &w.hands}))
}

// streamsClient is a client of DynamoDB Streams whose frequent requests others make.
type streamsClient struct {
	*dynamodbstreams.Client
	hands *hands
}

func (c streamsClient) GetRecords(ctx context.Context, in *dynamodbstreams.GetRecordsInput, o ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error) {
	return lend(c.hands, func() (*dynamodbstreams.GetRecordsOutput, error) { return c.Client.GetRecords(ctx, in, o...) })
}

// parseChange reads what a change of an item says.
func parseChange(r processor.Record) (record, error) {
	e, err := dynamostreams.EventOf(r)
	if err != nil {
		return record{}, err
	}
	id, _ := e.NewImage["id"].(*types.AttributeValueMemberS)
	num, _ := e.NewImage["n"].(*types.AttributeValueMemberN)
	if id == nil || num == nil {
		return record{}, errors.New("a change has no id, or no number: " + string(r.Data))
	}
	n, err := strconv.Atoi(num.Value)
	if err != nil {
		return record{}, fmt.Errorf("a change of item %q: %w", id.Value, err)
	}
	return record{id.Value, n}, nil
}
