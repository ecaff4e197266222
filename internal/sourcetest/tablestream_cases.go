package sourcetest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	table "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/google/go-cmp/cmp"
)

var tableStreamCases = []tableCase{
	{"a stream shows the images that its view has", func(t *testing.T, e *tableEnv) {
		for view, want := range map[types.StreamViewType][]string{
			types.StreamViewTypeKeysOnly:        {"INSERT a ->-", "MODIFY a ->-", "REMOVE a ->-"},
			types.StreamViewTypeNewImage:        {"INSERT a ->1", "MODIFY a ->2", "REMOVE a ->-"},
			types.StreamViewTypeOldImage:        {"INSERT a ->-", "MODIFY a 1>-", "REMOVE a 2>-"},
			types.StreamViewTypeNewAndOldImages: {"INSERT a ->1", "MODIFY a 1>2", "REMOVE a 2>-"},
		} {
			name, arn := e.table(t, view)
			e.put(t, name, "a", "1")
			e.put(t, name, "a", "2")
			e.remove(t, name, "a")
			records := e.expect(t, arn, want...)
			for _, r := range records {
				if r.Dynamodb.StreamViewType != view || aws.ToInt64(r.Dynamodb.SizeBytes) < 3 || r.Dynamodb.ApproximateCreationDateTime == nil ||
					time.Since(*r.Dynamodb.ApproximateCreationDateTime).Abs() > time.Hour || aws.ToString(r.EventID) == "" ||
					aws.ToString(r.EventSource) != "aws:dynamodb" || aws.ToString(r.AwsRegion) == "" || aws.ToString(r.EventVersion) == "" {
					t.Errorf("of view %s: record %+v with %+v lacks something", view, r, r.Dynamodb)
				}
			}
		}
	}},
	{"every kind of write leaves its records, and one that changes nothing leaves none", func(t *testing.T, e *tableEnv) {
		name, arn := e.table(t, types.StreamViewTypeNewAndOldImages)
		e.put(t, name, "a", "1")
		e.put(t, name, "a", "1")
		e.remove(t, name, "nobody")
		update := func(id, v string, condition *string) error {
			_, err := e.db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
				TableName: &name, Key: keyOf(id), UpdateExpression: aws.String("SET v = :v"), ConditionExpression: condition,
				ExpressionAttributeValues: map[string]table.AttributeValue{":v": &table.AttributeValueMemberN{Value: v}},
			})
			return err
		}
		if err := update("a", "1", nil); err != nil {
			t.Error(err)
		}
		if err := update("a", "2", nil); err != nil {
			t.Error(err)
		}
		if err := update("b", "3", nil); err != nil {
			t.Error(err)
		}
		if err := update("b", "4", aws.String("attribute_not_exists(id)")); err == nil {
			t.Error("an update whose condition fails succeeded")
		}
		if _, err := e.db.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]table.WriteRequest{name: {
			{PutRequest: &table.PutRequest{Item: itemOf("c", "5")}},
		}}}); err != nil {
			t.Error(err)
		}
		if _, err := e.db.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]table.WriteRequest{name: {
			{DeleteRequest: &table.DeleteRequest{Key: keyOf("c")}},
		}}}); err != nil {
			t.Error(err)
		}
		transact := func(items ...table.TransactWriteItem) error {
			_, err := e.db.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: items})
			return err
		}
		if err := transact(table.TransactWriteItem{Put: &table.Put{TableName: &name, Item: itemOf("d", "6")}}); err != nil {
			t.Error(err)
		}
		if err := transact(
			table.TransactWriteItem{Put: &table.Put{TableName: &name, Item: itemOf("e", "7")}},
			table.TransactWriteItem{ConditionCheck: &table.ConditionCheck{TableName: &name, Key: keyOf("d"), ConditionExpression: aws.String("attribute_not_exists(id)")}},
		); err == nil {
			t.Error("a transaction whose condition fails succeeded")
		}
		if err := transact(table.TransactWriteItem{Delete: &table.Delete{TableName: &name, Key: keyOf("d")}}); err != nil {
			t.Error(err)
		}
		e.remove(t, name, "b")
		e.expect(t, arn, "INSERT a ->1", "MODIFY a 1>2", "INSERT b ->3", "INSERT c ->5", "REMOVE c 5>-", "INSERT d ->6", "REMOVE d 6>-", "REMOVE b 3>-")
	}},
	{"a stream is described", func(t *testing.T, e *tableEnv) {
		name, arn := e.table(t, types.StreamViewTypeKeysOnly)
		shards, d := e.shards(t, arn, 100)
		if len(shards) == 0 || aws.ToString(d.TableName) != name || aws.ToString(d.StreamArn) != arn || d.StreamViewType != types.StreamViewTypeKeysOnly ||
			d.StreamStatus != types.StreamStatusEnabled || !strings.HasSuffix(arn, "/stream/"+aws.ToString(d.StreamLabel)) || d.CreationRequestDateTime == nil {
			t.Errorf("the stream is described as %+v", d)
		}
		if !isARNOf(arn, name) {
			t.Errorf("the stream's ARN is %s", arn)
		}
		want := []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}}
		if diff := cmp.Diff(want, d.KeySchema, cmp.Comparer(func(a, b types.KeySchemaElement) bool {
			return *a.AttributeName == *b.AttributeName && a.KeyType == b.KeyType
		})); diff != "" {
			t.Errorf("its key schema (-want +got):\n%s", diff)
		}
		for _, s := range shards {
			if n := len(aws.ToString(s.SequenceNumberRange.StartingSequenceNumber)); n < 21 || n > 40 || s.SequenceNumberRange.EndingSequenceNumber != nil || len(*s.ShardId) < 28 {
				t.Errorf("shard %+v of a new stream", s)
			}
		}
	}},
	{"the four kinds of iterator begin where they say", func(t *testing.T, e *tableEnv) {
		name, arn := e.table(t, types.StreamViewTypeNewImage)
		e.put(t, name, "a", "1")
		e.put(t, name, "a", "2")
		e.put(t, name, "a", "3")
		records := e.history(t, arn, 3)
		second := records[1].Dynamodb.SequenceNumber
		shard := e.shardOf(t, arn, second)
		from := func(kind types.ShardIteratorType, number *string) *string {
			t.Helper()
			it, err := e.iterator(t.Context(), arn, shard, kind, number)
			if err != nil {
				t.Fatalf("iterator %s: %v", kind, err)
			}
			return it
		}
		latest := from(types.ShardIteratorTypeLatest, nil)
		e.put(t, name, "a", "4")
		e.history(t, arn, 4)
		for what, c := range map[string]struct {
			it   *string
			want string
		}{
			"TRIM_HORIZON":          {from(types.ShardIteratorTypeTrimHorizon, nil), "1 2 3 4"},
			"LATEST":                {latest, "4"},
			"AT_SEQUENCE_NUMBER":    {from(types.ShardIteratorTypeAtSequenceNumber, second), "2 3 4"},
			"AFTER_SEQUENCE_NUMBER": {from(types.ShardIteratorTypeAfterSequenceNumber, second), "3 4"},
		} {
			var got []string
			read, ended := e.read(t, c.it)
			for _, r := range read {
				got = append(got, r.Dynamodb.NewImage["v"].(*types.AttributeValueMemberN).Value)
			}
			if strings.Join(got, " ") != c.want || ended {
				t.Errorf("%s reads %v, ended %v, want %s of an open shard", what, got, ended, c.want)
			}
		}
	}},
	{"a page has at most Limit records", func(t *testing.T, e *tableEnv) {
		name, arn := e.table(t, types.StreamViewTypeKeysOnly)
		for i := range 5 {
			e.put(t, name, "k", strconv.Itoa(i))
		}
		records := e.history(t, arn, 5)
		it, err := e.iterator(t.Context(), arn, e.shardOf(t, arn, records[0].Dynamodb.SequenceNumber), types.ShardIteratorTypeTrimHorizon, nil)
		if err != nil {
			t.Fatal(err)
		}
		out, err := e.streams.GetRecords(t.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: it, Limit: aws.Int32(2)})
		if err != nil || len(out.Records) != 2 {
			t.Errorf("a page of at most 2 has %v (%v)", out, err)
		}
		_, err = e.streams.GetRecords(t.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: it, Limit: aws.Int32(1001)})
		invalid(t, err)
	}},
	{"what is wrong is refused by its type", func(t *testing.T, e *tableEnv) {
		_, arn := e.table(t, types.StreamViewTypeKeysOnly)
		shards, _ := e.shards(t, arn, 100)
		id := shards[0].ShardId
		none := arn[:len(arn)-23] + "2001-01-01T00:00:00.000"
		_, err := e.streams.DescribeStream(t.Context(), &dynamodbstreams.DescribeStreamInput{StreamArn: &none})
		refused[*types.ResourceNotFoundException](t, err)
		_, err = e.iterator(t.Context(), none, id, types.ShardIteratorTypeLatest, nil)
		refused[*types.ResourceNotFoundException](t, err)
		_, err = e.iterator(t.Context(), arn, aws.String("shardId-00000000000000000001-00000001"), types.ShardIteratorTypeLatest, nil)
		refused[*types.ResourceNotFoundException](t, err)
		_, err = e.iterator(t.Context(), arn, id, types.ShardIteratorTypeAtSequenceNumber, nil)
		invalid(t, err)
		_, err = e.iterator(t.Context(), arn, id, types.ShardIteratorTypeAtSequenceNumber, aws.String("9"))
		invalid(t, err)
		_, err = e.streams.GetRecords(t.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: aws.String("garbage")})
		invalid(t, err)
	}},
	{"a stream is enabled and disabled by UpdateTable", func(t *testing.T, e *tableEnv) {
		name, arn := e.table(t, "")
		if arn != "" {
			t.Errorf("a table without a stream has %s", arn)
		}
		spec := func(on bool) error {
			in := &dynamodb.UpdateTableInput{TableName: &name, StreamSpecification: &table.StreamSpecification{StreamEnabled: &on}}
			if on {
				in.StreamSpecification.StreamViewType = table.StreamViewTypeNewImage
			}
			_, err := e.db.UpdateTable(t.Context(), in)
			return err
		}
		e.put(t, name, "a", "1")
		invalid(t, spec(false))
		if err := spec(true); err != nil {
			t.Fatal(err)
		}
		first := e.latest(t, name)
		invalid(t, spec(true))
		e.put(t, name, "a", "2")
		e.expect(t, first, "MODIFY a ->2")
		if err := spec(false); err != nil {
			t.Fatal(err)
		}
		e.latest(t, name)
		e.put(t, name, "a", "3")
		e.expect(t, first, "MODIFY a ->2")
		shards, d := e.shards(t, first, 100)
		for _, s := range shards {
			if s.SequenceNumberRange.EndingSequenceNumber == nil || d.StreamStatus != types.StreamStatusDisabled {
				t.Errorf("shard %+v of a stream that is %s", s, d.StreamStatus)
			}
			it, err := e.iterator(t.Context(), first, s.ShardId, types.ShardIteratorTypeTrimHorizon, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, ended := e.read(t, it); !ended {
				t.Errorf("shard %s of a disabled stream has no end", *s.ShardId)
			}
		}
		if err := spec(true); err != nil {
			t.Fatal(err)
		}
		second := e.latest(t, name)
		if second == first {
			t.Errorf("the table's second stream has the ARN of the first one, %s", first)
		}
		e.put(t, name, "a", "4")
		e.expect(t, second, "MODIFY a ->4")
	}},
	{"streams are listed by table and by pages", func(t *testing.T, e *tableEnv) {
		name, arn := e.table(t, types.StreamViewTypeKeysOnly)
		e.table(t, types.StreamViewTypeKeysOnly)
		out, err := e.streams.ListStreams(t.Context(), &dynamodbstreams.ListStreamsInput{TableName: &name})
		if err != nil || len(out.Streams) != 1 || aws.ToString(out.Streams[0].StreamArn) != arn || aws.ToString(out.Streams[0].TableName) != name {
			t.Errorf("the streams of table %s: %+v (%v)", name, out, err)
		}
		seen := false
		in := &dynamodbstreams.ListStreamsInput{Limit: aws.Int32(1)}
		for range 1000 {
			out, err := e.streams.ListStreams(t.Context(), in)
			if err != nil || len(out.Streams) > 1 {
				t.Fatalf("a page of one: %+v (%v)", out, err)
			}
			seen = seen || len(out.Streams) == 1 && *out.Streams[0].StreamArn == arn
			if in.ExclusiveStartStreamArn = out.LastEvaluatedStreamArn; in.ExclusiveStartStreamArn == nil {
				break
			}
		}
		if !seen {
			t.Errorf("the pages lack %s", arn)
		}
	}},
	{"a deleted table's stream can be read on", func(t *testing.T, e *tableEnv) {
		name, arn := e.table(t, types.StreamViewTypeNewImage)
		e.put(t, name, "a", "1")
		if _, err := e.db.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: &name}); err != nil {
			t.Fatal(err)
		}
		e.expect(t, arn, "INSERT a ->1")
	}},
}

// shardOf is the shard that holds the record of that number.
func (e *tableEnv) shardOf(t *testing.T, arn string, number *string) *string {
	t.Helper()
	shards, _ := e.shards(t, arn, 100)
	for _, s := range shards {
		it, err := e.iterator(t.Context(), arn, s.ShardId, types.ShardIteratorTypeTrimHorizon, nil)
		if err != nil {
			t.Fatal(err)
		}
		records, _ := e.read(t, it)
		for _, r := range records {
			if *r.Dynamodb.SequenceNumber == *number {
				return s.ShardId
			}
		}
	}
	t.Fatalf("no shard has record %s", *number)
	return nil
}

var tableReshardCases = []tableCase{
	{"shards end and have children", func(t *testing.T, e *tableEnv) {
		name, arn := e.table(t, types.StreamViewTypeNewImage)
		var want []string
		for round := range 4 {
			e.put(t, name, "a", strconv.Itoa(round))
			want = append(want, fmt.Sprintf("%s a ->%d", map[bool]string{true: "INSERT", false: "MODIFY"}[round == 0], round))
			if err := e.reshard(name, 1+round%2); err != nil {
				t.Fatal(err)
			}
		}
		e.expect(t, arn, want...)
		shards, _ := e.shards(t, arn, 2)
		open := 0
		for _, s := range shards {
			out, err := e.streams.DescribeStream(t.Context(), &dynamodbstreams.DescribeStreamInput{
				StreamArn: &arn, ShardFilter: &types.ShardFilter{Type: types.ShardFilterTypeChildShards, ShardId: s.ShardId},
			})
			if err != nil {
				t.Fatal(err)
			}
			children := out.StreamDescription.Shards
			for _, c := range children {
				if aws.ToString(c.ParentShardId) != *s.ShardId {
					t.Errorf("the child %s of %s names %v as its parent", *c.ShardId, *s.ShardId, c.ParentShardId)
				}
			}
			closed := s.SequenceNumberRange.EndingSequenceNumber != nil
			if closed != (len(children) > 0) {
				t.Errorf("shard %s, closed: %v, has %d children", *s.ShardId, closed, len(children))
			}
			if !closed {
				open++
			}
			it, err := e.iterator(t.Context(), arn, s.ShardId, types.ShardIteratorTypeTrimHorizon, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, ended := e.read(t, it); ended != closed {
				t.Errorf("shard %s, closed: %v, ended: %v", *s.ShardId, closed, ended)
			}
		}
		if open == 0 || open == len(shards) {
			t.Errorf("%d of %d shards are open", open, len(shards))
		}
	}},
}
