package dynamosketch

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"math/big"
	"net/http"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

// DynamoDB is a prototype like Kinesis: what a lease table needs of DynamoDB, over awsJson1.0.
type DynamoDB struct {
	Delay  time.Duration // how long CREATING, UPDATING and a new index's CREATING last
	Limits bool          // provisioned tables throttle (300 s of burst, as at AWS)
	GSILag time.Duration // how long an index shows the item before the last write
	Now    func() time.Time
	Fault  func(op string, body []byte) *Error

	mu     sync.Mutex
	tables map[string]*table
	tokens map[string]time.Time // ClientRequestTokens seen
}

type attr = map[string]any // {"S": "x"}
type row = map[string]any  // attribute name → attr

type index struct {
	name, hash, rng, proj string
	include               []string
	readyAt               time.Time
}

type table struct {
	name, arn, mode string
	created         time.Time
	hash, rng       string
	types           map[string]string
	idx             []*index
	items           map[string]row
	shadow          map[string]shadow
	keys            []string // scan order; nil when stale
	protect, pitr   bool
	ttl             string
	rcu, wcu        float64
	tags            map[string]string
	updating        time.Time
	rate            map[string]*bucket
}

type shadow struct {
	old   row
	until time.Time
}

type ddbError struct {
	Error
	Item    row
	Reasons []obj
}

func (d *DynamoDB) now() time.Time {
	if d.Now != nil {
		return d.Now()
	}
	return time.Now()
}

func derr(code, f string, a ...any) *ddbError {
	return &ddbError{Error: Error{400, code, fmt.Sprintf(f, a...)}}
}
func invalidReq(f string, a ...any) *ddbError { return derr("ValidationException", f, a...) }
func condFailed(it row, want string) *ddbError {
	e := derr("ConditionalCheckFailedException", "The conditional request failed")
	if want == "ALL_OLD" {
		e.Item = it
	}
	return e
}

type ddbReq struct {
	TableName, IndexName             string
	AttributeDefinitions             []struct{ AttributeName, AttributeType string }
	KeySchema                        []struct{ AttributeName, KeyType string }
	GlobalSecondaryIndexes           []gsiDef
	GlobalSecondaryIndexUpdates      []struct{ Create, Delete *gsiDef }
	BillingMode                      string
	ProvisionedThroughput            *struct{ ReadCapacityUnits, WriteCapacityUnits float64 }
	DeletionProtectionEnabled        *bool
	PointInTimeRecoverySpecification struct{ PointInTimeRecoveryEnabled bool }
	TimeToLiveSpecification          struct {
		AttributeName string
		Enabled       bool
	}
	ResourceArn                                                                   string
	Tags                                                                          []struct{ Key, Value string }
	TagKeys                                                                       []string
	Item, Key, ExclusiveStartKey                                                  row
	ConditionExpression, UpdateExpression, FilterExpression, ProjectionExpression string
	KeyConditionExpression, ReturnValues, ReturnValuesOnConditionCheckFailure     string
	ReturnConsumedCapacity, ConditionalOperator                                   string
	ExpressionAttributeNames                                                      map[string]string
	ExpressionAttributeValues                                                     row
	Expected, ScanFilter, QueryFilter, KeyConditions                              map[string]legacy
	AttributeUpdates                                                              map[string]struct {
		Action string
		Value  attr
	}
	AttributesToGet               []string
	ConsistentRead                bool
	ScanIndexForward              *bool
	Limit, Segment, TotalSegments *int
	Select, ClientRequestToken    string
	RequestItems                  map[string]json.RawMessage
	TransactItems                 []map[string]json.RawMessage
}

type gsiDef struct {
	IndexName  string
	KeySchema  []struct{ AttributeName, KeyType string }
	Projection struct {
		ProjectionType   string
		NonKeyAttributes []string
	}
}

type legacy struct {
	Value              attr
	Exists             *bool
	ComparisonOperator string
	AttributeValueList []attr
}

func (d *DynamoDB) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	body, _ := io.ReadAll(r.Body)
	var out obj
	var err *ddbError
	var in ddbReq
	if d.Fault != nil {
		if e := d.Fault(op, body); e != nil {
			err = &ddbError{Error: *e}
		}
	}
	if err == nil {
		if e := json.Unmarshal(body, &in); e != nil {
			err = derr("SerializationException", "%v", e)
		}
	}
	if err == nil {
		d.mu.Lock()
		if d.tables == nil {
			d.tables, d.tokens = map[string]*table{}, map[string]time.Time{}
		}
		out, err = d.call(op, &in)
		var b []byte
		if err == nil {
			b, _ = json.Marshal(out) // under the lock: the answer holds stored items
		}
		d.mu.Unlock()
		if err == nil {
			d.answer(w, 200, b)
			return
		}
	}
	o := obj{"__type": "com.amazonaws.dynamodb.v20120810#" + err.Code, "message": err.Msg}
	if err.Code == "ValidationException" {
		o["__type"] = "com.amazon.coral.validate#ValidationException"
	}
	if err.Item != nil {
		o["Item"] = err.Item
	}
	if err.Reasons != nil {
		o["CancellationReasons"] = err.Reasons
		delete(o, "message")
		o["Message"] = err.Msg
	}
	b, _ := json.Marshal(o)
	d.answer(w, err.Status, b)
}

func (d *DynamoDB) answer(w http.ResponseWriter, status int, b []byte) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.Header().Set("X-Amzn-Requestid", "fake")
	w.Header().Set("X-Amz-Crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE(b)), 10))
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	_, _ = w.Write(b)
}

func (d *DynamoDB) find(n string) (*table, *ddbError) {
	if i := strings.LastIndex(n, "table/"); i >= 0 {
		n = n[i+6:]
	}
	t := d.tables[n]
	if t == nil {
		return nil, derr("ResourceNotFoundException", "Requested resource not found: Table: %s not found", n)
	}
	return t, nil
}

func (d *DynamoDB) ready(n string) (*table, *ddbError) {
	t, err := d.find(n)
	if err == nil && d.now().Sub(t.created) < d.Delay {
		return nil, derr("ResourceNotFoundException", "Requested resource not found")
	}
	return t, err
}

func (t *table) addIndex(g gsiDef, at time.Time) *ddbError {
	x := &index{name: g.IndexName, proj: g.Projection.ProjectionType, include: g.Projection.NonKeyAttributes, readyAt: at}
	for _, k := range g.KeySchema {
		if t.types[k.AttributeName] == "" {
			return invalidReq("One or more parameter values were invalid: Some index key attributes are not defined in AttributeDefinitions")
		}
		if k.KeyType == "HASH" {
			x.hash = k.AttributeName
		} else {
			x.rng = k.AttributeName
		}
	}
	for _, y := range t.idx {
		if y.name == x.name {
			return invalidReq("Attempting to create an index which already exists")
		}
	}
	t.idx = append(t.idx, x)
	return nil
}

func schema(h, r string) []obj {
	s := []obj{{"AttributeName": h, "KeyType": "HASH"}}
	if r != "" {
		s = append(s, obj{"AttributeName": r, "KeyType": "RANGE"})
	}
	return s
}

func (d *DynamoDB) describe(t *table) obj {
	st := "ACTIVE"
	now := d.now()
	if now.Sub(t.created) < d.Delay {
		st = "CREATING"
	} else if now.Before(t.updating) {
		st = "UPDATING"
	}
	var defs, ix []obj
	for n, ty := range t.types {
		defs = append(defs, obj{"AttributeName": n, "AttributeType": ty})
	}
	sort.Slice(defs, func(i, j int) bool { return defs[i]["AttributeName"].(string) < defs[j]["AttributeName"].(string) })
	for _, x := range t.idx {
		is := "ACTIVE"
		if now.Before(x.readyAt) {
			is = "CREATING"
		}
		ix = append(ix, obj{"IndexName": x.name, "IndexStatus": is, "KeySchema": schema(x.hash, x.rng), "IndexArn": t.arn + "/index/" + x.name, "ItemCount": 0, "IndexSizeBytes": 0,
			"Projection": obj{"ProjectionType": x.proj}, "ProvisionedThroughput": obj{"ReadCapacityUnits": t.rcu, "WriteCapacityUnits": t.wcu, "NumberOfDecreasesToday": 0}})
	}
	o := obj{"TableName": t.name, "TableArn": t.arn, "TableId": t.name, "TableStatus": st, "CreationDateTime": unix(t.created), "KeySchema": schema(t.hash, t.rng), "AttributeDefinitions": defs,
		"BillingModeSummary": obj{"BillingMode": t.mode}, "DeletionProtectionEnabled": t.protect, "ItemCount": len(t.items), "TableSizeBytes": 0,
		"ProvisionedThroughput": obj{"ReadCapacityUnits": t.rcu, "WriteCapacityUnits": t.wcu, "NumberOfDecreasesToday": 0}}
	if ix != nil {
		o["GlobalSecondaryIndexes"] = ix
	}
	return o
}

func (d *DynamoDB) call(op string, in *ddbReq) (obj, *ddbError) {
	switch op {
	case "CreateTable":
		if d.tables[in.TableName] != nil {
			return nil, derr("ResourceInUseException", "Table already exists: %s", in.TableName)
		}
		t := &table{name: in.TableName, arn: "arn:aws:dynamodb:us-east-1:000000000000:table/" + in.TableName, created: d.now(), types: map[string]string{}, items: map[string]row{}, shadow: map[string]shadow{}, tags: map[string]string{}, rate: map[string]*bucket{}, mode: "PROVISIONED"}
		for _, a := range in.AttributeDefinitions {
			t.types[a.AttributeName] = a.AttributeType
		}
		for _, k := range in.KeySchema {
			if k.KeyType == "HASH" {
				t.hash = k.AttributeName
			} else {
				t.rng = k.AttributeName
			}
		}
		if in.BillingMode == "PAY_PER_REQUEST" {
			t.mode = in.BillingMode
		} else if in.ProvisionedThroughput == nil {
			return nil, invalidReq("No provisioned throughput specified for the table")
		} else {
			t.rcu, t.wcu = in.ProvisionedThroughput.ReadCapacityUnits, in.ProvisionedThroughput.WriteCapacityUnits
		}
		for _, g := range in.GlobalSecondaryIndexes {
			if err := t.addIndex(g, d.now().Add(d.Delay)); err != nil {
				return nil, err
			}
		}
		for _, tg := range in.Tags {
			t.tags[tg.Key] = tg.Value
		}
		t.protect = in.DeletionProtectionEnabled != nil && *in.DeletionProtectionEnabled
		d.tables[in.TableName] = t
		return obj{"TableDescription": d.describe(t)}, nil
	case "ListTables":
		ns := []string{}
		for n := range d.tables {
			ns = append(ns, n)
		}
		sort.Strings(ns)
		return obj{"TableNames": ns}, nil
	case "DescribeLimits":
		return obj{"AccountMaxReadCapacityUnits": 80000, "AccountMaxWriteCapacityUnits": 80000, "TableMaxReadCapacityUnits": 40000, "TableMaxWriteCapacityUnits": 40000}, nil
	case "TagResource", "UntagResource", "ListTagsOfResource":
		t, err := d.find(in.ResourceArn)
		if err != nil {
			return nil, err
		}
		for _, tg := range in.Tags {
			t.tags[tg.Key] = tg.Value
		}
		for _, k := range in.TagKeys {
			delete(t.tags, k)
		}
		ts := []obj{}
		for k, v := range t.tags {
			ts = append(ts, obj{"Key": k, "Value": v})
		}
		if op == "ListTagsOfResource" {
			return obj{"Tags": ts}, nil
		}
		return obj{}, nil
	case "DescribeTable":
		t, err := d.find(in.TableName)
		if err != nil {
			return nil, err
		}
		return obj{"Table": d.describe(t)}, nil
	case "BatchWriteItem":
		return d.batchWrite(in)
	case "BatchGetItem":
		return d.batchGet(in)
	case "TransactWriteItems":
		return d.transactWrite(in)
	case "TransactGetItems":
		var out []obj
		for _, x := range in.TransactItems {
			var g ddbReq
			_ = json.Unmarshal(x["Get"], &g)
			o, err := d.call("GetItem", &g)
			if err != nil {
				return nil, err
			}
			out = append(out, o)
		}
		return obj{"Responses": out}, nil
	}
	t, err := d.ready(in.TableName)
	if err != nil {
		return nil, err
	}
	switch op {
	case "DeleteTable":
		if t.protect {
			return nil, invalidReq("Resource cannot be deleted as it is currently protected against deletion. Disable deletion protection first.")
		}
		delete(d.tables, t.name)
		return obj{"TableDescription": d.describe(t)}, nil
	case "UpdateTable":
		for _, a := range in.AttributeDefinitions {
			t.types[a.AttributeName] = a.AttributeType
		}
		for _, u := range in.GlobalSecondaryIndexUpdates {
			if u.Create != nil {
				if err := t.addIndex(*u.Create, d.now().Add(d.Delay)); err != nil {
					return nil, err
				}
			} else if u.Delete != nil {
				for i, x := range t.idx {
					if x.name == u.Delete.IndexName {
						t.idx = append(t.idx[:i:i], t.idx[i+1:]...)
						break
					}
				}
			}
		}
		if in.DeletionProtectionEnabled != nil {
			t.protect = *in.DeletionProtectionEnabled
		}
		if in.BillingMode != "" {
			t.mode = in.BillingMode
		}
		t.updating = d.now().Add(d.Delay)
		return obj{"TableDescription": d.describe(t)}, nil
	case "UpdateContinuousBackups", "DescribeContinuousBackups":
		if op[0] == 'U' {
			t.pitr = in.PointInTimeRecoverySpecification.PointInTimeRecoveryEnabled
		}
		st := map[bool]string{true: "ENABLED", false: "DISABLED"}[t.pitr]
		return obj{"ContinuousBackupsDescription": obj{"ContinuousBackupsStatus": "ENABLED", "PointInTimeRecoveryDescription": obj{"PointInTimeRecoveryStatus": st}}}, nil
	case "UpdateTimeToLive":
		t.ttl = ""
		if in.TimeToLiveSpecification.Enabled {
			t.ttl = in.TimeToLiveSpecification.AttributeName
		}
		return obj{"TimeToLiveSpecification": obj{"AttributeName": in.TimeToLiveSpecification.AttributeName, "Enabled": in.TimeToLiveSpecification.Enabled}}, nil
	case "DescribeTimeToLive":
		if t.ttl == "" {
			return obj{"TimeToLiveDescription": obj{"TimeToLiveStatus": "DISABLED"}}, nil
		}
		return obj{"TimeToLiveDescription": obj{"TimeToLiveStatus": "ENABLED", "AttributeName": t.ttl}}, nil
	case "GetItem":
		k, err := t.key(in.Key, true)
		if err != nil {
			return nil, err
		}
		if err := d.charge(t, "r", 1); err != nil {
			return nil, err
		}
		o := obj{}
		x := newExpr(in)
		if it := t.items[k]; it != nil {
			o["Item"], err = x.project(it, in)
			if err != nil {
				return nil, err
			}
		}
		if err := x.unused(); err != nil {
			return nil, err
		}
		return d.capacity(in, t, o, 0.5), nil
	case "PutItem", "UpdateItem", "DeleteItem":
		k, nw, old, err := d.prepare(op, t, in)
		if err != nil {
			return nil, err
		}
		if err := d.charge(t, "w", float64((size(nw)+1023)/1024)); err != nil {
			return nil, err
		}
		d.store(t, k, nw)
		o := obj{}
		if at := returnValues(in, old, nw); at != nil {
			o["Attributes"] = at
		}
		return d.capacity(in, t, o, 1), nil
	case "Query", "Scan":
		return d.read(op, t, in)
	}
	return nil, derr("UnknownOperationException", "%s", op)
}

func (d *DynamoDB) capacity(in *ddbReq, t *table, o obj, u float64) obj {
	if in.ReturnConsumedCapacity != "" && in.ReturnConsumedCapacity != "NONE" {
		o["ConsumedCapacity"] = obj{"TableName": t.name, "CapacityUnits": u}
	}
	return o
}

func (d *DynamoDB) charge(t *table, what string, cost float64) *ddbError {
	rate := map[string]float64{"r": t.rcu, "w": t.wcu}[what]
	if !d.Limits || t.mode != "PROVISIONED" || rate == 0 {
		return nil
	}
	b := t.rate[what]
	if b == nil {
		b = &bucket{300 * rate, d.now()}
		t.rate[what] = b
	}
	b.tokens = min(300*rate, b.tokens+rate*d.now().Sub(b.at).Seconds())
	b.at = d.now()
	if b.tokens < cost {
		return derr("ProvisionedThroughputExceededException", "The level of configured provisioned throughput for the table was exceeded.")
	}
	b.tokens -= cost
	return nil
}

// key encodes an item's primary key; exact means that the map must hold nothing else.
func (t *table) key(it row, exact bool) (string, *ddbError) {
	k := ""
	n := 0
	for _, a := range []string{t.hash, t.rng} {
		if a == "" {
			continue
		}
		n++
		v, ok := it[a].(attr)
		if !ok {
			return "", invalidReq("One or more parameter values were invalid: Missing the key %s in the item", a)
		}
		s, ok := v[t.types[a]].(string)
		if !ok {
			return "", invalidReq("One or more parameter values were invalid: Type mismatch for key %s expected: %s", a, t.types[a])
		}
		if s == "" {
			return "", invalidReq("One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: %s", a)
		}
		if t.types[a] == "N" {
			s = num(v).RatString()
		}
		k += s + "\x00"
	}
	if exact && len(it) != n {
		return "", invalidReq("The provided key element does not match the schema")
	}
	return k, nil
}

func (d *DynamoDB) store(t *table, k string, nw row) {
	old := t.items[k]
	if d.GSILag > 0 {
		seen := old
		if s, ok := t.shadow[k]; ok && d.now().Before(s.until) {
			seen = s.old
		}
		t.shadow[k] = shadow{seen, d.now().Add(d.GSILag)}
	}
	if (old == nil) != (nw == nil) {
		t.keys = nil
	}
	if nw == nil {
		delete(t.items, k)
	} else {
		t.items[k] = nw
	}
}

// prepare checks a write's condition and works out the new item; it changes nothing.
func (d *DynamoDB) prepare(op string, t *table, in *ddbReq) (k string, nw, old row, err *ddbError) {
	kv := in.Key
	if op == "PutItem" {
		kv = in.Item
	}
	if k, err = t.key(kv, op != "PutItem"); err != nil {
		return
	}
	old = t.items[k]
	x := newExpr(in)
	var up []func(row) *ddbError
	if in.UpdateExpression != "" {
		if up, err = x.update(in.UpdateExpression, t); err != nil {
			return
		}
	}
	ok := true
	if in.ConditionExpression != "" {
		var c cond
		if c, err = x.condition(in.ConditionExpression); err != nil {
			return
		}
		if err = x.unused(); err != nil {
			return
		}
		ok = c(old)
	} else {
		if err = x.unused(); err != nil {
			return
		}
		ok = matches(old, in.Expected, in.ConditionalOperator)
	}
	if !ok {
		return k, nil, old, condFailed(old, in.ReturnValuesOnConditionCheckFailure)
	}
	switch op {
	case "PutItem":
		nw = in.Item
	case "UpdateItem":
		nw = clone(old)
		if nw == nil {
			nw = clone(in.Key)
		}
		for _, f := range up {
			if err = f(nw); err != nil {
				return
			}
		}
		for a, u := range in.AttributeUpdates {
			switch u.Action {
			case "DELETE":
				if u.Value == nil {
					delete(nw, a)
				} else if err = setOp(nw, path{{name: a}}, u.Value, true); err != nil {
					return
				}
			case "ADD":
				if err = setOp(nw, path{{name: a}}, u.Value, false); err != nil {
					return
				}
			default:
				nw[a] = u.Value
			}
		}
	}
	if nw != nil {
		if size(nw) > 400<<10 {
			return k, nil, old, invalidReq("Item size has exceeded the maximum allowed size")
		}
		for _, i := range t.idx {
			for _, a := range []string{i.hash, i.rng} {
				if v, has := nw[a].(attr); a != "" && has && v[t.types[a]] == nil {
					return k, nil, old, invalidReq("One or more parameter values were invalid: Type mismatch for Index Key %s", a)
				}
			}
		}
	}
	return
}

func returnValues(in *ddbReq, old, nw row) row {
	changed := func(of row) row {
		o := row{}
		for a := range merge(old, nw) {
			x, _ := json.Marshal(old[a])
			y, _ := json.Marshal(nw[a])
			if !bytes.Equal(x, y) && of[a] != nil {
				o[a] = of[a]
			}
		}
		return o
	}
	switch in.ReturnValues {
	case "ALL_OLD":
		return old
	case "ALL_NEW":
		return nw
	case "UPDATED_NEW":
		return changed(nw)
	case "UPDATED_OLD":
		return changed(old)
	}
	return nil
}

func merge(a, b row) row {
	o := row{}
	for k, v := range a {
		o[k] = v
	}
	for k, v := range b {
		o[k] = v
	}
	return o
}

func clone(r row) row {
	if r == nil {
		return nil
	}
	b, _ := json.Marshal(r)
	var o row
	_ = json.Unmarshal(b, &o)
	return o
}

func (d *DynamoDB) batchWrite(in *ddbReq) (obj, *ddbError) {
	n := 0
	var todo []func()
	for tn, raw := range in.RequestItems {
		t, err := d.ready(tn)
		if err != nil {
			return nil, err
		}
		var rs []struct {
			PutRequest    *struct{ Item row }
			DeleteRequest *struct{ Key row }
		}
		_ = json.Unmarshal(raw, &rs)
		n += len(rs)
		for _, r := range rs {
			op, q := "DeleteItem", ddbReq{}
			if r.PutRequest != nil {
				op, q.Item = "PutItem", r.PutRequest.Item
			} else {
				q.Key = r.DeleteRequest.Key
			}
			k, nw, _, err := d.prepare(op, t, &q)
			if err != nil {
				return nil, err
			}
			todo = append(todo, func() { d.store(t, k, nw) })
		}
	}
	if n > 25 || n == 0 {
		return nil, invalidReq("Too many items requested for the BatchWriteItem call")
	}
	for _, f := range todo {
		f()
	}
	return obj{"UnprocessedItems": obj{}}, nil
}

func (d *DynamoDB) batchGet(in *ddbReq) (obj, *ddbError) {
	res := obj{}
	for tn, raw := range in.RequestItems {
		t, err := d.ready(tn)
		if err != nil {
			return nil, err
		}
		var q struct{ Keys []row }
		_ = json.Unmarshal(raw, &q)
		if len(q.Keys) > 100 {
			return nil, invalidReq("Too many items requested for the BatchGetItem call")
		}
		out := []row{}
		for _, kv := range q.Keys {
			k, err := t.key(kv, true)
			if err != nil {
				return nil, err
			}
			if it := t.items[k]; it != nil {
				out = append(out, it)
			}
		}
		res[tn] = out
	}
	return obj{"Responses": res, "UnprocessedKeys": obj{}}, nil
}

func (d *DynamoDB) transactWrite(in *ddbReq) (obj, *ddbError) {
	if in.ClientRequestToken != "" {
		if at, ok := d.tokens[in.ClientRequestToken]; ok && d.now().Sub(at) < 10*time.Minute {
			return obj{}, nil
		}
	}
	var todo []func()
	var reasons []obj
	failed := false
	seen := map[string]bool{}
	for _, x := range in.TransactItems {
		for what, raw := range x {
			var q ddbReq
			_ = json.Unmarshal(raw, &q)
			t, err := d.ready(q.TableName)
			if err != nil {
				return nil, err
			}
			op := map[string]string{"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": "ConditionCheck"}[what]
			k, nw, _, err := d.prepare(op, t, &q)
			if seen[q.TableName+"\x00"+k] {
				return nil, invalidReq("Transaction request cannot include multiple operations on one item")
			}
			seen[q.TableName+"\x00"+k] = true
			switch {
			case err != nil && err.Code == "ConditionalCheckFailedException":
				failed = true
				r := obj{"Code": "ConditionalCheckFailed", "Message": err.Msg}
				if err.Item != nil {
					r["Item"] = err.Item
				}
				reasons = append(reasons, r)
				continue
			case err != nil:
				return nil, err
			}
			reasons = append(reasons, obj{"Code": "None"})
			if op != "ConditionCheck" {
				todo = append(todo, func() { d.store(t, k, nw) })
			}
		}
	}
	if failed {
		e := derr("TransactionCanceledException", "Transaction cancelled, please refer cancellation reasons for specific reasons")
		e.Reasons = reasons
		return nil, e
	}
	for _, f := range todo {
		f()
	}
	if in.ClientRequestToken != "" {
		d.tokens[in.ClientRequestToken] = d.now()
	}
	return obj{}, nil
}

func (t *table) order() []string {
	if t.keys == nil {
		for k := range t.items {
			t.keys = append(t.keys, k)
		}
		h := func(k string) string { s := md5.Sum([]byte(strings.SplitN(k, "\x00", 2)[0])); return string(s[:]) + k }
		sort.Slice(t.keys, func(i, j int) bool { return h(t.keys[i]) < h(t.keys[j]) })
	}
	return t.keys
}

func (d *DynamoDB) read(op string, t *table, in *ddbReq) (obj, *ddbError) {
	x := newExpr(in)
	type ent struct {
		k  string
		it row
	}
	var all []ent
	rng := t.rng
	var ix *index
	if in.IndexName != "" {
		for _, i := range t.idx {
			if i.name == in.IndexName {
				ix = i
			}
		}
		if ix == nil || d.now().Before(ix.readyAt) {
			return nil, invalidReq("The table does not have the specified index: %s", in.IndexName)
		}
		if in.ConsistentRead {
			return nil, invalidReq("Consistent reads are not supported on global secondary indexes")
		}
		rng = ix.rng
		for k := range mergeKeys(t) {
			it := t.items[k]
			if s, ok := t.shadow[k]; ok && d.now().Before(s.until) {
				it = s.old
			}
			if it == nil || it[ix.hash] == nil || (ix.rng != "" && it[ix.rng] == nil) {
				continue
			}
			all = append(all, ent{k, it})
		}
		sort.Slice(all, func(i, j int) bool { return all[i].k < all[j].k })
	} else {
		for _, k := range t.order() {
			all = append(all, ent{k, t.items[k]})
		}
	}
	keyCond := func(row) bool { return true }
	if op == "Query" {
		if in.KeyConditionExpression != "" {
			c, err := x.condition(in.KeyConditionExpression)
			if err != nil {
				return nil, err
			}
			keyCond = c
		} else if in.KeyConditions != nil {
			keyCond = func(r row) bool { return matches(r, in.KeyConditions, "") }
		} else {
			return nil, invalidReq("Either the KeyConditions or KeyConditionExpression parameter must be specified in the request.")
		}
		if rng != "" {
			sort.SliceStable(all, func(i, j int) bool { return compare(all[i].it[rng].(attr), all[j].it[rng].(attr)) < 0 })
		}
		if in.ScanIndexForward != nil && !*in.ScanIndexForward {
			for i, j := 0, len(all)-1; i < j; i, j = i+1, j-1 {
				all[i], all[j] = all[j], all[i]
			}
		}
	}
	filter := func(r row) bool {
		return matches(r, in.ScanFilter, in.ConditionalOperator) && matches(r, in.QueryFilter, in.ConditionalOperator)
	}
	if in.FilterExpression != "" {
		c, err := x.condition(in.FilterExpression)
		if err != nil {
			return nil, err
		}
		filter = c
	}
	// Parse the projection before the unused check; an empty row costs nothing.
	if _, err := x.project(row{}, in); err != nil {
		return nil, err
	}
	if err := x.unused(); err != nil {
		return nil, err
	}
	skip := false
	startKey := ""
	if len(in.ExclusiveStartKey) > 0 {
		kv := row{t.hash: in.ExclusiveStartKey[t.hash]}
		if t.rng != "" {
			kv[t.rng] = in.ExclusiveStartKey[t.rng]
		}
		k, err := t.key(kv, false)
		if err != nil {
			return nil, err
		}
		startKey, skip = k, true
		if _, there := t.items[k]; !there && op == "Scan" {
			// the item is gone: go on behind the place where it would be
			i := sort.Search(len(all), func(i int) bool { return orderOf(all[i].k) > orderOf(k) })
			all, skip = all[i:], false
		}
	}
	out := []row{}
	scanned, bytesRead := 0, 0
	var last row
	for i, e := range all {
		if skip {
			skip = e.k != startKey
			continue
		}
		if in.TotalSegments != nil && in.Segment != nil {
			s := md5.Sum([]byte(strings.SplitN(e.k, "\x00", 2)[0]))
			if int(s[0])**in.TotalSegments/256 != *in.Segment {
				continue
			}
		}
		if !keyCond(e.it) {
			continue
		}
		scanned++
		bytesRead += size(e.it)
		if filter(e.it) {
			it := e.it
			if ix != nil && ix.proj != "ALL" {
				it = row{}
				for _, a := range append([]string{t.hash, t.rng, ix.hash, ix.rng}, ix.include...) {
					if v := e.it[a]; a != "" && v != nil {
						it[a] = v
					}
				}
			}
			p, err := x.project(it, in)
			if err != nil {
				return nil, err
			}
			out = append(out, p)
		}
		if ((in.Limit != nil && scanned >= *in.Limit) || bytesRead >= 1<<20) && i < len(all)-1 {
			last = row{t.hash: e.it[t.hash]}
			for _, a := range []string{t.rng} {
				if a != "" {
					last[a] = e.it[a]
				}
			}
			if ix != nil {
				last[ix.hash] = e.it[ix.hash]
				if ix.rng != "" {
					last[ix.rng] = e.it[ix.rng]
				}
			}
			break
		}
	}
	if err := d.charge(t, "r", float64(bytesRead)/4096); err != nil {
		return nil, err
	}
	o := obj{"Items": out, "Count": len(out), "ScannedCount": scanned}
	if in.Select == "COUNT" {
		delete(o, "Items")
	}
	if last != nil {
		o["LastEvaluatedKey"] = last
	}
	return d.capacity(in, t, o, float64(bytesRead)/8192), nil
}

func orderOf(k string) string {
	s := md5.Sum([]byte(strings.SplitN(k, "\x00", 2)[0]))
	return string(s[:]) + k
}

func mergeKeys(t *table) map[string]bool {
	m := map[string]bool{}
	for k := range t.items {
		m[k] = true
	}
	for k := range t.shadow {
		m[k] = true
	}
	return m
}

// ---- values

func kind(v attr) (string, any) {
	for k, x := range v {
		return k, x
	}
	return "", nil
}

func num(v attr) *big.Rat {
	s, _ := v["N"].(string)
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return new(big.Rat)
	}
	return r
}

func numAttr(r *big.Rat) attr {
	if r.IsInt() {
		return attr{"N": r.Num().String()}
	}
	return attr{"N": strings.TrimRight(strings.TrimRight(r.FloatString(38), "0"), ".")}
}

func compare(a, b attr) int {
	ka, va := kind(a)
	kb, vb := kind(b)
	if ka != kb {
		return -2
	}
	switch ka {
	case "N":
		return num(a).Cmp(num(b))
	case "B":
		x, _ := base64.StdEncoding.DecodeString(va.(string))
		y, _ := base64.StdEncoding.DecodeString(vb.(string))
		return bytes.Compare(x, y)
	case "S":
		return strings.Compare(va.(string), vb.(string))
	}
	if equal(a, b) {
		return 0
	}
	return -2
}

func equal(a, b attr) bool {
	ka, va := kind(a)
	kb, vb := kind(b)
	if ka != kb {
		return false
	}
	switch ka {
	case "N":
		return num(a).Cmp(num(b)) == 0
	case "SS", "NS", "BS":
		x, y := strs(va), strs(vb)
		sort.Strings(x)
		sort.Strings(y)
		return strings.Join(x, "\x00") == strings.Join(y, "\x00")
	case "L":
		x, y := va.([]any), vb.([]any)
		for i := range x {
			if len(x) != len(y) || !equal(x[i].(attr), y[i].(attr)) {
				return false
			}
		}
		return len(x) == len(y)
	case "M":
		x, y := va.(row), vb.(row)
		for k := range x {
			yv, ok := y[k].(attr)
			if len(x) != len(y) || !ok || !equal(x[k].(attr), yv) {
				return false
			}
		}
		return len(x) == len(y)
	}
	return va == vb
}

func strs(v any) []string {
	var o []string
	l, _ := v.([]any)
	for _, x := range l {
		o = append(o, fmt.Sprint(x))
	}
	return o
}

func size(r row) int {
	n := 0
	for k, v := range r {
		n += len(k) + sizeOf(v)
	}
	return n
}

func sizeOf(v any) int {
	switch x := v.(type) {
	case string:
		return len(x)
	case []any:
		n := 3
		for _, y := range x {
			n += 1 + sizeOf(y)
		}
		return n
	case map[string]any:
		n := 0
		for k, y := range x {
			if len(x) == 1 && len(k) <= 4 { // {"S": …}
				return sizeOf(y)
			}
			n += len(k) + sizeOf(y)
		}
		return n
	}
	return 1
}

func matches(it row, conds map[string]legacy, op string) bool {
	if len(conds) == 0 {
		return true
	}
	any := false
	for a, c := range conds {
		cmp, vals := c.ComparisonOperator, c.AttributeValueList
		if c.Value != nil {
			vals = []attr{c.Value}
		}
		if cmp == "" {
			cmp = "EQ"
			if c.Exists != nil && !*c.Exists {
				cmp = "NULL"
			}
		}
		v, has := it[a].(attr)
		if ok := legacyOp(cmp, v, has, vals); ok {
			any = true
		} else if op != "OR" {
			return false
		}
	}
	return any
}

func legacyOp(op string, v attr, has bool, vals []attr) bool {
	switch op {
	case "NULL":
		return !has
	case "NOT_NULL":
		return has
	case "NE":
		return !has || !equal(v, vals[0])
	case "NOT_CONTAINS":
		return !contains(v, vals[0])
	}
	if !has {
		return false
	}
	switch op {
	case "EQ":
		return equal(v, vals[0])
	case "LT", "LE", "GT", "GE":
		c := compare(v, vals[0])
		return c > -2 && (op[0] == 'L' && c < 0 || op[0] == 'G' && c > 0 || op[1] == 'E' && c == 0)
	case "BETWEEN":
		return compare(v, vals[0]) >= 0 && compare(vals[1], v) >= 0
	case "IN":
		for _, x := range vals {
			if equal(v, x) {
				return true
			}
		}
	case "BEGINS_WITH":
		return begins(v, vals[0])
	case "CONTAINS":
		return contains(v, vals[0])
	}
	return false
}

func begins(v, p attr) bool {
	a, ok := v["S"].(string)
	b, ok2 := p["S"].(string)
	return ok && ok2 && strings.HasPrefix(a, b)
}

func contains(v, p attr) bool {
	k, x := kind(v)
	pk, px := kind(p)
	switch k {
	case "S":
		return pk == "S" && strings.Contains(x.(string), px.(string))
	case "SS", "NS", "BS":
		for _, s := range strs(x) {
			if s == fmt.Sprint(px) {
				return true
			}
		}
	case "L":
		for _, e := range x.([]any) {
			if equal(e.(attr), p) {
				return true
			}
		}
	}
	return false
}
type obj = map[string]any
