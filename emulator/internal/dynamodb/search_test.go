package dynamodb_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/emulator/internal/dynamodb"
)

// events is a table with hash key h (S), sort key r (N) and two indexes: byG, of everything, and owners, of keys only.
const events = `{"TableName":"EVT","BillingMode":"PAY_PER_REQUEST",
	"AttributeDefinitions":[{"AttributeName":"h","AttributeType":"S"},{"AttributeName":"r","AttributeType":"N"},{"AttributeName":"g","AttributeType":"S"}],
	"KeySchema":[{"AttributeName":"h","KeyType":"HASH"},{"AttributeName":"r","KeyType":"RANGE"}],
	"GlobalSecondaryIndexes":[
		{"IndexName":"byG","KeySchema":[{"AttributeName":"g","KeyType":"HASH"},{"AttributeName":"r","KeyType":"RANGE"}],"Projection":{"ProjectionType":"ALL"}},
		{"IndexName":"owners","KeySchema":[{"AttributeName":"g","KeyType":"HASH"}],"Projection":{"ProjectionType":"KEYS_ONLY"}},
		{"IndexName":"some","KeySchema":[{"AttributeName":"g","KeyType":"HASH"}],"Projection":{"ProjectionType":"INCLUDE","NonKeyAttributes":["v"]}}]}`

func withEvents(tb testing.TB) *dynamodb.DynamoDB {
	tb.Helper()
	service := &dynamodb.DynamoDB{}
	must(tb, service, "CreateTable", events)
	for i, r := range []string{"-10", "-2.5", "0", "1", "2", "10", "1e3"} {
		for _, h := range []string{"a", "b"} {
			g := ""
			if i%2 == 0 {
				g = `,"g":{"S":"x"}`
			}
			must(tb, service, "PutItem", fmt.Sprintf(`{"TableName":"EVT","Item":{"h":{"S":%q},"r":{"N":%q},"v":{"N":"%d"},"w":{"S":"w"}%s}}`, h, r, i, g))
		}
	}
	return service
}

// found are h and r of the items of an answer.
func found(out map[string]any) string {
	var all []string
	items, _ := out["Items"].([]any)
	for _, item := range items {
		i := item.(object)
		all = append(all, i["h"].(object)["S"].(string)+i["r"].(object)["N"].(string))
	}
	return strings.Join(all, " ")
}

func TestQuery_findsInOrder(t *testing.T) {
	t.Parallel()
	service := withEvents(t)
	for _, c := range []struct{ rest, want string }{
		{`"KeyConditionExpression":"h = :h","ExpressionAttributeValues":{":h":{"S":"a"}}`, "a-10 a-2.5 a0 a1 a2 a10 a1000"},
		{`"KeyConditionExpression":"h = :h","ExpressionAttributeValues":{":h":{"S":"a"}},"ScanIndexForward":false`, "a1000 a10 a2 a1 a0 a-2.5 a-10"},
		{`"KeyConditionExpression":"h = :h AND r > :r","ExpressionAttributeValues":{":h":{"S":"a"},":r":{"N":"1"}}`, "a2 a10 a1000"},
		{`"KeyConditionExpression":"r <= :r AND h = :h","ExpressionAttributeValues":{":h":{"S":"b"},":r":{"N":"0"}}`, "b-10 b-2.5 b0"},
		{`"KeyConditionExpression":"(h = :h) AND (r BETWEEN :r AND :s)","ExpressionAttributeValues":{":h":{"S":"a"},":r":{"N":"0"},":s":{"N":"2"}}`, "a0 a1 a2"},
		{`"KeyConditionExpression":"#h = :h AND r = :r","ExpressionAttributeNames":{"#h":"h"},"ExpressionAttributeValues":{":h":{"S":"a"},":r":{"N":"1000"}}`, "a1000"},
		{`"KeyConditionExpression":"h = :h","ExpressionAttributeValues":{":h":{"S":"nobody"}}`, ""},
		{`"KeyConditionExpression":"h = :h","FilterExpression":"v > :v","ExpressionAttributeValues":{":h":{"S":"a"},":v":{"N":"4"}}`, "a10 a1000"},
		{`"KeyConditionExpression":"h = :h","ExpressionAttributeValues":{":h":{"S":"a"}},"ExclusiveStartKey":{"h":{"S":"a"},"r":{"N":"1.5"}}`, "a2 a10 a1000"},
		{`"KeyConditionExpression":"h = :h","ExpressionAttributeValues":{":h":{"S":"a"}},"ScanIndexForward":false,"ExclusiveStartKey":{"h":{"S":"a"},"r":{"N":"1"}}`, "a0 a-2.5 a-10"},
		{`"KeyConditions":{"h":{"ComparisonOperator":"EQ","AttributeValueList":[{"S":"a"}]},"r":{"ComparisonOperator":"GT","AttributeValueList":[{"N":"2"}]}}`, "a10 a1000"},
		{`"KeyConditions":{"h":{"ComparisonOperator":"EQ","AttributeValueList":[{"S":"a"}]}},"QueryFilter":{"v":{"ComparisonOperator":"LT","AttributeValueList":[{"N":"2"}]}}`, "a-10 a-2.5"},
		{`"IndexName":"owners","KeyConditionExpression":"g = :g","ExpressionAttributeValues":{":g":{"S":"x"}},"Limit":3`, "a-10 a0 a2"},
		{`"IndexName":"byG","KeyConditionExpression":"g = :g AND r < :r","ExpressionAttributeValues":{":g":{"S":"x"},":r":{"N":"1"}},"ScanIndexForward":false`, "b0 a0 b-10 a-10"},
	} {
		got := found(must(t, service, "Query", `{"TableName":"EVT",`+c.rest+`}`))
		if strings.Contains(c.rest, "owners") { // without a sort key the order within the index is the table's own
			if n := len(strings.Fields(got)); n != 3 {
				t.Errorf("%s: %s, want 3 items", c.rest, got)
			}
			continue
		}
		if strings.Contains(c.rest, "byG") { // equal sort keys: likewise
			got = regroup(got)
		}
		if got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.rest, got, c.want)
		}
	}
}

// regroup puts b before a among neighbours with the same number.
func regroup(s string) string {
	f := strings.Fields(s)
	for i := 0; i+1 < len(f); i += 2 {
		if f[i] < f[i+1] {
			f[i], f[i+1] = f[i+1], f[i]
		}
	}
	return strings.Join(f, " ")
}

func TestQuery_refusesWhatItCannotDo(t *testing.T) {
	t.Parallel()
	service := withEvents(t)
	const v = "ValidationException: "
	for rest, want := range map[string]string{
		`"Limit":1`: v + "Either the KeyConditions or KeyConditionExpression parameter must be specified in the request.",
		`"KeyConditionExpression":"r = :r","ExpressionAttributeValues":{":r":{"N":"1"}}`:                                                   v + "Query condition missed key schema element: h",
		`"KeyConditionExpression":"h = :h AND v = :h","ExpressionAttributeValues":{":h":{"S":"a"}}`:                                        v + "Query condition missed key schema element: r",
		`"KeyConditionExpression":"h > :h","ExpressionAttributeValues":{":h":{"S":"a"}}`:                                                   v + "Query key condition not supported",
		`"KeyConditionExpression":"h = :h OR h = :h","ExpressionAttributeValues":{":h":{"S":"a"}}`:                                         v + "Invalid operator used in KeyConditionExpression: OR",
		`"KeyConditionExpression":"h = :h AND contains(r, :h)","ExpressionAttributeValues":{":h":{"S":"a"}}`:                               v + "Invalid operator used in KeyConditionExpression: contains",
		`"KeyConditionExpression":"h = :h","ExpressionAttributeValues":{":h":{"N":"1"}}`:                                                   v + "One or more parameter values were invalid: Condition parameter type does not match schema type",
		`"KeyConditionExpression":"h = :h","FilterExpression":"r = :r","ExpressionAttributeValues":{":h":{"S":"a"},":r":{"N":"1"}}`:        v + "Filter Expression can only contain non-primary key attributes: Primary key attribute: r",
		`"IndexName":"none","KeyConditionExpression":"h = :h","ExpressionAttributeValues":{":h":{"S":"a"}}`:                                v + "The table does not have the specified index: none",
		`"IndexName":"byG","ConsistentRead":true,"KeyConditionExpression":"g = :h","ExpressionAttributeValues":{":h":{"S":"a"}}`:           v + "Consistent reads are not supported on global secondary indexes",
		`"IndexName":"owners","Select":"ALL_ATTRIBUTES","KeyConditionExpression":"g = :h","ExpressionAttributeValues":{":h":{"S":"a"}}`:    v + "One or more parameter values were invalid: Select type ALL_ATTRIBUTES is not supported for global secondary index owners because its projection type is not ALL",
		`"IndexName":"owners","ProjectionExpression":"w","KeyConditionExpression":"g = :h","ExpressionAttributeValues":{":h":{"S":"a"}}`:   v + "One or more parameter values were invalid: Global secondary index owners does not project [w]",
		`"KeyConditionExpression":"h = :h","ExpressionAttributeValues":{":h":{"S":"a"}},"ExclusiveStartKey":{"h":{"S":"a"}}`:               v + "The provided starting key is invalid",
		`"KeyConditionExpression":"h = :h","ExpressionAttributeValues":{":h":{"S":"a"}},"ExclusiveStartKey":{"h":{"S":"b"},"r":{"N":"1"}}`: v + "The provided starting key is outside query boundaries based on provided conditions",
		`"KeyConditionExpression":"h = :h","ExpressionAttributeValues":{":h":{"S":"a"}},"Limit":0`:                                         v + "1 validation error detected: Value '0' at 'limit' failed to satisfy constraint: Member must have value greater than or equal to 1",
	} {
		expect(t, service, "Query", `{"TableName":"EVT",`+rest+`}`, want)
	}
}

func TestQuery_showsOfAnIndexWhatItProjects(t *testing.T) {
	t.Parallel()
	service := withLeases(t)
	must(t, service, "DeleteTable", `{"TableName":"APP"}`)
	must(t, service, "CreateTable", strings.Replace(events, "EVT", "APP", 1))
	must(t, service, "PutItem", `{"TableName":"APP","Item":{"h":{"S":"a"},"r":{"N":"1"},"g":{"S":"x"},"v":{"N":"7"},"w":{"N":"8"}}}`)
	for index, want := range map[string]string{
		"byG":    `{"h":{"S":"a"},"r":{"N":"1"},"g":{"S":"x"},"v":{"N":"7"},"w":{"N":"8"}}`,
		"owners": `{"h":{"S":"a"},"r":{"N":"1"},"g":{"S":"x"}}`,
		"some":   `{"h":{"S":"a"},"r":{"N":"1"},"g":{"S":"x"},"v":{"N":"7"}}`,
	} {
		body := fmt.Sprintf(`{"TableName":"APP","IndexName":%q,"KeyConditionExpression":"g = :g","ExpressionAttributeValues":{":g":{"S":"x"}}}`, index)
		expect(t, service, "Query", body, `{"Count":1,"ScannedCount":1,"Items":[`+want+`]}`)
		must(t, service, "UpdateItem", `{"TableName":"APP","Key":{"h":{"S":"a"},"r":{"N":"1"}},"UpdateExpression":"REMOVE g"}`)
		expect(t, service, "Query", body, `{"Count":0,"ScannedCount":0,"Items":[]}`)
		must(t, service, "UpdateItem", `{"TableName":"APP","Key":{"h":{"S":"a"},"r":{"N":"1"}},"UpdateExpression":"SET g = :g","ExpressionAttributeValues":{":g":{"S":"x"}}}`)
	}
	expect(t, service, "PutItem", `{"TableName":"APP","Item":{"h":{"S":"a"},"r":{"N":"1"},"g":{"N":"1"}}}`,
		"ValidationException: One or more parameter values were invalid: Type mismatch for Index Key g Expected: S Actual: N IndexName: byG")
}

// pages follows LastEvaluatedKey until there is none.
func pages(tb testing.TB, service *dynamodb.DynamoDB, operation, rest string) (items []string, sizes []int) {
	tb.Helper()
	start := ""
	for {
		out := must(tb, service, operation, `{`+rest+start+`}`)
		if s := found(out); s != "" {
			items = append(items, strings.Fields(s)...)
		}
		sizes = append(sizes, int(out["Count"].(float64)))
		if out["LastEvaluatedKey"] == nil {
			return items, sizes
		}
		last, err := json.Marshal(out["LastEvaluatedKey"])
		if err != nil {
			tb.Fatal(err)
		}
		start = `,"ExclusiveStartKey":` + string(last)
	}
}

func TestScan_pagesAndSegmentsGiveEachItemOnce(t *testing.T) {
	t.Parallel()
	service := withEvents(t)
	all, _ := pages(t, service, "Scan", `"TableName":"EVT"`)
	if len(all) != 14 {
		t.Fatalf("scan gave %d items: %v", len(all), all)
	}
	for _, limit := range []int{1, 3, 14, 20} {
		got, sizes := pages(t, service, "Scan", fmt.Sprintf(`"TableName":"EVT","Limit":%d`, limit))
		if diff := cmp.Diff(all, got); diff != "" {
			t.Errorf("limit %d, pages of %v: (-want +got)\n%s", limit, sizes, diff)
		}
	}
	for _, total := range []int{1, 2, 5, 1000} {
		var got []string
		for s := range total {
			one, _ := pages(t, service, "Scan", fmt.Sprintf(`"TableName":"EVT","Limit":2,"TotalSegments":%d,"Segment":%d`, total, s))
			got = append(got, one...)
		}
		if diff := cmp.Diff(all, got); diff != "" {
			t.Errorf("%d segments: (-want +got)\n%s", total, diff)
		}
	}
	for _, index := range []string{"byG", "owners"} {
		got, _ := pages(t, service, "Scan", fmt.Sprintf(`"TableName":"EVT","IndexName":%q,"Limit":3`, index))
		slices.Sort(got)
		if len(slices.Compact(got)) != 8 {
			t.Errorf("scan of %s gave %v, want 8 items", index, got)
		}
		got, _ = pages(t, service, "Query", fmt.Sprintf(`"TableName":"EVT","IndexName":%q,"Limit":3,"ScanIndexForward":false,"KeyConditionExpression":"g = :g","ExpressionAttributeValues":{":g":{"S":"x"}}`, index))
		slices.Sort(got)
		if len(slices.Compact(got)) != 8 {
			t.Errorf("query of %s gave %v, want 8 items", index, got)
		}
	}
	out := must(t, service, "Scan", `{"TableName":"EVT","Select":"COUNT","FilterExpression":"v = :v","ExpressionAttributeValues":{":v":{"N":"3"}}}`)
	if diff := cmp.Diff(map[string]any{"Count": 2.0, "ScannedCount": 14.0}, out); diff != "" {
		t.Error(diff)
	}
	for rest, want := range map[string]string{
		`"Segment":0`:                              "The TotalSegments parameter is required but was not present in the request when Segment parameter is present",
		`"TotalSegments":2`:                        "The Segment parameter is required but was not present in the request when parameter TotalSegments is present",
		`"TotalSegments":2,"Segment":2`:            "The Segment parameter is zero-based and must be less than parameter TotalSegments: Segment: 2 is not less than TotalSegments: 2",
		`"Select":"SPECIFIC_ATTRIBUTES"`:           "One or more parameter values were invalid: Must specify the AttributesToGet or ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES",
		`"Select":"COUNT","AttributesToGet":["v"]`: "One or more parameter values were invalid: Cannot specify the AttributesToGet or ProjectionExpression when choosing to get COUNT",
	} {
		expect(t, service, "Scan", `{"TableName":"EVT",`+rest+`}`, "ValidationException: "+want)
	}
}

func TestScan_endsAPageAtOneMegabyte(t *testing.T) {
	t.Parallel()
	service := withLeases(t)
	for i := range 25 {
		must(t, service, "PutItem", fmt.Sprintf(`{"TableName":"APP","Item":{"leaseKey":{"S":"k%d"},"h":{"S":"k%d"},"r":{"N":"1"},"big":{"S":%q}}}`, i, i, strings.Repeat("x", 100<<10)))
	}
	items, sizes := pages(t, service, "Scan", `"TableName":"APP"`)
	if len(items) != 25 || !slices.Equal(sizes, []int{11, 11, 3}) {
		t.Errorf("%d items in pages of %v, want 25 in pages of 11, 11 and 3", len(items), sizes)
	}
}

func TestScan_goesOnBehindADeletedStartKey(t *testing.T) {
	t.Parallel()
	service := withEvents(t)
	all, _ := pages(t, service, "Scan", `"TableName":"EVT"`)
	first := must(t, service, "Scan", `{"TableName":"EVT","Limit":5}`)
	last, err := json.Marshal(first["LastEvaluatedKey"])
	if err != nil {
		t.Fatal(err)
	}
	must(t, service, "DeleteItem", fmt.Sprintf(`{"TableName":"EVT","Key":%s}`, last))
	rest := found(must(t, service, "Scan", fmt.Sprintf(`{"TableName":"EVT","ExclusiveStartKey":%s}`, last)))
	if want := strings.Join(all[5:], " "); rest != want {
		t.Errorf("after the deletion:\n got %s\nwant %s", rest, want)
	}
}
