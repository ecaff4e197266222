package shardlease_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/fleettest"
	"github.com/shardlease/shardlease/shardsync"
)

// The id of a shard does not tell to which stream it belongs, and a shard that has left a stream is not listed, like one that was never
// there. So the row names the stream. Without that, a worker of the wrong table finished the leases of the right one, whose records
// were never read then.
func TestDynamoStreams_aWorkerOfAnotherTableFinishesNothing(t *testing.T) {
	t.Parallel()
	overTable(t, func(t *testing.T, f *fleettest.TableFleet) {
		bills, err := f.DynamoDB.CreateTable(t.Context(), &dynamodb.CreateTableInput{
			TableName: aws.String("bills"), BillingMode: types.BillingModePayPerRequest,
			AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
			KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
			StreamSpecification:  &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages},
		})
		if err != nil {
			t.Fatal(err)
		}
		w := f.StartOnTable("w1")
		time.Sleep(time.Hour) // shards have rolled and left both streams
		f.PutItems(50, 5)
		f.WaitDelivered(time.Minute)
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
		f.PutItems(50, 5)
		before := f.Rows()

		right := f.ARN
		f.ARN = *bills.TableDescription.LatestStreamArn
		err = f.StartOnTable("w2").Wait()
		if !errors.Is(err, shardsync.ErrOtherHistory) || !strings.Contains(err.Error(), right) || !strings.Contains(err.Error(), f.ARN) {
			t.Errorf("Run over another table's stream returned %v, want one that names both streams", err)
		}
		if diff := cmp.Diff(before, f.Rows(), cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
			t.Errorf("it changed rows (-before +after):\n%s", diff)
		}

		f.ARN = right
		f.StartOnTable("w3")
		f.WaitDelivered(5 * time.Minute)
		f.Check()
	}, emulator.WithTableStreamShardLife(3*time.Minute), emulator.WithTableStreamRetention(9*time.Minute))
}

// The workers of the old stream still run when the first one of the next stream starts. They take leases of it, and must not take its
// shards for ones that have left their own.
func TestDynamoStreams_aRollingDeploymentToTheNextStreamLosesNothing(t *testing.T) {
	t.Parallel()
	overTable(t, func(t *testing.T, f *fleettest.TableFleet) {
		old := f.StartOnTable("old")
		f.PutItems(50, 5)
		f.WaitDelivered(time.Minute)
		f.Enable(false)
		time.Sleep(time.Minute)
		f.Enable(true)
		f.PutItems(200, 20)
		f.StartOnTable("new")
		if err := old.Wait(); !errors.Is(err, shardsync.ErrOtherHistory) || !strings.Contains(err.Error(), "set StreamARN to that earlier or later stream of the table") {
			t.Errorf("Run over the old stream returned %v, want one that says that there are leases of another stream", err)
		}
		f.WaitDelivered(5 * time.Minute)
		f.Check()
	}, emulator.WithTableStreamShards(4))
}

func TestDynamoStreams_aStreamThatWasDisabledForSecondsIsNotGivenUp(t *testing.T) {
	t.Parallel()
	overTable(t, func(t *testing.T, f *fleettest.TableFleet) {
		w := f.StartOnTable("w1")
		f.PutItems(50, 5)
		f.WaitDelivered(time.Minute)
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
		f.PutItems(50, 5)
		old := f.ARN
		f.Enable(false)
		time.Sleep(10 * time.Second)
		f.Enable(true)
		if err := f.StartOnTable("w2").Wait(); !errors.Is(err, shardsync.ErrOtherHistory) || !strings.Contains(err.Error(), old) {
			t.Errorf("Run over the next stream returned %v, want one that names the earlier stream", err)
		}
		f.ARN = old
		f.StartOnTable("w3")
		f.WaitDelivered(5 * time.Minute)
		f.Check()
	})
}
