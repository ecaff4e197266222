package dynamodb_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/emulator/internal/dynamodb"
)

func TestTransactWriteItems_appliesAllOrNothing(t *testing.T) {
	t.Parallel()
	service := withLeases(t)
	must(t, service, "CreateTable", strings.Replace(leaseTable, `"APP"`, `"OLD"`, 1))
	must(t, service, "PutItem", `{"TableName":"APP","Item":{"leaseKey":{"S":"a"},"n":{"N":"1"}}}`)
	must(t, service, "PutItem", `{"TableName":"OLD","Item":{"leaseKey":{"S":"x"}}}`)
	actions := func(seen string) string {
		return `{"TransactItems":[
			{"ConditionCheck":{"TableName":"APP","Key":{"leaseKey":{"S":"a"}},"ConditionExpression":"n = :n","ExpressionAttributeValues":{":n":{"N":"` + seen + `"}},"ReturnValuesOnConditionCheckFailure":"ALL_OLD"}},
			{"Put":{"TableName":"APP","Item":{"leaseKey":{"S":"x"}},"ConditionExpression":"attribute_not_exists(leaseKey)"}},
			{"Update":{"TableName":"APP","Key":{"leaseKey":{"S":"b"}},"UpdateExpression":"ADD n :n","ExpressionAttributeValues":{":n":{"N":"5"}}}},
			{"Delete":{"TableName":"OLD","Key":{"leaseKey":{"S":"x"}}}}]}`
	}
	status, out := raw(t, service, "TransactWriteItems", actions("2"))
	want := map[string]any{
		"__type":  "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
		"message": "Transaction cancelled, please refer cancellation reasons for specific reasons [ConditionalCheckFailed, None, None, None]",
		"Message": "Transaction cancelled, please refer cancellation reasons for specific reasons [ConditionalCheckFailed, None, None, None]",
		"CancellationReasons": []any{
			object{"Code": "ConditionalCheckFailed", "Message": "The conditional request failed", "Item": object{"leaseKey": object{"S": "a"}, "n": object{"N": "1"}}},
			object{"Code": "None"},
			object{"Code": "None"},
			object{"Code": "None"},
		},
	}
	if diff := cmp.Diff(want, out); status != 400 || diff != "" {
		t.Errorf("status %d (-want +got)\n%s", status, diff)
	}
	expect(t, service, "Scan", `{"TableName":"APP","Select":"COUNT"}`, `{"Count":1,"ScannedCount":1}`)
	expect(t, service, "Scan", `{"TableName":"OLD","Select":"COUNT"}`, `{"Count":1,"ScannedCount":1}`)

	must(t, service, "TransactWriteItems", actions("1"))
	expect(t, service, "TransactGetItems", `{"TransactItems":[{"Get":{"TableName":"APP","Key":{"leaseKey":{"S":"b"}}}},{"Get":{"TableName":"OLD","Key":{"leaseKey":{"S":"x"}}}},{"Get":{"TableName":"APP","Key":{"leaseKey":{"S":"a"}},"ProjectionExpression":"n"}}]}`,
		`{"Responses":[{"Item":{"leaseKey":{"S":"b"},"n":{"N":"5"}}},{},{"Item":{"n":{"N":"1"}}}]}`)

	const v = "ValidationException: "
	for body, want := range map[string]string{
		`{"TransactItems":[]}`: v + "1 validation error detected: Value at 'transactItems' failed to satisfy constraint: Member must have length between 1 and 100; it has 0",
		`{"TransactItems":[{"Delete":{"TableName":"APP","Key":{"leaseKey":{"S":"a"}}}},{"Put":{"TableName":"APP","Item":{"leaseKey":{"S":"a"}}}}]}`: v + "Transaction request cannot include multiple operations on one item",
		`{"TransactItems":[{"Delete":{"TableName":"APP","Key":{"leaseKey":{"S":"a"}}},"Put":{"TableName":"APP","Item":{"leaseKey":{"S":"a"}}}}]}`:   v + "TransactItems can only contain one of Check, Put, Update or Delete",
		`{"TransactItems":[{"Update":{"TableName":"APP","Key":{"leaseKey":{"S":"a"}}}}]}`:                                                           v + "The parameter 'UpdateExpression' is required but was not present in the request",
		`{"TransactItems":[{"Put":{"TableName":"APP","Item":{"leaseKey":{"S":"a"}},"Expected":{}}}]}`:                                               v + "TransactWriteItems.TransactItems[0].Put: the emulator does not know the parameter Expected",
		`{"TransactItems":[{"Put":{"TableName":"NIX","Item":{"leaseKey":{"S":"a"}}}}]}`:                                                             "ResourceNotFoundException: Requested resource not found",
		`{"TransactItems":[{"Put":{"TableName":"APP","Item":{"n":{"S":"a"}}}}]}`:                                                                    "TransactionCanceledException: Transaction cancelled, please refer cancellation reasons for specific reasons [ValidationError]",
	} {
		expect(t, service, "TransactWriteItems", body, want)
	}
}

func TestTransactWriteItems_isDoneOncePerToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		service := withLeases(t)
		add := func(n string) string {
			return `{"ClientRequestToken":"token-1","TransactItems":[{"Update":{"TableName":"APP","Key":{"leaseKey":{"S":"a"}},"UpdateExpression":"ADD n :n","ExpressionAttributeValues":{":n":{"N":"` + n + `"}}}}]}`
		}
		is := func(want string) {
			t.Helper()
			expect(t, service, "GetItem", `{"TableName":"APP","Key":{"leaseKey":{"S":"a"}},"ProjectionExpression":"n"}`, `{"Item":{"n":{"N":"`+want+`"}}}`)
		}
		must(t, service, "TransactWriteItems", add("1"))
		must(t, service, "TransactWriteItems", add("1"))
		is("1")
		expect(t, service, "TransactWriteItems", add("2"), "IdempotentParameterMismatchException: The request uses the same client token as a previous, but non-identical request. Do not reuse a client token with different requests, unless the requests are identical")
		time.Sleep(10 * time.Minute)
		must(t, service, "TransactWriteItems", add("1"))
		is("2")
	})
}

func TestBatches_standForTheirSingleCalls(t *testing.T) {
	t.Parallel()
	service := withLeases(t)
	put := func(from, to int) string {
		var parts []string
		for i := from; i < to; i++ {
			parts = append(parts, fmt.Sprintf(`{"PutRequest":{"Item":{"leaseKey":{"S":"k%d"},"n":{"N":"%d"}}}}`, i, i))
		}
		return `{"RequestItems":{"APP":[` + strings.Join(parts, ",") + `]}}`
	}
	expect(t, service, "BatchWriteItem", put(0, 25), `{"UnprocessedItems":{}}`)
	expect(t, service, "BatchWriteItem", put(0, 26), "ValidationException: Too many items requested for the BatchWriteItem call")
	expect(t, service, "BatchWriteItem", `{"RequestItems":{"APP":[{"DeleteRequest":{"Key":{"leaseKey":{"S":"k1"}}}},{"PutRequest":{"Item":{"leaseKey":{"S":"k1"}}}}]}}`,
		"ValidationException: Provided list of item keys contains duplicates")
	expect(t, service, "BatchWriteItem", `{"RequestItems":{"APP":[]}}`, "ValidationException: The batch write request list for a table cannot be null or empty")
	expect(t, service, "BatchWriteItem", `{"RequestItems":{"APP":[{"DeleteRequest":{"Key":{"leaseKey":{"S":"k1"}}}}]},"ReturnConsumedCapacity":"TOTAL"}`,
		`{"UnprocessedItems":{},"ConsumedCapacity":[{"TableName":"APP","CapacityUnits":1}]}`)
	expect(t, service, "BatchGetItem", `{"RequestItems":{"APP":{"Keys":[{"leaseKey":{"S":"k0"}},{"leaseKey":{"S":"k1"}},{"leaseKey":{"S":"k2"}}],"ProjectionExpression":"n"}}}`,
		`{"Responses":{"APP":[{"n":{"N":"0"}},{"n":{"N":"2"}}]},"UnprocessedKeys":{}}`)
	expect(t, service, "BatchGetItem", `{"RequestItems":{"APP":{"Keys":[{"leaseKey":{"S":"k0"}},{"leaseKey":{"S":"k0"}}]}}}`,
		"ValidationException: Provided list of item keys contains duplicates")
	expect(t, service, "BatchGetItem", `{"RequestItems":{}}`,
		"ValidationException: 1 validation error detected: Value '{}' at 'requestItems' failed to satisfy constraint: Member must have length greater than or equal to 1")
	expect(t, service, "Scan", `{"TableName":"APP","Select":"COUNT"}`, `{"Count":24,"ScannedCount":24}`)
}

func TestCapacity_isReportedAsTheServiceCountsIt(t *testing.T) {
	t.Parallel()
	service := withLeases(t)
	must(t, service, "UpdateTable", addIndex)
	used := func(operation, body string, want float64) {
		t.Helper()
		_, out := raw(t, service, operation, strings.TrimSuffix(body, "}")+`,"ReturnConsumedCapacity":"TOTAL"}`)
		got, _ := out["ConsumedCapacity"].(object)
		if got["CapacityUnits"] != want {
			t.Errorf("%s %.120s used %v, want %v", operation, body, got["CapacityUnits"], want)
		}
	}
	big := func(n int) string {
		return `{"TableName":"APP","Item":{"leaseKey":{"S":"big"},"v":{"S":"` + strings.Repeat("x", n) + `"}}}`
	}
	used("PutItem", `{"TableName":"APP","Item":{"leaseKey":{"S":"a"}}}`, 1)
	used("PutItem", big(5000), 5)
	used("PutItem", big(10), 5) // the larger of old and new
	used("PutItem", big(9000), 9)
	used("GetItem", `{"TableName":"APP","Key":{"leaseKey":{"S":"big"}},"ConsistentRead":true}`, 3)
	used("GetItem", `{"TableName":"APP","Key":{"leaseKey":{"S":"big"}}}`, 1.5)
	used("GetItem", `{"TableName":"APP","Key":{"leaseKey":{"S":"none"}}}`, 0.5)
	used("Scan", `{"TableName":"APP","ConsistentRead":true}`, 3)
	used("UpdateItem", `{"TableName":"APP","Key":{"leaseKey":{"S":"a"}},"UpdateExpression":"SET leaseOwner = :o","ExpressionAttributeValues":{":o":{"S":"w"}}}`, 2)  // into the index
	used("UpdateItem", `{"TableName":"APP","Key":{"leaseKey":{"S":"a"}},"UpdateExpression":"SET leaseOwner = :o","ExpressionAttributeValues":{":o":{"S":"w2"}}}`, 3) // out of it and in
	used("UpdateItem", `{"TableName":"APP","Key":{"leaseKey":{"S":"a"}},"UpdateExpression":"SET n = :o","ExpressionAttributeValues":{":o":{"S":"w2"}}}`, 1)          // not projected
	expect(t, service, "PutItem", `{"TableName":"APP","Item":{"leaseKey":{"S":"b"},"leaseOwner":{"S":"w"}},"ReturnConsumedCapacity":"INDEXES"}`,
		`{"ConsumedCapacity":{"TableName":"APP","CapacityUnits":2,"Table":{"CapacityUnits":1},"GlobalSecondaryIndexes":{"owners":{"CapacityUnits":1}}}}`)
}

const provisioned = `{"TableName":"APP","ProvisionedThroughput":{"ReadCapacityUnits":10,"WriteCapacityUnits":5},
	"AttributeDefinitions":[{"AttributeName":"leaseKey","AttributeType":"S"}],"KeySchema":[{"AttributeName":"leaseKey","KeyType":"HASH"}]}`

func TestLimits_throttleAProvisionedTable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		service := &dynamodb.DynamoDB{Limits: true}
		must(t, service, "CreateTable", provisioned)
		burst := func() (taken int) {
			for i := range 5000 {
				code, out := raw(t, service, "PutItem", fmt.Sprintf(`{"TableName":"APP","Item":{"leaseKey":{"S":"k%d"}}}`, i))
				if code != 200 {
					if !strings.HasSuffix(out["__type"].(string), "#ProvisionedThroughputExceededException") {
						t.Fatalf("%v", out)
					}
					return i
				}
			}
			return 5000
		}
		for _, step := range []struct {
			idle time.Duration
			want int
		}{{0, 5}, {time.Second, 5}, {20 * time.Second, 100}, {time.Hour, 1500}} { // 300 s of unused capacity are saved
			time.Sleep(step.idle)
			if got := burst(); got != step.want {
				t.Errorf("after %v %d writes passed, want %d", step.idle, got, step.want)
			}
		}
		time.Sleep(400 * time.Millisecond) // two units
		out := must(t, service, "BatchWriteItem", `{"RequestItems":{"APP":[{"DeleteRequest":{"Key":{"leaseKey":{"S":"k1"}}}},{"DeleteRequest":{"Key":{"leaseKey":{"S":"k2"}}}},{"DeleteRequest":{"Key":{"leaseKey":{"S":"k3"}}}}]}}`)
		want := object{"APP": []any{object{"DeleteRequest": object{"Key": object{"leaseKey": object{"S": "k3"}}}}}}
		if diff := cmp.Diff(any(want), out["UnprocessedItems"]); diff != "" {
			t.Errorf("unprocessed (-want +got)\n%s", diff)
		}
		_, out = raw(t, service, "TransactWriteItems", `{"TransactItems":[{"Delete":{"TableName":"APP","Key":{"leaseKey":{"S":"k3"}}}}]}`)
		if reasons, _ := out["CancellationReasons"].([]any); len(reasons) != 1 || reasons[0].(object)["Code"] != "ProvisionedThroughputExceeded" {
			t.Errorf("a throttled transaction answered %v", out)
		}
		expect(t, service, "GetItem", `{"TableName":"APP","Key":{"leaseKey":{"S":"k3"}}}`, `{"Item":{"leaseKey":{"S":"k3"}}}`) // reads have units of their own
	})
}
