package emulator_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardlease/shardlease/emulator"
)

func TestObserveItems_tellsEachWriteThatTookEffectInOrder(t *testing.T) {
	t.Parallel()
	s := emulator.New()
	table := "rows"
	client := dynamodb.NewFromConfig(s.ClientConfig("writer"), func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
	if _, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: &table, BillingMode: types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
	}); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var got []string
	stop := s.ObserveItems(func(c emulator.ItemChange) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, fmt.Sprintf("%s %s %q -> %q %v", c.Client, c.Table, c.Old.Text("map", "n"), c.New.Text("map", "n"), c.New.Members("set")))
	})
	key := map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: "a"}}
	write := func(n, condition string) error {
		_, err := client.UpdateItem(context.WithoutCancel(t.Context()), &dynamodb.UpdateItemInput{
			TableName: &table, Key: key, UpdateExpression: aws.String("SET #m = :m, #s = :s"), ConditionExpression: aws.String(condition),
			ExpressionAttributeNames: map[string]string{"#m": "map", "#s": "set"},
			ExpressionAttributeValues: map[string]types.AttributeValue{
				":m": &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{"n": &types.AttributeValueMemberN{Value: n}}},
				":s": &types.AttributeValueMemberSS{Value: []string{"y", "x"}},
			},
		})
		return err
	}
	if err := write("1", "attribute_not_exists(id)"); err != nil {
		t.Fatal(err)
	}
	if err := write("2", "attribute_not_exists(id)"); err == nil {
		t.Error("a write whose condition fails was accepted")
	}
	s.Inject(emulator.Rule{Operation: "UpdateItem", Times: 1, Effect: emulator.DropReply()})
	if err := write("3", "attribute_exists(id)"); err == nil {
		t.Error("a write whose reply is dropped was answered")
	}
	if _, err := client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &table, Key: key}); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := write("4", "attribute_not_exists(id)"); err != nil {
		t.Fatal(err)
	}
	want := []string{`writer rows "" -> "1" [x y]`, `writer rows "1" -> "3" [x y]`, `writer rows "3" -> "" []`}
	if !slices.Equal(got, want) {
		t.Errorf("observed %q, want %q", got, want)
	}
}
