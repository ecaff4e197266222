package emulator_test

import (
	"errors"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	table "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/aws/smithy-go"

	"github.com/shardlease/shardlease/emulator"
)

// tableWorld is a table "orders" with a stream, in virtual time.
type tableWorld struct {
	*testing.T
	server  *emulator.Server
	db      *dynamodb.Client
	streams *dynamodbstreams.Client
	arn     string
}

func inTableWorld(t *testing.T, run func(w *tableWorld), opts ...emulator.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := emulator.New(opts...)
		cfg := server.AWSConfig()
		cfg.Retryer = func() aws.Retryer { return aws.NopRetryer{} }
		w := &tableWorld{T: t, server: server, db: dynamodb.NewFromConfig(cfg), streams: dynamodbstreams.NewFromConfig(cfg)}
		out, err := w.db.CreateTable(t.Context(), &dynamodb.CreateTableInput{
			TableName: aws.String("orders"), BillingMode: table.BillingModePayPerRequest,
			AttributeDefinitions: []table.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: table.ScalarAttributeTypeS}},
			KeySchema:            []table.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: table.KeyTypeHash}},
			StreamSpecification:  &table.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: table.StreamViewTypeKeysOnly},
		})
		if err != nil {
			t.Fatal(err)
		}
		w.arn = *out.TableDescription.LatestStreamArn
		run(w)
	})
}

func (w *tableWorld) put(id string) {
	w.Helper()
	if _, err := w.db.PutItem(w.Context(), &dynamodb.PutItemInput{
		TableName: aws.String("orders"), Item: map[string]table.AttributeValue{"id": &table.AttributeValueMemberS{Value: id}},
	}); err != nil {
		w.Fatal(err)
	}
}

func (w *tableWorld) shards() []types.Shard {
	w.Helper()
	out, err := w.streams.DescribeStream(w.Context(), &dynamodbstreams.DescribeStreamInput{StreamArn: &w.arn})
	if err != nil {
		w.Fatal(err)
	}
	return out.StreamDescription.Shards
}

func (w *tableWorld) iterator(shard *string, kind types.ShardIteratorType, number *string) (*string, error) {
	out, err := w.streams.GetShardIterator(w.Context(), &dynamodbstreams.GetShardIteratorInput{
		StreamArn: &w.arn, ShardId: shard, ShardIteratorType: kind, SequenceNumber: number,
	})
	if err != nil {
		return nil, err
	}
	return out.ShardIterator, nil
}

func (w *tableWorld) oldest(shard *string) *string {
	w.Helper()
	it, err := w.iterator(shard, types.ShardIteratorTypeTrimHorizon, nil)
	if err != nil {
		w.Fatal(err)
	}
	return it
}

func (w *tableWorld) get(it *string) (*dynamodbstreams.GetRecordsOutput, error) {
	return w.streams.GetRecords(w.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: it})
}

func wantError[E error](w *tableWorld, err error) {
	w.Helper()
	if _, ok := errors.AsType[E](err); !ok {
		var want E
		w.Errorf("got %v, want a %T", err, want)
	}
}

func TestTableStream_iteratorsExpireAfterAQuarterOfAnHour(t *testing.T) {
	t.Parallel()
	inTableWorld(t, func(w *tableWorld) {
		it := w.oldest(w.shards()[0].ShardId)
		time.Sleep(15 * time.Minute)
		if _, err := w.get(it); err != nil {
			w.Errorf("after 15 minutes: %v", err)
		}
		time.Sleep(time.Second)
		_, err := w.get(it)
		wantError[*types.ExpiredIteratorException](w, err)
	})
}

func TestTableStream_shardsRollEveryFourHoursAndAreForgottenADayLater(t *testing.T) {
	t.Parallel()
	inTableWorld(t, func(w *tableWorld) {
		w.put("a")
		first := w.shards()[0]
		time.Sleep(4 * time.Hour)
		w.put("b")
		if all := w.shards(); len(all) != 2 || aws.ToString(all[1].ParentShardId) != *first.ShardId || all[0].SequenceNumberRange.EndingSequenceNumber == nil {
			w.Errorf("after 4 hours the shards are %+v", all)
		}
		out, err := w.get(w.oldest(first.ShardId))
		if err != nil || len(out.Records) != 1 || out.NextShardIterator != nil {
			w.Errorf("the closed shard answers %+v (%v), want one record and the end", out, err)
		}
		time.Sleep(23*time.Hour + 59*time.Minute)
		if _, err := w.iterator(first.ShardId, types.ShardIteratorTypeTrimHorizon, nil); err != nil {
			w.Errorf("within the retention: %v", err)
		}
		time.Sleep(time.Minute)
		_, err = w.iterator(first.ShardId, types.ShardIteratorTypeTrimHorizon, nil)
		wantError[*types.ResourceNotFoundException](w, err)
		all := w.shards()
		if aws.ToString(all[0].ParentShardId) != *first.ShardId {
			w.Errorf("the oldest shard %+v does not name its parent, which is forgotten", all[0])
		}
	})
}

func TestTableStream_trimmedRecordsAreRefused(t *testing.T) {
	t.Parallel()
	inTableWorld(t, func(w *tableWorld) {
		w.put("a")
		id := w.shards()[0].ShardId
		out, err := w.get(w.oldest(id))
		if err != nil || len(out.Records) != 1 {
			w.Fatal(out, err)
		}
		number := out.Records[0].Dynamodb.SequenceNumber
		time.Sleep(23*time.Hour + 50*time.Minute)
		w.put("b")
		held := w.oldest(id)
		time.Sleep(10 * time.Minute)
		_, err = w.get(held)
		wantError[*types.TrimmedDataAccessException](w, err)
		_, err = w.iterator(id, types.ShardIteratorTypeAtSequenceNumber, number)
		wantError[*types.TrimmedDataAccessException](w, err)
		if out, err := w.get(w.oldest(id)); err != nil || len(out.Records) != 1 {
			w.Errorf("from the oldest record that is left: %+v (%v)", out, err)
		}
	}, emulator.WithTableStreamShardLife(100*time.Hour))
}

func TestTableStream_aDisabledStreamIsForgottenADayLater(t *testing.T) {
	t.Parallel()
	inTableWorld(t, func(w *tableWorld) {
		if _, err := w.db.UpdateTable(w.Context(), &dynamodb.UpdateTableInput{
			TableName: aws.String("orders"), StreamSpecification: &table.StreamSpecification{StreamEnabled: aws.Bool(false)},
		}); err != nil {
			w.Fatal(err)
		}
		time.Sleep(24*time.Hour - time.Second)
		if _, err := w.streams.DescribeStream(w.Context(), &dynamodbstreams.DescribeStreamInput{StreamArn: &w.arn}); err != nil {
			w.Error(err)
		}
		time.Sleep(time.Second)
		_, err := w.streams.DescribeStream(w.Context(), &dynamodbstreams.DescribeStreamInput{StreamArn: &w.arn})
		wantError[*types.ResourceNotFoundException](w, err)
	})
}

func TestTableStream_limitsDescribeStream(t *testing.T) {
	t.Parallel()
	inTableWorld(t, func(w *tableWorld) {
		for range 10 {
			w.shards()
		}
		_, err := w.streams.DescribeStream(w.Context(), &dynamodbstreams.DescribeStreamInput{StreamArn: &w.arn})
		if api, ok := errors.AsType[smithy.APIError](err); !ok || api.ErrorCode() != "ThrottlingException" {
			w.Errorf("the 11th call in a second: %v", err)
		}
		time.Sleep(time.Second)
		w.shards()
	}, emulator.WithLimits())
}

func TestTableStream_faultsAndCountsAreByService(t *testing.T) {
	t.Parallel()
	inTableWorld(t, func(w *tableWorld) {
		it := w.oldest(w.shards()[0].ShardId)
		once := func(e emulator.Effect) error {
			w.server.Inject(emulator.Rule{Service: emulator.DynamoDBStreams, Operation: "GetRecords", Times: 1, Effect: e})
			_, err := w.get(it)
			return err
		}
		wantError[*types.LimitExceededException](w, once(emulator.Throttle()))
		wantError[*types.InternalServerError](w, once(emulator.Fail(http.StatusInternalServerError, "InternalServerError", "try again")))
		if once(emulator.DropReply()) == nil {
			w.Error("a reply that was dropped came")
		}
		if _, err := w.get(it); err != nil {
			w.Error(err)
		}
		n := w.server.Counts().Of(emulator.CountKey{Service: emulator.DynamoDBStreams, Operation: "GetRecords"})
		if n.Requests != 4 || n.Errors != 3 || n.Throttled != 1 {
			w.Errorf("counted: %+v", n)
		}
	})
}

func TestServer_saysWhyAStreamCannotBeResharded(t *testing.T) {
	t.Parallel()
	inTableWorld(t, func(w *tableWorld) {
		if _, err := w.server.RollTableStream("nobody"); err == nil {
			w.Error("a table that does not exist has a stream")
		}
		if _, err := w.server.SplitTableStream("orders", "shardId-1"); err == nil {
			w.Error("a shard that does not exist was split")
		}
		children, err := w.server.SplitTableStream("orders", "")
		if err != nil || len(children) != 2 {
			w.Errorf("split into %v (%v), want 2 shards", children, err)
		}
	})
}

func TestObserveItems_namesTheRecordOfTheTablesStream(t *testing.T) {
	t.Parallel()
	inTableWorld(t, func(w *tableWorld) {
		var told [][2]string
		w.server.ObserveItems(func(c emulator.ItemChange) { told = append(told, [2]string{c.Shard, c.SequenceNumber}) })
		w.put("a")
		w.put("a") // leaves it as it was: no record
		if _, err := w.server.RollTableStream("orders"); err != nil {
			w.Fatal(err)
		}
		w.put("b")
		var want [][2]string
		for _, s := range w.shards() {
			it, err := w.streams.GetShardIterator(w.Context(), &dynamodbstreams.GetShardIteratorInput{
				StreamArn: &w.arn, ShardId: s.ShardId, ShardIteratorType: types.ShardIteratorTypeTrimHorizon,
			})
			if err != nil {
				w.Fatal(err)
			}
			out, err := w.streams.GetRecords(w.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: it.ShardIterator})
			if err != nil {
				w.Fatal(err)
			}
			for _, r := range out.Records {
				want = append(want, [2]string{*s.ShardId, *r.Dynamodb.SequenceNumber})
			}
		}
		want = [][2]string{want[0], {}, want[1]}
		if !slices.Equal(told, want) {
			w.Errorf("observed %q, want %q", told, want)
		}
	})
}
