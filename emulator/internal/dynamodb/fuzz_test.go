package dynamodb_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/shardlease/shardlease/internal/golden"
)

// FuzzRequest sends arbitrary bodies: each gets a decodable answer, of status 200 or with a typed error, and a second
// identical read gets the same.
func FuzzRequest(f *testing.F) {
	for _, r := range golden.Requests(f) {
		f.Add(r.Target[len("DynamoDB_20120810."):], string(r.Body))
	}
	f.Add("BatchWriteItem", `{"RequestItems":{"APP":[{"PutRequest":{"Item":{"leaseKey":{"S":"a"}}}}]}}`)
	f.Add("BatchGetItem", `{"RequestItems":{"APP":{"Keys":[{"leaseKey":{"S":"a"}}]}}}`)
	f.Add("Query", `{"TableName":"APP","KeyConditions":{"leaseKey":{"ComparisonOperator":"EQ","AttributeValueList":[{"S":"a"}]}}}`)
	f.Fuzz(func(t *testing.T, operation, body string) {
		service := withLeases(t)
		must(t, service, "UpdateTable", addIndex)
		must(t, service, "PutItem", sample)
		status, out := raw(t, service, operation, body)
		if _, typed := out["__type"].(string); (status == 200) == typed {
			t.Fatalf("status %d with %v", status, out)
		}
		for _, read := range []string{"Scan", "DescribeTable"} {
			if status, out := raw(t, service, read, `{"TableName":"APP"}`); status == 500 {
				t.Fatalf("%s after it: %v", read, out)
			}
		}
	})
}

// FuzzExpressions compiles arbitrary texts in each place where one can stand. What is taken must be taken again, with the same
// effect: parsed programs are shared.
func FuzzExpressions(f *testing.F) {
	for _, text := range []string{
		"n = :v AND (attribute_exists(a.b[1]) OR NOT size(l) > :v)", "a BETWEEN :v AND :w", "a IN (:v, :w)", "begins_with(s, :v)",
		"SET a = if_not_exists(a, :v) + :w, l[0] = list_append(l, :v) REMOVE m.x ADD n :v DELETE ss :w", "a, b.c, l[3]", "leaseKey = :v AND n > :w", "#n = :v", "((", "a[99999999999999999999]",
	} {
		f.Add(text, "1")
	}
	f.Fuzz(func(t *testing.T, text, number string) {
		service := withLeases(t)
		must(t, service, "PutItem", sample)
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		value, err := json.Marshal(number)
		if err != nil {
			t.Fatal(err)
		}
		for operation, form := range map[string]string{
			"UpdateItem": `{"TableName":"APP","Key":{"leaseKey":{"S":"k"}},"UpdateExpression":%s,"ReturnValues":"ALL_NEW"%s}`,
			"DeleteItem": `{"TableName":"APP","Key":{"leaseKey":{"S":"other"}},"ConditionExpression":%s%s}`,
			"GetItem":    `{"TableName":"APP","Key":{"leaseKey":{"S":"k"}},"ProjectionExpression":%s%s}`,
			"Query":      `{"TableName":"APP","KeyConditionExpression":%s%s}`,
			"Scan":       `{"TableName":"APP","FilterExpression":%s%s}`,
		} {
			for _, values := range []string{"", `,"ExpressionAttributeValues":{":v":{"N":` + string(value) + `}}`, `,"ExpressionAttributeValues":{":v":{"S":"he"},":w":{"SS":["a"]}},"ExpressionAttributeNames":{"#n":"n"}`} {
				body := fmt.Sprintf(form, quoted, values)
				first, out := raw(t, service, operation, body)
				if first != 200 && first != 400 {
					t.Fatalf("%s %s: %d %v", operation, body, first, out)
				}
				if second, _ := raw(t, service, operation, body); operation != "UpdateItem" && second != first {
					t.Fatalf("%s %s: %d, then %d", operation, body, first, second)
				}
			}
		}
	})
}
