package dynamodb_test

import (
	"encoding/json"
	"fmt"
	"testing"
)

const sample = `{"TableName":"APP","Item":{"leaseKey":{"S":"k"},"n":{"N":"5"},"s":{"S":"hello"},"bin":{"B":"AQID"},"flag":{"BOOL":true},"nothing":{"NULL":true},
	"ss":{"SS":["a","b"]},"ns":{"NS":["1","2"]},"l":{"L":[{"N":"1"},{"S":"x"},{"M":{"deep":{"N":"7"}}}]},"tenure":{"M":{"at":{"N":"5"},"nonce":{"S":"p/1"},"worker":{"S":"w"}}},"e":{"S":""}}}`

func TestConditions_decide(t *testing.T) {
	t.Parallel()
	service := withLeases(t)
	must(t, service, "PutItem", sample)
	values := `{":five":{"N":"5.0"},":six":{"N":"6"},":s":{"S":"hello"},":he":{"S":"he"},":a":{"S":"a"},":one":{"N":"1"},":type":{"S":"NS"},":true":{"BOOL":true},":m":{"M":{"deep":{"N":"7"}}},":ss":{"SS":["b","a"]},":bin":{"B":"AQI="}}`
	var all map[string]any
	if err := json.Unmarshal([]byte(values), &all); err != nil {
		t.Fatal(err)
	}
	for condition, want := range map[string]bool{
		"n = :five": true, "n = :six": false, "n <> :six": true, "n <> :five": false, "n < :six": true, "n >= :five": true, "n > :five": false, "n <= :s": false,
		"s = :s": true, "s < :he": false, "flag = :true": true, "ss = :ss": true, "l[2] = :m": true, ":five = n": true,
		"tenure.#at = n": true, "tenure.#at <> n": false, "n = tenure.#at AND tenure.nonce <> s": true, "tenure.gone = n": false,
		"gone = :five": false, "gone <> :five": true, "gone < :five": false, "NOT gone < :five": true, "gone = absent": false, "gone <> absent": true,
		"n BETWEEN :one AND :six": true, "n BETWEEN :six AND :six": false, "gone BETWEEN :one AND :six": false, "NOT n BETWEEN :six AND :six": true,
		"n IN (:one, :six)": false, "n IN (:one, :five, :s)": true, "gone IN (:one)": false,
		"attribute_exists(n)": true, "attribute_exists(tenure.nonce)": true, "attribute_exists(tenure.zzz)": false, "attribute_exists (l[2].deep)": true, "attribute_exists(l[3])": false,
		"attribute_not_exists(checkpointOwner)": true, "attribute_not_exists(n)": false,
		"attribute_type(ns, :type)": true, "attribute_type(n, :type)": false, "attribute_type(gone, :type)": false,
		"begins_with(s, :he)": true, "begins_with(s, :a)": false, "begins_with(bin, :bin)": true, "begins_with(n, :he)": false,
		"contains(ss, :a)": true, "contains(ns, :one)": true, "contains(ns, :a)": false, "contains(s, :he)": true, "contains(l, :one)": true, "contains(l, :m)": true, "contains(gone, :a)": false,
		"size(s) = :five": true, "size(ss) < :five": true, "size(l) > :one": true, "size(tenure) > :one": true, "size(e) < :one": true, "size(gone) = :one": false, "size(n) = :one": false,
		"n = :six OR s = :s AND flag = :true": true, "(n = :six OR s = :s) AND n = :six": false, "NOT (n = :six) AND s = :s": true, "NOT n = :five OR n = :five": true, "not n = :six and s = :s": true,
		"NOT NOT n = :five": true,
	} {
		used := map[string]any{}
		for name, v := range all {
			if containsToken(condition, name) {
				used[name] = v
			}
		}
		body := object{"TableName": "APP", "Key": object{"leaseKey": object{"S": "k"}}, "ConditionExpression": condition, "UpdateExpression": "REMOVE nowhere"}
		if len(used) > 0 {
			body["ExpressionAttributeValues"] = used
		}
		if containsToken(condition, "#at") {
			body["ExpressionAttributeNames"] = object{"#at": "at"}
		}
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		status, out := raw(t, service, "UpdateItem", string(text))
		if got := status == 200; got != want {
			t.Errorf("%s: %v %v, want %v", condition, got, out["message"], want)
		}
	}
}

func containsToken(s, token string) bool {
	for i := 0; i+len(token) <= len(s); i++ {
		if s[i:i+len(token)] == token && (i+len(token) == len(s) || s[i+len(token)] == ' ' || s[i+len(token)] == ')' || s[i+len(token)] == ',') {
			return true
		}
	}
	return false
}

func TestUpdates_change(t *testing.T) {
	t.Parallel()
	const v = "ValidationException: "
	for _, c := range []struct{ update, values, want string }{
		{"SET n = n + :v", `{":v":{"N":"1.5"}}`, `{"n":{"N":"6.5"}}`},
		{"SET n = n - :v, m = :v", `{":v":{"N":"5"}}`, `{"n":{"N":"0"},"m":{"N":"5"}}`},
		{"SET n = :v - n", `{":v":{"N":"1"}}`, `{"n":{"N":"-4"}}`},
		{"SET a = n, n = :v", `{":v":{"N":"9"}}`, `{"a":{"N":"5"},"n":{"N":"9"}}`},
		{"SET n = if_not_exists(n, :v), z = if_not_exists(z, :v)", `{":v":{"N":"9"}}`, `{"n":{"N":"5"},"z":{"N":"9"}}`},
		{"SET z = if_not_exists(z, :v) + :v", `{":v":{"N":"2"}}`, `{"z":{"N":"4"}}`},
		{"SET l = list_append(l, :v)", `{":v":{"L":[{"S":"y"}]}}`, `{"l":{"L":[{"N":"1"},{"S":"x"},{"M":{"deep":{"N":"7"}}},{"S":"y"}]}}`},
		{"SET l = list_append(:v, if_not_exists(l, :v))", `{":v":{"L":[{"S":"y"}]}}`, `{"l":{"L":[{"S":"y"},{"N":"1"},{"S":"x"},{"M":{"deep":{"N":"7"}}}]}}`},
		{"SET l[0] = :v, l[9] = :v", `{":v":{"N":"3"}}`, `{"l":{"L":[{"N":"3"}]}}`}, // an index beyond the end appends, so nothing is at [9] afterwards
		{"SET l[2].deep = :v, tenure.#a = :v", `{":v":{"N":"8"}}`, `{"l":{"L":[{"M":{"deep":{"N":"8"}}}]},"tenure":{"M":{"at":{"N":"8"}}}}`},
		{"REMOVE l[0], l[1]", ``, `{"l":{"L":[{"M":{"deep":{"N":"7"}}}]}}`},
		{"REMOVE tenure.nonce, nowhere, l[7] SET n = :v", `{":v":{"N":"1"}}`, `{"n":{"N":"1"}}`},
		{"ADD n :v, fresh :v", `{":v":{"N":"2"}}`, `{"n":{"N":"7"},"fresh":{"N":"2"}}`},
		{"ADD ss :v", `{":v":{"SS":["c","a"]}}`, `{"ss":{"SS":["a","b","c"]}}`},
		{"ADD ns :v DELETE ss :w", `{":v":{"NS":["10","1.0"]},":w":{"SS":["a","zz"]}}`, `{"ns":{"NS":["1","2","10"]},"ss":{"SS":["b"]}}`},
		{"DELETE ss :v", `{":v":{"SS":["a","b"]}}`, `{}`},
		{"DELETE nowhere :v", `{":v":{"SS":["a"]}}`, `{}`},

		{"SET n = s + :v", `{":v":{"N":"1"}}`, v + "An operand in the update expression has an incorrect data type"},
		{"SET n = nowhere", ``, v + "The provided expression refers to an attribute that does not exist in the item"},
		{"SET nowhere.a = :v", `{":v":{"N":"1"}}`, v + "The document path provided in the update expression is invalid for update"},
		{"SET n.a = :v", `{":v":{"N":"1"}}`, v + "The document path provided in the update expression is invalid for update"},
		{"REMOVE nowhere.a", ``, v + "The document path provided in the update expression is invalid for update"},
		{"ADD s :v", `{":v":{"N":"1"}}`, v + "An operand in the update expression has an incorrect data type"},
		{"ADD s :v", `{":v":{"S":"1"}}`, v + "Invalid UpdateExpression: Incorrect operand type for operator or function; operator: ADD, operand type: STRING"},
		{"DELETE ss :v", `{":v":{"N":"1"}}`, v + "Invalid UpdateExpression: Incorrect operand type for operator or function; operator: DELETE, operand type: NUMBER"},
		{"SET n = n + :v", `{":v":{"S":"1"}}`, v + "Invalid UpdateExpression: Incorrect operand type for operator or function; operator or function: +, operand type: S"},
		{"SET n = :v, n = :v", `{":v":{"N":"1"}}`, v + "Invalid UpdateExpression: Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [n], path two: [n]"},
		{"SET tenure = :v REMOVE tenure.x", `{":v":{"N":"1"}}`, v + "Invalid UpdateExpression: Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [tenure], path two: [tenure, x]"},
		{"SET tenure.x = :v REMOVE tenure[1]", `{":v":{"N":"1"}}`, v + "Invalid UpdateExpression: Two document paths conflict with each other; must remove or rewrite one of these paths; path one: [tenure, x], path two: [tenure, [1]]"},
		{"SET n = :v SET s = :v", `{":v":{"N":"1"}}`, v + `Invalid UpdateExpression: The "SET" section can only be used once in an update expression;`},
		{"SET leaseKey = :v", `{":v":{"S":"1"}}`, v + "One or more parameter values were invalid: Cannot update attribute leaseKey. This attribute is part of the key"},
		{"SET n = n + :v", `{":v":{"N":"1e125"}}`, v + "Attempting to store more than 38 significant digits in a Number"},
		{"SET n = :v + :v", `{":v":{"N":"9e125"}}`, v + "Number overflow. Attempting to store a number with magnitude larger than supported range"},
		{"SET owner = :v", `{":v":{"N":"1"}}`, v + "Invalid UpdateExpression: Attribute name is a reserved keyword; reserved keyword: owner"},
		{"SET n = upper(:v)", `{":v":{"N":"1"}}`, v + "Invalid UpdateExpression: Invalid function name; function: upper"},
		{"SET n = size(s)", ``, v + "Invalid UpdateExpression: The function is not allowed to be used this way in an expression; function: size"},
		{"SET n = n + :v + :v", `{":v":{"N":"1"}}`, v + `Invalid UpdateExpression: Syntax error; token: "+", near: " = n + :v + :v"`},
		{"SET", ``, v + `Invalid UpdateExpression: Syntax error; token: "<EOF>", near: "SET"`},
		{"", ``, v + "Invalid UpdateExpression: The expression can not be empty;"},
		{"SET n = :v", ``, v + "Invalid UpdateExpression: An expression attribute value used in expression is not defined; attribute value: :v"},
		{"SET n = :v", `{":v":{"N":"1"},":w":{"N":"1"}}`, v + "Value provided in ExpressionAttributeValues unused in expressions: keys: {:w}"},
		{"SET n = :v, tenure.#a.#b = :v", `{":v":{"N":"1"}}`, v + "Invalid UpdateExpression: An expression attribute name used in the document path is not defined; attribute name: #b"},
	} {
		service := withLeases(t)
		must(t, service, "PutItem", sample)
		body := fmt.Sprintf(`{"TableName":"APP","Key":{"leaseKey":{"S":"k"}},"ReturnValues":"UPDATED_NEW","UpdateExpression":%q`, c.update)
		if c.values != "" {
			body += `,"ExpressionAttributeValues":` + c.values
		}
		if containsToken(c.update, "tenure.#a") || containsToken(c.update, "tenure.#a.#b") {
			body += `,"ExpressionAttributeNames":{"#a":"at"}`
		}
		want := c.want
		if want == "{}" {
			expect(t, service, "UpdateItem", body+"}", want)
			continue
		}
		if want[0] == '{' {
			want = `{"Attributes":` + want + `}`
		}
		expect(t, service, "UpdateItem", body+"}", want)
	}
}

func TestConditions_refuseWhatTheyCannotMean(t *testing.T) {
	t.Parallel()
	service := withLeases(t)
	must(t, service, "PutItem", sample)
	const v = "ValidationException: "
	const c = v + "Invalid ConditionExpression: "
	for _, tt := range []struct{ condition, values, want string }{
		{"n = ", ``, c + `Syntax error; token: "<EOF>", near: "n = "`},
		{"n = :v )", `{":v":{"N":"1"}}`, c + `Syntax error; token: ")", near: "n = :v )"`},
		{"n ! :v", `{":v":{"N":"1"}}`, c + `Syntax error; token: "!", near: "n ! :v"`},
		{"a.b.", ``, c + `Syntax error; token: "<EOF>", near: "a.b."`},
		{"((n = :v))", `{":v":{"N":"1"}}`, c + "The expression has redundant parentheses;"},
		{"n = n", ``, c + "The first operand must be distinct from the remaining operands for this operator or function; operator: =, first operand: [n]"},
		{"status = :v", `{":v":{"N":"1"}}`, c + "Attribute name is a reserved keyword; reserved keyword: status"},
		{"exists(n)", ``, c + "Invalid function name; function: exists"},
		{"attribute_exists(:v)", `{":v":{"N":"1"}}`, c + "Operator or function requires a document path; operator or function: attribute_exists"},
		{"attribute_exists(n, s)", ``, c + "Incorrect number of operands for operator or function; operator or function: attribute_exists, number of operands: 2"},
		{"n = attribute_exists(n)", ``, c + "The function is not allowed to be used this way in an expression; function: attribute_exists"},
		{"size(n)", ``, c + "The function is not allowed to be used this way in an expression; function: size"},
		{"begins_with(s, :v)", `{":v":{"N":"1"}}`, c + "Incorrect operand type for operator or function; operator or function: begins_with, operand type: N"},
		{"attribute_type(s, :v)", `{":v":{"S":"Z"}}`, c + "Invalid attribute type name found; type: Z, valid types: {B,NULL,SS,BOOL,L,BS,N,NS,S,M}"},
		{"n < :v", `{":v":{"BOOL":true}}`, c + "Incorrect operand type for operator or function; operator: <, operand type: BOOL"},
		{"n BETWEEN :v AND :w", `{":v":{"N":"2"},":w":{"N":"1"}}`, c + `The BETWEEN operator requires upper bound to be greater than or equal to lower bound; lower bound operand: AttributeValue: {"N":"2"}, upper bound operand: AttributeValue: {"N":"1"}`},
		{"n = :v", `{":v":{"N":"1"},"w":{"N":"1"}}`, v + `ExpressionAttributeValues contains invalid key: Syntax error; key: "w"`},
		{"n = :v", `{}`, v + "ExpressionAttributeValues must not be empty"},
	} {
		body := fmt.Sprintf(`{"TableName":"APP","Key":{"leaseKey":{"S":"k"}},"ConditionExpression":%q`, tt.condition)
		if tt.values != "" {
			body += `,"ExpressionAttributeValues":` + tt.values
		}
		expect(t, service, "DeleteItem", body+"}", tt.want)
	}
	expect(t, service, "GetItem", `{"TableName":"APP","Key":{"leaseKey":{"S":"k"}},"ExpressionAttributeNames":{"#a":"b"}}`, v+"ExpressionAttributeNames can only be specified when using expressions")
	expect(t, service, "GetItem", `{"TableName":"APP","Key":{"leaseKey":{"S":"k"}},"ProjectionExpression":"n","ExpressionAttributeNames":{"#a":"b","#c":"d"}}`, v+"Value provided in ExpressionAttributeNames unused in expressions: keys: {#a, #c}")
}

func TestProjection_keepsTheSurroundingsOfWhatItGives(t *testing.T) {
	t.Parallel()
	service := withLeases(t)
	must(t, service, "PutItem", sample)
	for projection, want := range map[string]string{
		"n, s":                   `{"Item":{"n":{"N":"5"},"s":{"S":"hello"}}}`,
		"tenure.nonce":           `{"Item":{"tenure":{"M":{"nonce":{"S":"p/1"}}}}}`,
		"l[2].deep, l[0], l[99]": `{"Item":{"l":{"L":[{"N":"1"},{"M":{"deep":{"N":"7"}}}]}}}`,
		"nowhere, n.a, l.x":      `{"Item":{}}`,
		"tenure, tenure.nonce":   "ValidationException: Invalid ProjectionExpression: Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [tenure], path two: [tenure, nonce]",
	} {
		expect(t, service, "GetItem", fmt.Sprintf(`{"TableName":"APP","Key":{"leaseKey":{"S":"k"}},"ProjectionExpression":%q}`, projection), want)
	}
	expect(t, service, "GetItem", `{"TableName":"APP","Key":{"leaseKey":{"S":"k"}},"AttributesToGet":["n","nowhere"]}`, `{"Item":{"n":{"N":"5"}}}`)
}
