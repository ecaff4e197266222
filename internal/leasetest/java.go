package leasetest

import (
	"encoding/json"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardlease/shardlease/internal/golden"
	"github.com/shardlease/shardlease/leases"
)

// javaWorker sends the requests of a Java worker: those that were recorded, with its own id, key and counters in them.
type javaWorker struct {
	id  string
	kcl string // 2.7, or 3.5 for 3.5.1, which in 2x mode sends the same requests
}

// send sends the recorded request of that purpose for the row as the worker saw it, and fails if the server refuses it for
// another reason than its condition. It reports whether the write landed.
func (j javaWorker) send(b *bundle, purpose string, seen leases.Lease) bool {
	b.Helper()
	in := j.request(b, purpose, seen)
	_, err := b.raw.UpdateItem(b.Context(), in)
	if err == nil {
		return true
	}
	if !failedCondition(err) {
		b.Fatalf("%s of Java KCL %s: %v", purpose, j.kcl, err)
	}
	return false
}

// must is a send that lands.
func (j javaWorker) must(b *bundle, purpose string, seen leases.Lease) leases.Lease {
	b.Helper()
	if !j.send(b, purpose, seen) {
		b.Fatalf("%s of Java KCL %s did not land", purpose, j.kcl)
	}
	return b.row()
}

// recorded is a request in the legacy parameters, which is how every version of KCL writes lease rows.
type recorded struct {
	AttributeUpdates map[string]struct {
		Action types.AttributeAction
		Value  *recordedValue
	}
	Expected map[string]struct {
		Exists *bool
		Value  *recordedValue
	}
}

type recordedValue struct {
	S, N *string
	B    []byte
}

func (v *recordedValue) attribute() types.AttributeValue {
	switch {
	case v == nil:
		return nil
	case v.S != nil:
		return &types.AttributeValueMemberS{Value: *v.S}
	case v.N != nil:
		return &types.AttributeValueMemberN{Value: *v.N}
	}
	return &types.AttributeValueMemberB{Value: v.B}
}

func (j javaWorker) request(b *bundle, purpose string, seen leases.Lease) *dynamodb.UpdateItemInput {
	b.Helper()
	var body recorded
	found := false
	for _, r := range golden.Requests(b) {
		if found = r.Purpose == purpose && strings.HasPrefix(r.KCL, j.kcl); found {
			if err := json.Unmarshal(r.Body, &body); err != nil {
				b.Fatal(err)
			}
			break
		}
	}
	if !found {
		b.Fatalf("no request %q of KCL %s was recorded", purpose, j.kcl)
	}
	text := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
	in := &dynamodb.UpdateItemInput{
		TableName: &b.suite.table, Key: map[string]types.AttributeValue{"leaseKey": text(b.key)},
		AttributeUpdates: map[string]types.AttributeValueUpdate{}, Expected: map[string]types.ExpectedAttributeValue{},
	}
	for name, u := range body.AttributeUpdates {
		value := u.Value.attribute()
		switch {
		case value == nil:
		case name == "leaseCounter" && u.Action == types.AttributeActionPut:
			value = number(seen.Counter + 1)
		case name == "leaseOwner":
			value = text(j.id)
		case name == "checkpointOwner":
			value = text(seen.Owner)
		}
		in.AttributeUpdates[name] = types.AttributeValueUpdate{Action: u.Action, Value: value}
	}
	for name, e := range body.Expected {
		value := e.Value.attribute()
		if value != nil {
			value = map[string]types.AttributeValue{
				"leaseKey": text(b.key), "leaseCounter": number(seen.Counter), "leaseOwner": text(seen.Owner), "checkpointOwner": text(seen.CheckpointOwner),
			}[name]
		}
		in.Expected[name] = types.ExpectedAttributeValue{Exists: e.Exists, Value: value}
	}
	return in
}
