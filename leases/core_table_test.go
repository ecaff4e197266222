package leases_test

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardlease/shardlease/leases"
)

// coreTable is the lease table without a network, an SDK or a goroutine: it evaluates the expressions that [leases.Table] makes,
// so that the conditions under test are the product's own.
type coreTable struct {
	leases.DynamoDBAPI // what is not needed
	rows               map[string]*coreRow
	programs           map[string]*coreProgram
	fate               func(late func()) coreFate // of the next write; late is its effect, should it come later
	wrote              func(key string, before, after *coreRow)
	ignores            string // an attribute that conditions do not look at: a guard that is missing
	ctx                coreContext
}

// coreRow is one version of a row. Nothing changes it.
type coreRow struct {
	item  leases.Item
	lease leases.Lease
}

// coreFate is what becomes of a request.
type coreFate int

const (
	coreServed coreFate = iota
	coreUnheard
	coreUnanswered // served, and the reply is lost
)

// coreContext is that of one call: it ends with the call's first attempt, if that got no answer. Its deadline is over, which nobody
// looks at: so no timer is made for an attempt.
type coreContext struct{ err error }

func (c *coreContext) Deadline() (time.Time, bool) { return time.Unix(0, 0), true }
func (c *coreContext) Done() <-chan struct{}       { return nil }
func (c *coreContext) Err() error                  { return c.err }
func (c *coreContext) Value(any) any               { return nil }

var errCoreNetwork = errors.New("no answer")

// serve does what a request asks, or not, by its fate. It returns the row that a failed condition met.
func (t *coreTable) serve(do func() bool, row func() leases.Item) error {
	switch fate := t.fate(func() { do() }); {
	case fate == coreUnheard:
	case do():
		if fate == coreServed {
			return nil
		}
	case fate == coreServed:
		return &types.ConditionalCheckFailedException{Item: row()}
	}
	t.ctx.err = errCoreNetwork
	return errCoreNetwork
}

func (t *coreTable) item(key string) leases.Item {
	if r := t.rows[key]; r != nil {
		return r.item
	}
	return nil
}

func (t *coreTable) UpdateItem(_ context.Context, in *dynamodb.UpdateItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	key := leases.KeyOf(in.Key)
	p := t.program(*in.ConditionExpression, *in.UpdateExpression, in.ExpressionAttributeNames)
	err := t.serve(func() bool {
		before := t.item(key)
		if before == nil || !p.holds(before, in.ExpressionAttributeValues, t.ignores) {
			return false
		}
		t.put(key, p.update(before, in.ExpressionAttributeValues))
		return true
	}, func() leases.Item { return t.item(key) })
	if err != nil {
		return nil, err
	}
	return &dynamodb.UpdateItemOutput{Attributes: t.item(key)}, nil
}

func (t *coreTable) PutItem(_ context.Context, in *dynamodb.PutItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	key := leases.KeyOf(in.Item)
	p := t.program(*in.ConditionExpression, "", in.ExpressionAttributeNames)
	err := t.serve(func() bool {
		if !p.holds(t.item(key), nil, t.ignores) {
			return false
		}
		t.put(key, in.Item)
		return true
	}, func() leases.Item { return t.item(key) })
	return &dynamodb.PutItemOutput{}, err
}

func (t *coreTable) DeleteItem(_ context.Context, in *dynamodb.DeleteItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error) {
	key := leases.KeyOf(in.Key)
	p := t.program(*in.ConditionExpression, "", in.ExpressionAttributeNames)
	err := t.serve(func() bool {
		if !p.holds(t.item(key), in.ExpressionAttributeValues, t.ignores) {
			return false
		}
		before := t.rows[key]
		delete(t.rows, key)
		t.wrote(key, before, nil)
		return true
	}, func() leases.Item { return t.item(key) })
	return &dynamodb.DeleteItemOutput{}, err
}

func (t *coreTable) GetItem(_ context.Context, in *dynamodb.GetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	return &dynamodb.GetItemOutput{Item: t.item(leases.KeyOf(in.Key))}, nil
}

func (t *coreTable) put(key string, item leases.Item) {
	l, err := leases.Decode(item)
	if err != nil {
		l = leases.Lease{Key: key} // judged as what it is not
	}
	before, after := t.rows[key], &coreRow{item, l}
	t.rows[key] = after
	t.wrote(key, before, after)
}

// coreProgram is what a condition and an update say, taken apart once.
type coreProgram struct {
	conditions []coreCondition
	sets       []coreSet
	removes    []string
}

type coreCondition struct {
	kind string // =, <>, exists, absent
	a, b coreOperand
}

type coreSet struct {
	attr, value string
	ifAbsent    bool
}

// coreOperand is the path of an attribute, or a value's placeholder.
type coreOperand struct {
	path  []string
	value string
}

func (t *coreTable) program(condition, update string, names map[string]string) *coreProgram {
	key := condition + "\n" + update
	if p := t.programs[key]; p != nil {
		return p
	}
	operand := func(s string) coreOperand {
		if strings.HasPrefix(s, ":") {
			return coreOperand{value: s}
		}
		var o coreOperand
		for alias := range strings.SplitSeq(s, ".") {
			o.path = append(o.path, names[alias])
		}
		return o
	}
	p := &coreProgram{}
	for part := range strings.SplitSeq(condition, " AND ") {
		if path, ok := strings.CutPrefix(part, "attribute_not_exists("); ok {
			p.conditions = append(p.conditions, coreCondition{"absent", operand(strings.TrimSuffix(path, ")")), coreOperand{}})
		} else if path, ok := strings.CutPrefix(part, "attribute_exists("); ok {
			p.conditions = append(p.conditions, coreCondition{"exists", operand(strings.TrimSuffix(path, ")")), coreOperand{}})
		} else {
			words := strings.Fields(part)
			p.conditions = append(p.conditions, coreCondition{words[1], operand(words[0]), operand(words[2])})
		}
	}
	sets, removes, _ := strings.Cut(update, "REMOVE ")
	for set := range strings.SplitSeq(strings.TrimPrefix(sets, "SET "), ", #") {
		path, value, ok := strings.Cut(strings.TrimSpace(set), " = ")
		if !ok {
			continue
		}
		attr := names["#"+strings.TrimPrefix(path, "#")]
		_, fallback, ifAbsent := strings.Cut(value, ", ")
		if ifAbsent {
			value = strings.TrimSuffix(fallback, ")")
		}
		p.sets = append(p.sets, coreSet{attr, value, ifAbsent})
	}
	if removes != "" {
		for alias := range strings.SplitSeq(removes, ", ") {
			p.removes = append(p.removes, names[alias])
		}
	}
	t.programs[key] = p
	return p
}

func (o coreOperand) in(row, values leases.Item) types.AttributeValue {
	if o.value != "" {
		return values[o.value]
	}
	v := row[o.path[0]]
	for _, name := range o.path[1:] {
		m, ok := v.(*types.AttributeValueMemberM)
		if !ok {
			return nil
		}
		v = m.Value[name]
	}
	return v
}

func (p *coreProgram) holds(row, values leases.Item, ignores string) bool {
	for _, c := range p.conditions {
		a := c.a.in(row, values)
		switch c.kind {
		case "absent":
			if a != nil {
				return false
			}
		case "exists":
			if a == nil {
				return false
			}
		case "=":
			if c.a.path[0] != ignores && !coreEqual(a, c.b.in(row, values)) {
				return false
			}
		case "<>":
			if coreEqual(a, c.b.in(row, values)) {
				return false
			}
		}
	}
	return true
}

func coreEqual(a, b types.AttributeValue) bool {
	switch a := a.(type) {
	case nil:
		return false
	case *types.AttributeValueMemberS:
		b, ok := b.(*types.AttributeValueMemberS)
		return ok && a.Value == b.Value
	case *types.AttributeValueMemberN:
		b, ok := b.(*types.AttributeValueMemberN)
		return ok && a.Value == b.Value
	}
	return reflect.DeepEqual(a, b)
}

func (p *coreProgram) update(before, values leases.Item) leases.Item {
	after := maps.Clone(before)
	for _, s := range p.sets {
		if s.ifAbsent && before[s.attr] != nil {
			continue
		}
		after[s.attr] = values[s.value]
	}
	for _, name := range p.removes {
		delete(after, name)
	}
	return after
}
