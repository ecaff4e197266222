package dynamodb_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"testing"

	"github.com/shardlease/shardlease/emulator/internal/dynamodb"
	"github.com/shardlease/shardlease/emulator/internal/wire"
)

// nowhere is a response writer that keeps nothing.
type nowhere struct{ header http.Header }

func (w nowhere) Header() http.Header         { return w.header }
func (w nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (w nowhere) WriteHeader(int)             {}
func (w nowhere) SetBody([]byte)              {}

func serve(service *dynamodb.DynamoDB, operation string, body []byte) {
	service.ServeHTTP(nowhere{http.Header{}}, &http.Request{
		Method: http.MethodPost, Header: http.Header{"X-Amz-Target": {"DynamoDB_20120810." + operation}}, Body: wire.NewBody(body), ContentLength: int64(len(body)),
	})
}

func fill(tb testing.TB, service *dynamodb.DynamoDB, rows int) {
	tb.Helper()
	for i := range rows {
		must(tb, service, "PutItem", fmt.Sprintf(`{"TableName":"APP","Item":{"leaseKey":{"S":"shardId-%012d"},"leaseOwner":{"S":"worker-%d"},"leaseCounter":{"N":"0"},
			"checkpoint":{"S":"49680680744586091831359213397989869112151214331099348994"},"checkpointSubSequenceNumber":{"N":"0"},"ownerSwitchesSinceCheckpoint":{"N":"0"},
			"startingHashKey":{"S":"0"},"endingHashKey":{"S":"85070591730234615865843651857942052862"},"tenure":{"M":{"worker":{"S":"w"},"nonce":{"S":"x/1"},"at":{"N":"0"},"failoverMillis":{"N":"10000"}}}}}`, i, i%100))
	}
}

// BenchmarkUpdateItem_withCondition is a renewal on a table of 100,000 rows, from the body to the answer.
func BenchmarkUpdateItem_withCondition(b *testing.B) {
	service := withLeases(b)
	fill(b, service, 100_000)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		body := fmt.Appendf(nil, `{"TableName":"APP","Key":{"leaseKey":{"S":"shardId-000000012345"}},"UpdateExpression":"SET leaseCounter = :n, #t = :t",
			"ConditionExpression":"leaseCounter = :c AND leaseOwner = :o AND #t.#a = leaseCounter","ExpressionAttributeNames":{"#t":"tenure","#a":"at"},
			"ExpressionAttributeValues":{":n":{"N":"%d"},":c":{"N":"%d"},":o":{"S":"worker-45"},":t":{"M":{"worker":{"S":"w"},"nonce":{"S":"x/1"},"at":{"N":"%d"},"failoverMillis":{"N":"10000"}}}},
			"ReturnValues":"ALL_NEW","ReturnValuesOnConditionCheckFailure":"ALL_OLD"}`, n+1, n, n+1)
		serve(service, "UpdateItem", body)
		n++
	}
	out := must(b, service, "GetItem", `{"TableName":"APP","Key":{"leaseKey":{"S":"shardId-000000012345"}}}`)
	if got := out["Item"].(object)["leaseCounter"].(object)["N"]; got != strconv.Itoa(n) {
		b.Fatalf("counter %v after %d renewals", got, n)
	}
}

// BenchmarkScan_page is one page of 1 MB out of 100,000 rows.
func BenchmarkScan_page(b *testing.B) {
	service := withLeases(b)
	fill(b, service, 100_000)
	body := bytes.TrimSpace([]byte(`{"TableName":"APP","ExclusiveStartKey":{"leaseKey":{"S":"shardId-000000012345"}}}`))
	b.ReportAllocs()
	for b.Loop() {
		serve(service, "Scan", body)
	}
}
