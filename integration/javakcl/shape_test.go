//go:build unix

package javakcl

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/golden"
)

// requests keeps the shapes of what Java workers ask of DynamoDB.
type requests struct {
	app string

	mu     sync.Mutex
	shapes map[string]map[outcome]int
	cbor   int // requests to Kinesis in CBOR
	json   int // in JSON, subscriptions left out
}

func newRequests(app string) *requests {
	return &requests{app: app, shapes: map[string]map[outcome]int{}}
}

func (r *requests) observe(e emulator.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !strings.HasPrefix(e.Client, "java") || e.Status == 0 {
		return
	}
	if e.Service == emulator.Kinesis {
		switch {
		case !json.Valid(e.Request):
			r.cbor++
		case e.Operation != "SubscribeToShard": // the SDK for Java speaks JSON where the answer is a stream of events
			r.json++
		}
		return
	}
	s := shape(e.Operation, e.Request, r.app)
	if r.shapes[s] == nil {
		r.shapes[s] = map[outcome]int{}
	}
	r.shapes[s][outcome{e.Status, e.Code}]++
}

// outcome is how a request ended.
type outcome struct {
	status int
	code   string
}

// shape is what two requests have in common that differ in values only: operation, members, names of attributes with
// their types and actions, texts of expressions, and what a name in an expression stands for.
func shape(operation string, body []byte, app string) string {
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		return fmt.Sprintf("%s: %v", operation, err)
	}
	return operation + " " + form("", v, app)
}

// literal are the members whose values are part of the shape.
var literal = []string{
	"Action", "AttributeName", "AttributeType", "BillingMode", "ComparisonOperator", "ConditionExpression", "ConsistentRead",
	"DeletionProtectionEnabled", "Exists", "FilterExpression", "IndexName", "KeyConditionExpression", "KeyType", "PointInTimeRecoveryEnabled",
	"ProjectionType", "ReturnValues", "ReturnValuesOnConditionCheckFailure", "Select", "UpdateExpression",
}

// single are the types of attribute values without an inside.
var single = []string{"S", "N", "B", "SS", "NS", "BS", "NULL", "BOOL"}

func form(name string, v any, app string) string {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 1 {
			for kind := range v {
				if slices.Contains(single, kind) {
					return kind
				}
			}
		}
		parts := make([]string, 0, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, key+"="+form(key, v[key], app))
		}
		return "{" + strings.Join(parts, " ") + "}"
	case []any:
		parts := map[string]bool{} // a list of several is like one of one
		for _, e := range v {
			parts[form("", e, app)] = true
		}
		return "[" + strings.Join(slices.Sorted(maps.Keys(parts)), " ") + "]"
	}
	switch {
	case slices.Contains(literal, name), strings.HasPrefix(name, "#"):
		return fmt.Sprint(v)
	case name == "TableName":
		return strings.Replace(fmt.Sprint(v), app, "APP", 1)
	}
	return fmt.Sprintf("%T", v)
}

// recording is what golden data has of one shape.
type recording struct {
	purpose  string // of its first example
	outcomes map[outcome]bool
}

// recordings are the shapes that were recorded of one version of KCL, or, if that is empty, of all.
func recordings(t *testing.T, kcl string) map[string]recording {
	t.Helper()
	shapes := map[string]recording{}
	for _, r := range golden.Requests(t) {
		if kcl != "" && r.KCL != kcl {
			continue
		}
		_, operation, _ := strings.Cut(r.Target, ".")
		var answer struct {
			Type string `json:"__type"`
		}
		if r.Status >= 400 {
			if err := json.Unmarshal(r.Response, &answer); err != nil {
				t.Fatal(err)
			}
		}
		s := shape(operation, r.Body, "APP")
		if _, known := shapes[s]; !known {
			shapes[s] = recording{r.Purpose, map[outcome]bool{}}
		}
		shapes[s].outcomes[outcome{r.Status, answer.Type[strings.LastIndexByte(answer.Type, '#')+1:]}] = true
	}
	return shapes
}

// races are errors that any write may meet when another worker was quicker, recorded with it or not.
var races = []string{"ConditionalCheckFailedException", "ResourceInUseException"}

// checkShapes compares what was asked with what was recorded of that version, prints it, and fails the test for requests of a shape
// that was never recorded, for answers that none of the recorded ones is like, and for KCL speaking anything but CBOR with Kinesis.
func (f *fleet) checkShapes() {
	f.t.Helper()
	recorded := recordings(f.t, f.generation.kcl)
	f.requests.mu.Lock()
	defer f.requests.mu.Unlock()
	var known []string
	total := 0
	for _, s := range slices.Sorted(maps.Keys(f.requests.shapes)) {
		r, ok := recorded[s]
		n := 0
		for o, times := range f.requests.shapes[s] {
			n += times
			if !ok || !r.outcomes[o] && !slices.Contains(races, o.code) {
				f.t.Errorf("%d requests like no recorded one, with answer %d %s: %s", times, o.status, o.code, s)
			}
		}
		total += n
		if ok {
			known = append(known, fmt.Sprintf("%d × %s", n, r.purpose))
		}
	}
	fmt.Printf("  requests of KCL %s to DynamoDB: %d, of %d shapes, of which %d are among the %d recorded:\n    %s\n", f.generation.name, total,
		len(f.requests.shapes), len(known), len(recorded), strings.Join(known, "\n    "))
	fmt.Printf("  requests to Kinesis: %d in CBOR, %d in JSON\n", f.requests.cbor, f.requests.json)
	if f.requests.cbor == 0 || f.requests.json > 0 {
		f.t.Error("KCL does not speak CBOR with Kinesis")
	}
}

func TestShape_isBlindToValuesAndNothingElse(t *testing.T) {
	t.Parallel()
	of := func(body string) string { return shape("UpdateItem", []byte(body), "APP") }
	was := of(`{"TableName":"APP","Key":{"leaseKey":{"S":"a"}},"Expected":{"leaseCounter":{"Value":{"N":"1"}}},"AttributeUpdates":{"leaseCounter":{"Value":{"N":"2"},"Action":"PUT"}}}`)
	for body, alike := range map[string]bool{
		`{"TableName":"APP","Key":{"leaseKey":{"S":"b"}},"Expected":{"leaseCounter":{"Value":{"N":"7"}}},"AttributeUpdates":{"leaseCounter":{"Value":{"N":"8"},"Action":"PUT"}}}`: true,
		`{"TableName":"APP","Key":{"leaseKey":{"S":"a"}},"Expected":{"leaseCounter":{"Value":{"S":"1"}}},"AttributeUpdates":{"leaseCounter":{"Value":{"N":"2"},"Action":"PUT"}}}`: false,
		`{"TableName":"APP","Key":{"leaseKey":{"S":"a"}},"Expected":{"leaseCounter":{"Value":{"N":"1"}}},"AttributeUpdates":{"leaseCounter":{"Value":{"N":"2"},"Action":"ADD"}}}`: false,
		`{"TableName":"APP","Key":{"leaseKey":{"S":"a"}},"Expected":{"leaseOwner":{"Exists":false}},"AttributeUpdates":{"leaseCounter":{"Value":{"N":"2"},"Action":"PUT"}}}`:      false,
	} {
		if is := of(body); (is == was) != alike {
			t.Errorf("shapes alike: %t, want %t\n%s\n%s", is == was, alike, was, is)
		}
	}
	if n := len(recordings(t, "")); n < 60 {
		t.Errorf("the 112 recorded requests have %d different shapes, want more", n)
	}
}
