package dynamodb_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/emulator/internal/dynamodb"
)

// inProcess lets the SDK call a handler without a socket.
type inProcess struct{ http.Handler }

func (h inProcess) Do(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	if r.Body == nil {
		r.Body = http.NoBody
	}
	h.ServeHTTP(w, r)
	return w.Result(), nil
}

// connect is the real SDK's client on a service; nothing is ever sent twice.
func connect(service *dynamodb.DynamoDB) *sdk.Client {
	return sdk.New(sdk.Options{
		Region: "us-east-1", BaseEndpoint: aws.String("http://emulator"), HTTPClient: inProcess{service}, Retryer: aws.NopRetryer{},
		Credentials: aws.CredentialsProviderFunc(anyCredentials),
	})
}

// raw sends a body as it is and returns the status and the decoded answer.
func raw(tb testing.TB, service http.Handler, operation, body string) (int, map[string]any) {
	tb.Helper()
	r := httptest.NewRequest(http.MethodPost, "http://emulator/", strings.NewReader(body))
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	w := httptest.NewRecorder()
	service.ServeHTTP(w, r)
	var out map[string]any
	if err := json.NewDecoder(bytes.NewReader(w.Body.Bytes())).Decode(&out); err != nil {
		tb.Fatalf("%s answered %q: %v", operation, w.Body, err)
	}
	return w.Code, out
}

// must sends a body that has to succeed.
func must(tb testing.TB, service http.Handler, operation, body string) map[string]any {
	tb.Helper()
	status, out := raw(tb, service, operation, body)
	if status != http.StatusOK {
		tb.Fatalf("%s %s: %d %v", operation, body, status, out)
	}
	return out
}

// expect sends a body and compares the answer: want is JSON, or, for a refusal, "Code: message".
func expect(tb testing.TB, service http.Handler, operation, body, want string) {
	tb.Helper()
	status, out := raw(tb, service, operation, body)
	if status != http.StatusOK {
		_, code, _ := strings.Cut(out["__type"].(string), "#")
		message, _ := out["message"].(string)
		if got := code + ": " + message; got != want {
			tb.Errorf("%s %s\n got %s\nwant %s", operation, body, got, want)
		}
		return
	}
	var parsed map[string]any
	if err := json.Unmarshal([]byte(want), &parsed); err != nil {
		tb.Errorf("%s %s\n got %v\nwant %s", operation, body, out, want)
		return
	}
	if diff := cmp.Diff(parsed, out); diff != "" {
		tb.Errorf("%s %s: (-want +got)\n%s", operation, body, diff)
	}
}

const leaseTable = `{"TableName":"APP","BillingMode":"PAY_PER_REQUEST",
	"AttributeDefinitions":[{"AttributeName":"leaseKey","AttributeType":"S"}],"KeySchema":[{"AttributeName":"leaseKey","KeyType":"HASH"}]}`

// withLeases is a service with an empty lease table named APP.
func withLeases(tb testing.TB) *dynamodb.DynamoDB {
	tb.Helper()
	service := &dynamodb.DynamoDB{}
	must(tb, service, "CreateTable", leaseTable)
	return service
}

func anyCredentials(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "AKID", SecretAccessKey: "secret"}, nil
}
