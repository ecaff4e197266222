package dynamodb_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/shardlease/shardlease/emulator/internal/dynamodb"
)

// TestDynamoDB_answersAsAForeignServerDoes sends the same random requests to this service and to the server whose address is
// in SHARDLEASE_DYNAMODB_ENDPOINT and whose kind in SHARDLEASE_DYNAMODB_KIND (dynalite, dynoxide), and compares status, error
// type and members. Texts of errors are not compared. A difference that [explanation] does not know fails the test. Without an
// endpoint there is nobody to compare with; the other tests stand by themselves.
func TestDynamoDB_answersAsAForeignServerDoes(t *testing.T) {
	t.Parallel()
	endpoint, kind := os.Getenv("SHARDLEASE_DYNAMODB_ENDPOINT"), os.Getenv("SHARDLEASE_DYNAMODB_KIND")
	if endpoint == "" {
		t.Log("SHARDLEASE_DYNAMODB_ENDPOINT names no server; nothing to compare with")
		return
	}
	c := comparison{endpoint: endpoint, kind: kind, table: fmt.Sprintf("diff-%d", time.Now().UnixNano()), ours: &dynamodb.DynamoDB{}, explained: map[string]int{}}
	definition := `{"TableName":"` + c.table + `","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"h","AttributeType":"S"},{"AttributeName":"r","AttributeType":"N"},{"AttributeName":"g","AttributeType":"S"}],
		"KeySchema":[{"AttributeName":"h","KeyType":"HASH"},{"AttributeName":"r","KeyType":"RANGE"}],
		"GlobalSecondaryIndexes":[{"IndexName":"byG","KeySchema":[{"AttributeName":"g","KeyType":"HASH"},{"AttributeName":"r","KeyType":"RANGE"}],"Projection":{"ProjectionType":"ALL"}}]}`
	must(t, c.ours, "CreateTable", definition)
	foreign(t, endpoint, "CreateTable", definition)
	for {
		if _, out := foreign(t, endpoint, "DescribeTable", `{"TableName":"`+c.table+`"}`); out["Table"].(map[string]any)["TableStatus"] == "ACTIVE" {
			break
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		g := generator{rt}
		for _, h := range keyHashes {
			for _, r := range keyRanges { // what an earlier run has left
				c.remove(t, object{"h": object{"S": h}, "r": object{"N": r}})
			}
		}
		for range g.IntN(60) {
			operation, body := g.request(c.table)
			if diff := c.compare(t, operation, body); diff != "" {
				text, _ := json.Marshal(body)
				rt.Fatalf("%s %s: (-%s +ours)\n%s", operation, text, kind, diff)
			}
		}
	})
	t.Logf("%d requests; differences, by their explanation: %v", c.requests, c.explained)
}

// comparison is this service and a foreign server, with a table of the same name.
type comparison struct {
	endpoint, kind, table string
	ours                  *dynamodb.DynamoDB
	explained             map[string]int
	requests              int
}

func (c *comparison) remove(t *testing.T, key object) {
	t.Helper()
	remove, _ := json.Marshal(object{"TableName": c.table, "Key": key})
	raw(t, c.ours, "DeleteItem", string(remove))
	foreign(t, c.endpoint, "DeleteItem", string(remove))
}

// compare sends a request to both and, if it names an item, reads that afterwards. It returns the difference, unless that is explained.
func (c *comparison) compare(t *testing.T, operation string, body object) string {
	t.Helper()
	encoded, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	text := string(encoded)
	c.requests++
	status, got := raw(t, c.ours, operation, text)
	message, _ := got["message"].(string)
	if strings.Contains(message, "Incorrect operand type for operator or function; operator") {
		return "" // the servers take literals that can never fit "<", and so on; AWS refuses them
	}
	theirStatus, want := foreign(t, c.endpoint, operation, text)
	ours, theirs := normal(status, got), normal(theirStatus, want)
	diff := cmp.Diff(theirs, ours)
	key, _ := body["Key"].(object)
	if item, ok := body["Item"].(object); ok {
		key = object{"h": item["h"], "r": item["r"]}
	}
	why := ""
	if diff != "" {
		why = explanation(c.kind, operation, text, message, ours, theirs)
	}
	if key != nil && (diff == "" || why != "") {
		read, _ := json.Marshal(object{"TableName": c.table, "Key": key, "ConsistentRead": true})
		_, got = raw(t, c.ours, "GetItem", string(read))
		_, want = foreign(t, c.endpoint, "GetItem", string(read))
		if after := cmp.Diff(ordered(want), ordered(got)); after != "" && why != "" {
			c.remove(t, key) // both must stand alike for the next request to mean anything
		} else {
			diff += after
		}
	}
	if why != "" {
		c.explained[why]++
		return ""
	}
	return diff
}

// explanation says why an answer differs, and why ours is the one to keep; "" if nobody knows.
func explanation(kind, operation, request, message string, ours, theirs map[string]any) string {
	failed := ours["error"]
	switch {
	case kind == "dynalite" && operation == "UpdateItem" && theirs["error"] == "ValidationException" && failed == "ConditionalCheckFailedException":
		return "an update that would be refused, whose condition fails: dynalite looks at the update first, AWS does not say"
	case kind == "dynoxide" && operation == "UpdateItem" && strings.Contains(request, `"ReturnValues":"ALL_OLD"`) && len(ours) == 0 && len(theirs) == 1:
		return "dynoxide returns the key as the old item of an update that makes the item; AWS and dynalite return nothing"
	case kind == "dynoxide" && failed == "ValidationException" && theirs["error"] != failed && strings.Contains(message, "BETWEEN"):
		return "dynoxide takes BETWEEN with bounds of two types, which AWS refuses"
	case kind == "dynoxide" && strings.Contains(request, `"ReturnValues":"UPDATED_`) && strings.Contains(request, "l["):
		return "dynoxide returns the whole list of which an update changes an element, AWS and dynalite that element"
	case kind == "dynalite" && theirs["error"] == "ValidationException" && failed == nil && strings.Contains(request, "DELETE g "):
		return "dynalite refuses to delete elements of the wrong type from an index's key, though it has no such attribute; AWS does not say"
	}
	return ""
}

// normal is what is compared of an answer.
func normal(status int, out map[string]any) map[string]any {
	if status != http.StatusOK {
		_, code, _ := strings.Cut(out["__type"].(string), "#")
		return map[string]any{"error": code}
	}
	if attributes, ok := out["Attributes"].(map[string]any); ok && len(attributes) == 0 {
		delete(out, "Attributes") // dynalite writes it though there is nothing to return
	}
	if items, ok := out["Items"].([]any); ok {
		texts := make([]string, len(items))
		for i, item := range items {
			text, _ := json.Marshal(ordered(item))
			texts[i] = string(text)
		}
		slices.Sort(texts) // the order of a scan is each server's own
		out["Items"] = texts
	}
	return ordered(out).(map[string]any)
}

// ordered puts the members of sets in order.
func ordered(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, e := range v {
			if l, ok := e.([]any); ok && (name == "SS" || name == "NS" || name == "BS") {
				slices.SortFunc(l, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
			}
			v[name] = ordered(e)
		}
	case []any:
		for i, e := range v {
			v[i] = ordered(e)
		}
	}
	return v
}

func foreign(t *testing.T, endpoint, operation, body string) (int, map[string]any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, endpoint, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("X-Amz-Date", "20260101T000000Z")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKID/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=00")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.NewDecoder(bytes.NewReader(answer)).Decode(&out); err != nil {
		t.Fatalf("%s answered %q", operation, answer)
	}
	return resp.StatusCode, out
}

// generator makes requests that are mostly sensible, on few keys and attributes, so that they meet each other's effects.
type generator struct{ *rapid.T }

func (g generator) IntN(n int) int { return rapid.IntRange(0, n-1).Draw(g.T, "of "+strconv.Itoa(n)) }

func pick[T any](g generator, of ...T) T { return of[g.IntN(len(of))] }

var keyHashes, keyRanges = []string{"a", "b", "c"}, []string{"1", "2", "-3", "0.5"}

func (g generator) key() object {
	return object{"h": object{"S": pick(g, keyHashes...)}, "r": object{"N": pick(g, keyRanges...)}}
}

func (g generator) value(depth int) object {
	switch n := g.IntN(12); {
	case n < 3:
		return object{"N": pick(g, "1", "2", "10", "-7", "1.50", "1e3", "0", "123456789012345678901234567890")}
	case n < 6:
		return object{"S": pick(g, "x", "xy", "yx", "é", "z z")}
	case n == 6:
		return object{"SS": pick(g, []string{"a"}, []string{"b", "a"}, []string{"x", "a", "c"})}
	case n == 7:
		return object{"NS": pick(g, []string{"1"}, []string{"10", "9"})}
	case n == 8:
		return pick(g, object{"BOOL": true}, object{"NULL": true}, object{"B": "AQID"})
	case depth > 1:
		return object{"N": "3"}
	case n < 11:
		return object{"M": object{"p": g.value(depth + 1), "q": g.value(depth + 1)}}
	}
	return object{"L": []object{g.value(depth + 1), g.value(depth + 1)}}
}

func (g generator) path() string {
	return pick(g, "v", "w", "m", "m.p", "m.q", "m.p.q", "l[0]", "l[1].p", "l", "#n", "m.#n", "g")
}

func (g generator) operand() string {
	if g.IntN(6) == 0 {
		return "size(" + g.path() + ")"
	}
	return pick(g, g.path(), ":a", ":b")
}

func (g generator) condition(depth int) string {
	if depth < 2 {
		switch g.IntN(6) {
		case 0:
			return "(" + g.condition(depth+1) + " AND " + g.condition(depth+1) + ")"
		case 1:
			return g.condition(depth+1) + " OR " + g.condition(depth+1)
		case 2:
			return "NOT " + g.condition(2)
		}
	}
	switch g.IntN(9) {
	case 0:
		return "attribute_exists(" + g.path() + ")"
	case 1:
		return "attribute_not_exists(" + g.path() + ")"
	case 2:
		return "begins_with(" + g.path() + ", :a)"
	case 3:
		return "contains(" + g.path() + ", " + pick(g, ":a", ":b") + ")"
	case 4:
		return g.path() + " BETWEEN :a AND :b"
	case 5:
		return g.path() + " IN (:a, :b)"
	}
	// The second operand is never a path: dynalite ends if there is nothing at it.
	return g.operand() + " " + pick(g, "=", "<>", "<", "<=", ">", ">=") + " " + pick(g, ":a", ":b")
}

// update copies nothing from path to path, since dynalite then shares the parts (SET x = if_not_exists(v, :a) ADD v :a adds to x too), and removes one list element at most, since
// dynalite counts on from the first removal.
func (g generator) update() string {
	var sections []string
	if g.IntN(3) > 0 {
		right := pick(g, ":a", "if_not_exists(v, :a)", "v + :a", ":a - w", "list_append(l, :b)", "list_append(:b, l)", "if_not_exists(v, :a) + :b")
		target := "x"
		switch {
		case right == ":a" || strings.HasPrefix(right, "v +"):
			target = g.path()
		case right == "if_not_exists(v, :a)":
			target = "v"
		case strings.HasPrefix(right, "list_append"):
			target = "l"
		}
		sections = append(sections, "SET "+target+" = "+right)
		if g.IntN(3) == 0 {
			sections[0] += ", " + pick(g, "y", "m.z", "l[5]") + " = :b"
		}
	}
	if g.IntN(3) == 0 {
		sections = append(sections, "REMOVE "+pick(g, g.path(), "x, y"))
	}
	if g.IntN(3) == 0 {
		sections = append(sections, "ADD "+g.path()+" :a")
	}
	if g.IntN(4) == 0 {
		sections = append(sections, "DELETE "+g.path()+" :b")
	}
	if len(sections) == 0 {
		return "SET v = :a"
	}
	return strings.Join(sections, " ")
}

// placeholders adds the names and values that the expressions use.
func (g generator) placeholders(body object, texts ...string) {
	all := strings.Join(texts, " ")
	if strings.Contains(all, "#n") {
		body["ExpressionAttributeNames"] = object{"#n": pick(g, "v", "p", "name")}
	}
	values := object{}
	for _, name := range []string{":a", ":b"} {
		if strings.Contains(all, name) {
			values[name] = g.value(0)
		}
	}
	if len(values) > 0 {
		body["ExpressionAttributeValues"] = values
	}
}

func (g generator) legacyTest() object {
	op := pick(g, "EQ", "NE", "LT", "LE", "GT", "GE", "BEGINS_WITH", "CONTAINS", "NOT_CONTAINS", "NULL", "NOT_NULL", "IN", "BETWEEN")
	test := object{"ComparisonOperator": op}
	switch op {
	case "NULL", "NOT_NULL":
	case "BETWEEN":
		test["AttributeValueList"] = []object{{"N": "1"}, {"N": "5"}}
	default:
		test["AttributeValueList"] = []object{pick(g, object{"S": "x"}, object{"N": "2"}, object{"N": "-7"}, object{"S": "a"})}
		if op == "BEGINS_WITH" {
			test["AttributeValueList"] = []object{{"S": "x"}}
		}
	}
	return test
}

func (g generator) request(table string) (string, object) {
	body := object{"TableName": table}
	returns := []string{"NONE", "ALL_OLD", "ALL_NEW", "UPDATED_OLD", "UPDATED_NEW"}
	switch g.IntN(10) {
	case 0, 1:
		item := g.key()
		for _, name := range []string{"v", "w", "x"} {
			if g.IntN(2) == 0 {
				item[name] = g.value(0)
			}
		}
		item["m"] = object{"M": object{"p": g.value(1), "q": g.value(1)}}
		item["l"] = object{"L": []object{g.value(1), g.value(1), g.value(1)}}
		if g.IntN(2) == 0 {
			item["g"] = object{"S": pick(g, "g1", "g2")}
		}
		body["Item"] = item
		body["ReturnValues"] = pick(g, returns[:2]...)
		if g.IntN(3) == 0 {
			body["ConditionExpression"] = g.condition(0)
			g.placeholders(body, body["ConditionExpression"].(string))
		}
		return "PutItem", body
	case 2, 3, 4:
		body["Key"] = g.key()
		update := g.update()
		body["UpdateExpression"] = update
		condition := ""
		if g.IntN(2) == 0 {
			condition = g.condition(0)
			body["ConditionExpression"] = condition
		}
		g.placeholders(body, update, condition)
		body["ReturnValues"] = pick(g, returns...)
		return "UpdateItem", body
	case 5:
		body["Key"] = g.key()
		body["ReturnValues"] = pick(g, returns...)
		updates := object{}
		for _, name := range []string{"v", "w"} {
			action := pick(g, "PUT", "ADD", "DELETE")
			updates[name] = object{"Action": action, "Value": g.value(2)}
			if action == "DELETE" && g.IntN(2) == 0 {
				delete(updates[name].(object), "Value")
			}
		}
		body["AttributeUpdates"] = updates
		if g.IntN(2) == 0 {
			body["Expected"] = object{pick(g, "v", "w", "x"): pick(g, object{"Exists": false}, object{"Value": g.value(2)}, g.legacyTest())}
		}
		return "UpdateItem", body
	case 6:
		body["Key"] = g.key()
		if g.IntN(2) == 0 {
			body["ProjectionExpression"] = pick(g, "v, m.p", "l[1], l[0]", "m, w", "m.q.p, l[2].q", "#n")
			g.placeholders(body, body["ProjectionExpression"].(string))
		}
		return "GetItem", body
	case 7:
		body["Key"] = g.key()
		body["ReturnValues"] = pick(g, returns[:2]...)
		body["ConditionExpression"] = g.condition(0)
		g.placeholders(body, body["ConditionExpression"].(string))
		return "DeleteItem", body
	case 8:
		if g.IntN(2) == 0 {
			body["ScanFilter"] = object{pick(g, "v", "w", "x"): g.legacyTest()}
		} else {
			body["FilterExpression"] = g.condition(0)
			g.placeholders(body, body["FilterExpression"].(string))
		}
		return "Scan", body
	}
	if g.IntN(2) == 0 {
		body["IndexName"] = "byG"
		body["KeyConditionExpression"] = "g = :g" + pick(g, "", " AND r > :r", " AND r BETWEEN :r AND :s")
	} else {
		body["KeyConditionExpression"] = "h = :g" + pick(g, "", " AND r <= :r", " AND r = :r")
	}
	values := object{":g": object{"S": pick(g, "a", "b", "g1", "g2")}}
	if strings.Contains(body["KeyConditionExpression"].(string), ":r") {
		values[":r"] = object{"N": pick(g, "1", "-1")}
	}
	if strings.Contains(body["KeyConditionExpression"].(string), ":s") {
		values[":s"] = object{"N": "2"}
	}
	body["ExpressionAttributeValues"] = values
	body["ScanIndexForward"] = g.IntN(2) == 0
	body["Select"] = pick(g, "COUNT", "ALL_ATTRIBUTES")
	return "Query", body
}
