package dynamodb_test

import (
	"fmt"
	"strings"
	"testing"
)

const key = `"TableName":"APP","Key":{"leaseKey":{"S":"k"}}`

func TestWrites_returnWhatReturnValuesAsksFor(t *testing.T) {
	t.Parallel()
	const old = `"leaseKey":{"S":"k"},"a":{"N":"1"},"m":{"M":{"x":{"N":"1"},"y":{"N":"2"}}}`
	for _, c := range []struct{ operation, body, want string }{
		{"PutItem", `{"TableName":"APP","Item":{"leaseKey":{"S":"k"}}}`, `{}`},
		{"PutItem", `{"TableName":"APP","Item":{"leaseKey":{"S":"k"}},"ReturnValues":"ALL_OLD"}`, `{"Attributes":{` + old + `}}`},
		{"PutItem", `{"TableName":"APP","Item":{"leaseKey":{"S":"new"}},"ReturnValues":"ALL_OLD"}`, `{}`},
		{"PutItem", `{"TableName":"APP","Item":{"leaseKey":{"S":"k"}},"ReturnValues":"ALL_NEW"}`, "ValidationException: ReturnValues can only be ALL_OLD or NONE"},
		{"DeleteItem", `{` + key + `,"ReturnValues":"ALL_OLD"}`, `{"Attributes":{` + old + `}}`},
		{"DeleteItem", `{"TableName":"APP","Key":{"leaseKey":{"S":"new"}},"ReturnValues":"ALL_OLD"}`, `{}`},
		{"UpdateItem", `{` + key + `,"UpdateExpression":"SET a = :v, m.x = :v","ExpressionAttributeValues":{":v":{"N":"5"}},"ReturnValues":"UPDATED_OLD"}`, `{"Attributes":{"a":{"N":"1"},"m":{"M":{"x":{"N":"1"}}}}}`},
		{"UpdateItem", `{` + key + `,"UpdateExpression":"SET a = :v, m.x = :v","ExpressionAttributeValues":{":v":{"N":"5"}},"ReturnValues":"UPDATED_NEW"}`, `{"Attributes":{"a":{"N":"5"},"m":{"M":{"x":{"N":"5"}}}}}`},
		{"UpdateItem", `{` + key + `,"UpdateExpression":"REMOVE m","ReturnValues":"ALL_NEW"}`, `{"Attributes":{"leaseKey":{"S":"k"},"a":{"N":"1"}}}`},
		{"UpdateItem", `{` + key + `,"UpdateExpression":"REMOVE m","ReturnValues":"ALL_OLD"}`, `{"Attributes":{` + old + `}}`},
		{"UpdateItem", `{` + key + `,"AttributeUpdates":{"a":{"Action":"ADD","Value":{"N":"2"}},"m":{"Action":"DELETE"}},"ReturnValues":"UPDATED_NEW"}`, `{"Attributes":{"a":{"N":"3"}}}`},
		{"UpdateItem", `{` + key + `}`, `{}`},
		{"UpdateItem", `{"TableName":"APP","Key":{"leaseKey":{"S":"new"}},"UpdateExpression":"ADD c :v","ExpressionAttributeValues":{":v":{"N":"1"}},"ReturnValues":"ALL_NEW"}`, `{"Attributes":{"leaseKey":{"S":"new"},"c":{"N":"1"}}}`},
		{"UpdateItem", `{"TableName":"APP","Key":{"leaseKey":{"S":"new"}},"ReturnValues":"ALL_NEW"}`, `{"Attributes":{"leaseKey":{"S":"new"}}}`},
	} {
		service := withLeases(t)
		must(t, service, "PutItem", `{"TableName":"APP","Item":{`+old+`}}`)
		expect(t, service, c.operation, c.body, c.want)
	}
}

func TestWrites_showTheItemOfAFailedConditionOnlyIfAsked(t *testing.T) {
	t.Parallel()
	service := withLeases(t)
	must(t, service, "PutItem", `{"TableName":"APP","Item":{"leaseKey":{"S":"k"},"a":{"N":"1"}}}`)
	for operation, body := range map[string]string{
		"PutItem":    `{"TableName":"APP","Item":{"leaseKey":{"S":"k"}},"ConditionExpression":"attribute_not_exists(leaseKey)"`,
		"UpdateItem": `{` + key + `,"UpdateExpression":"REMOVE a","ConditionExpression":"attribute_not_exists(leaseKey)"`,
		"DeleteItem": `{` + key + `,"ConditionExpression":"attribute_not_exists(leaseKey)"`,
	} {
		status, out := raw(t, service, operation, body+"}")
		if status != 400 || out["message"] != "The conditional request failed" || out["Item"] != nil {
			t.Errorf("%s: %d %v, want a failed condition without an item", operation, status, out)
		}
		_, out = raw(t, service, operation, body+`,"ReturnValuesOnConditionCheckFailure":"ALL_OLD"}`)
		if item, _ := out["Item"].(object); item["a"] == nil {
			t.Errorf("%s: %v, want the item", operation, out)
		}
		status, out = raw(t, service, operation, strings.Replace(strings.Replace(body, `"k"`, `"none"`, 1), "attribute_not_exists", "attribute_exists", 1)+`,"ReturnValuesOnConditionCheckFailure":"ALL_OLD"}`)
		if status != 400 || out["Item"] != nil {
			t.Errorf("%s on nothing: %d %v, want a failed condition without an item", operation, status, out)
		}
	}
	expect(t, service, "GetItem", `{`+key+`}`, `{"Item":{"leaseKey":{"S":"k"},"a":{"N":"1"}}}`)
	expect(t, service, "GetItem", `{"TableName":"APP","Key":{"leaseKey":{"S":"none"}}}`, `{}`)
}

func TestLegacyConditions_decide(t *testing.T) {
	t.Parallel()
	service := withLeases(t)
	must(t, service, "PutItem", sample)
	for expected, want := range map[string]bool{
		`{"n":{"Value":{"N":"5.0"}}}`: true, `{"n":{"Value":{"N":"6"}}}`: false, `{"n":{"Exists":true,"Value":{"N":"5"}}}`: true, `{"gone":{"Value":{"N":"5"}}}`: false,
		`{"gone":{"Exists":false}}`: true, `{"n":{"Exists":false}}`: false,
		`{"n":{"Value":{"N":"5"}},"s":{"Value":{"S":"no"}}}`:                                 false,
		`{"n":{"Value":{"N":"5"}},"gone":{"Exists":false}}`:                                  true,
		`{"n":{"ComparisonOperator":"GE","AttributeValueList":[{"N":"5"}]}}`:                 true,
		`{"n":{"ComparisonOperator":"LT","Value":{"N":"5"}}}`:                                false,
		`{"n":{"ComparisonOperator":"NE","AttributeValueList":[{"N":"5"}]}}`:                 false,
		`{"gone":{"ComparisonOperator":"NE","AttributeValueList":[{"N":"5"}]}}`:              true,
		`{"n":{"ComparisonOperator":"BETWEEN","AttributeValueList":[{"N":"1"},{"N":"5"}]}}`:  true,
		`{"n":{"ComparisonOperator":"IN","AttributeValueList":[{"N":"1"},{"N":"5"}]}}`:       true,
		`{"s":{"ComparisonOperator":"BEGINS_WITH","AttributeValueList":[{"S":"he"}]}}`:       true,
		`{"ss":{"ComparisonOperator":"CONTAINS","AttributeValueList":[{"S":"a"}]}}`:          true,
		`{"ss":{"ComparisonOperator":"NOT_CONTAINS","AttributeValueList":[{"S":"a"}]}}`:      false,
		`{"gone":{"ComparisonOperator":"NULL"}}`:                                             true,
		`{"gone":{"ComparisonOperator":"NOT_NULL"}}`:                                         false,
		`{"ss":{"Value":{"SS":["b","a"]}}}`:                                                  true,
		`{"tenure":{"Value":{"M":{"worker":{"S":"w"},"nonce":{"S":"p/1"},"at":{"N":"5"}}}}}`: true,
	} {
		status, out := raw(t, service, "UpdateItem", `{`+key+`,"AttributeUpdates":{"zz":{"Action":"DELETE"}},"Expected":`+expected+`}`)
		if got := status == 200; got != want {
			t.Errorf("%s: %v %v, want %v", expected, got, out["message"], want)
		}
	}
	for values, want := range map[string]bool{`{"n":{"Value":{"N":"1"}},"gone":{"Exists":false}}`: true, `{"n":{"Value":{"N":"1"}},"s":{"Exists":false}}`: false} {
		status, out := raw(t, service, "UpdateItem", `{`+key+`,"ConditionalOperator":"OR","Expected":`+values+`}`)
		if got := status == 200; got != want {
			t.Errorf("OR of %s: %v %v, want %v", values, got, out["message"], want)
		}
	}
	const v = "ValidationException: One or more parameter values were invalid: "
	for expected, want := range map[string]string{
		`{"n":{}}`:              v + "Value must be provided when Exists is null for Attribute: n",
		`{"n":{"Exists":true}}`: v + "Value must be provided when Exists is true for Attribute: n",
		`{"n":{"Exists":false,"Value":{"N":"1"}}}`:                              v + "Value cannot be used when Exists is false for Attribute: n",
		`{"n":{"ComparisonOperator":"EQ"}}`:                                     v + "Invalid number of argument(s) for the EQ ComparisonOperator",
		`{"n":{"ComparisonOperator":"NULL","Exists":true}}`:                     v + "Exists and ComparisonOperator cannot be used together for Attribute: n",
		`{"n":{"ComparisonOperator":"LT","AttributeValueList":[{"SS":["a"]}]}}`: v + "ComparisonOperator LT is not valid for SS AttributeValue type",
		`{"n":{"Value":{"N":"1"},"Color":1}}`:                                   "ValidationException: UpdateItem.Expected.n: the emulator does not know the parameter Color",
		`{"n":{"Value":{"N":"1"}}},"ConditionalOperator":"OR"`:                  v + "ConditionalOperator can only be used when Filter or Expected has two or more elements",
		`{"n":{"Value":{"N":"1"}}},"ConditionExpression":"attribute_exists(n)"`: "ValidationException: Can not use both expression and non-expression parameters in the same request: Non-expression parameters: {Expected} Expression parameters: {ConditionExpression}",
	} {
		expect(t, service, "UpdateItem", `{`+key+`,"Expected":`+expected+`}`, want)
	}
	for updates, want := range map[string]string{
		`{"n":{"Action":"PUT"}}`:                          v + "Only DELETE action is allowed when no attribute value is specified",
		`{"n":{"Action":"ADD","Value":{"S":"x"}}}`:        v + "ADD action is not supported for the type S",
		`{"n":{"Action":"DELETE","Value":{"N":"1"}}}`:     v + "DELETE action is not supported for the type N",
		`{"n":{"Action":"DELETE","Value":{"SS":["1"]}}}`:  "ValidationException: Type mismatch for attribute to update",
		`{"n":{"Action":"DROP","Value":{"N":"1"}}}`:       "ValidationException: 1 validation error detected: Value 'DROP' at 'action' failed to satisfy constraint: Member must satisfy enum value set: [PUT, ADD, DELETE]",
		`{"leaseKey":{"Action":"PUT","Value":{"S":"x"}}}`: v + "Cannot update attribute leaseKey. This attribute is part of the key",
	} {
		expect(t, service, "UpdateItem", `{`+key+`,"AttributeUpdates":`+updates+`}`, want)
	}
}

func TestItems_areCheckedAsTheServiceDoes(t *testing.T) {
	t.Parallel()
	service := withLeases(t)
	const v = "ValidationException: "
	const bad = v + "One or more parameter values were invalid: "
	put := func(attributes string) string {
		return `{"TableName":"APP","Item":{"leaseKey":{"S":"k"}` + attributes + `}}`
	}
	deep := strings.Repeat(`{"L":[`, 40) + `{"N":"1"}` + strings.Repeat(`]}`, 40)
	for _, c := range []struct{ operation, body, want string }{
		{"PutItem", `{"TableName":"APP","Item":{"a":{"N":"1"}}}`, bad + "Missing the key leaseKey in the item"},
		{"PutItem", `{"TableName":"APP","Item":{"leaseKey":{"N":"1"}}}`, bad + "Type mismatch for key leaseKey expected: S actual: N"},
		{"PutItem", `{"TableName":"APP","Item":{"leaseKey":{"S":""}}}`, v + "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: leaseKey"},
		{"PutItem", `{"TableName":"APP","Item":{"leaseKey":{"S":"` + strings.Repeat("x", 2049) + `"}}}`, bad + "Size of hashkey has exceeded the maximum size limit of2048 bytes"},
		{"GetItem", `{"TableName":"APP","Key":{"other":{"S":"k"}}}`, v + "The provided key element does not match the schema"},
		{"GetItem", `{"TableName":"APP","Key":{"leaseKey":{"N":"1"}}}`, v + "The provided key element does not match the schema"},
		{"DeleteItem", `{"TableName":"APP","Key":{"leaseKey":{"S":"k"},"b":{"S":"k"}}}`, v + "The provided key element does not match the schema"},
		{"GetItem", `{"TableName":"NONE","Key":{"leaseKey":{"S":"k"}}}`, "ResourceNotFoundException: Requested resource not found"},
		{"PutItem", put(`,"a":{"SS":[]}`), bad + "An string set  may not be empty"},
		{"PutItem", put(`,"a":{"SS":["x","y","x"]}`), bad + "Input collection [x, y, x] contains duplicates."},
		{"PutItem", put(`,"a":{"NS":["1","1.0"]}`), bad + "Input collection [1, 1] contains duplicates."},
		{"PutItem", put(`,"a":{"NULL":false}`), bad + "Null attribute value types must have the value of true"},
		{"PutItem", put(`,"a":{"N":"x"}`), v + "The parameter cannot be converted to a numeric value: x"},
		{"PutItem", put(`,"a":{"N":"1","S":"1"}`), v + "Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported datatypes"},
		{"PutItem", put(`,"a":{}`), v + "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"},
		{"PutItem", put(`,"a":{"Z":"1"}`), `SerializationException: AttributeValue has no member "Z"`},
		{"PutItem", put(`,"a":{"N":1}`), "SerializationException: NUMBER_VALUE cannot be converted to String"},
		{"PutItem", put(`,"a":{"B":"***"}`), "SerializationException: '***' is not valid base64 for a binary value: illegal base64 data at input byte 0"},
		{"PutItem", put(`,"a":` + deep), v + "Nesting Levels have exceeded supported limits"},
		{"PutItem", put(`,"a":{"S":"` + strings.Repeat("x", 400<<10) + `"}`), v + "Item size has exceeded the maximum allowed size"},
		{"PutItem", `{"TableName":"APP"}`, v + "The parameter 'Item' is required but was not present in the request"},
		{"PutItem", `{"Item":{"leaseKey":{"S":"k"}}}`, v + "The parameter 'TableName' is required but was not present in the request"},
		{"PutItem", `{"TableName":"APP","Item":{"leaseKey":{"S":"k"}},"Colour":"red"}`, v + "PutItem: the emulator does not know the parameter Colour"},
		{"PutItem", `{"TableName":5,"Item":{"leaseKey":{"S":"k"}}}`, "SerializationException: NUMBER_VALUE cannot be converted to String"},
		{"GetItem", `{` + key + `,"ConsistentRead":"yes"}`, "SerializationException: STRING_VALUE cannot be converted to Boolean"},
		{"GetItem", `{` + key + `,"ReturnConsumedCapacity":"ALL"}`, v + "1 validation error detected: Value 'ALL' at 'returnConsumedCapacity' failed to satisfy constraint: Member must satisfy enum value set: [NONE, TOTAL, INDEXES]"},
		{"ExecuteStatement", `{"Statement":"SELECT"}`, `UnknownOperationException: the emulator does not know the DynamoDB operation "ExecuteStatement"`},
	} {
		expect(t, service, c.operation, c.body, c.want)
	}
	for _, body := range []string{"{", "[]", "null", `"x"`} {
		if status, out := raw(t, service, "GetItem", body); status != 400 || !strings.HasSuffix(fmt.Sprint(out["__type"]), "#SerializationException") {
			t.Errorf("body %s: %d %v, want a SerializationException", body, status, out)
		}
	}
	if status, out := raw(t, service, "Scan", `{"TableName":"APP"}`); status != 200 || out["Count"] != 0.0 {
		t.Errorf("after refused writes the table holds %v", out)
	}
}

func TestItems_comeBackInTheServicesForm(t *testing.T) {
	t.Parallel()
	service := withLeases(t)
	must(t, service, "PutItem", `{"TableName":"APP","Item":{"leaseKey":{"S":"k"},"n":{"N":"1.50e1"},"ns":{"NS":["10","9","-1"]},"ss":{"SS":["b","a"]},"bs":{"BS":["Ag==","AQ=="]},
		"b":{"B":"AQID"},"e":{"S":""},"t":{"S":"<é&\n\"\u0000"},"m":{"M":{}},"l":{"L":[{"NULL":true},{"BOOL":false}]}}}`)
	expect(t, service, "GetItem", `{`+key+`}`, `{"Item":{"leaseKey":{"S":"k"},"n":{"N":"15"},"ns":{"NS":["-1","9","10"]},"ss":{"SS":["a","b"]},"bs":{"BS":["AQ==","Ag=="]},
		"b":{"B":"AQID"},"e":{"S":""},"t":{"S":"<é&\n\"\u0000"},"m":{"M":{}},"l":{"L":[{"NULL":true},{"BOOL":false}]}}}`)
}
