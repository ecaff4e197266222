package leases

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// coreTable is the lease table without a network, an SDK or a goroutine: it evaluates the expressions that [Table] makes, so
// that the conditions under test are the product's own.
type coreTable struct {
	DynamoDBAPI // what is not needed
	rows        map[string]item
	fate        func(in *dynamodb.UpdateItemInput) coreFate // of the next write
	cancel      func()                                      // ends the call under way, which has had its one attempt
	wrote       func(before, after item)
}

// coreFate is what becomes of a request.
type coreFate int

const (
	coreServed coreFate = iota
	coreUnheard
	coreUnanswered // served, and the reply is lost
)

var errCoreNetwork = errors.New("no answer")

func (t *coreTable) UpdateItem(_ context.Context, in *dynamodb.UpdateItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	fate := t.fate(in)
	if fate == coreUnheard {
		t.cancel()
		return nil, errCoreNetwork
	}
	row, ok := t.apply(in)
	switch {
	case fate == coreUnanswered:
		t.cancel()
		return nil, errCoreNetwork
	case !ok:
		return nil, &types.ConditionalCheckFailedException{Item: row}
	}
	return &dynamodb.UpdateItemOutput{Attributes: row}, nil
}

func (t *coreTable) GetItem(_ context.Context, in *dynamodb.GetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	return &dynamodb.GetItemOutput{Item: t.rows[keyOf(in.Key)]}, nil
}

// apply serves a write; ok is whether its condition held. The row is as it is afterwards.
func (t *coreTable) apply(in *dynamodb.UpdateItemInput) (row item, ok bool) {
	key := keyOf(in.Key)
	before := t.rows[key]
	e := coreExpression{in, before}
	for part := range strings.SplitSeq(*in.ConditionExpression, " AND ") {
		if !e.holds(part) {
			return before, false
		}
	}
	after := maps.Clone(before)
	sets, removes, _ := strings.Cut(*in.UpdateExpression, "REMOVE ")
	for _, set := range coreSet.FindAllStringSubmatch(strings.TrimPrefix(sets, "SET "), -1) {
		name, value := in.ExpressionAttributeNames[set[1]], set[2]
		if fallback, ok := strings.CutPrefix(value, "if_not_exists("+set[1]+", "); ok {
			if _, there := before[name]; there {
				continue
			}
			value = strings.TrimSuffix(fallback, ")")
		}
		after[name] = in.ExpressionAttributeValues[value]
	}
	for name := range strings.SplitSeq(removes, ", ") {
		delete(after, in.ExpressionAttributeNames[name])
	}
	t.rows[key] = after
	t.wrote(before, after)
	return after, true
}

var coreSet = regexp.MustCompile(`(#\w+) = (:\w+|if_not_exists\([^)]*\))`)

type coreExpression struct {
	in  *dynamodb.UpdateItemInput
	row item
}

func (e coreExpression) holds(part string) bool {
	if path, ok := strings.CutPrefix(part, "attribute_not_exists("); ok {
		return e.value(strings.TrimSuffix(path, ")")) == nil
	}
	if path, ok := strings.CutPrefix(part, "attribute_exists("); ok {
		return e.value(strings.TrimSuffix(path, ")")) != nil
	}
	if a, b, ok := strings.Cut(part, " <> "); ok {
		return !reflect.DeepEqual(e.value(a), e.value(b))
	}
	a, b, _ := strings.Cut(part, " = ")
	return e.value(a) != nil && reflect.DeepEqual(e.value(a), e.value(b))
}

// value is that of a path in the row, or of a placeholder; nil if there is none.
func (e coreExpression) value(operand string) types.AttributeValue {
	if strings.HasPrefix(operand, ":") {
		return e.in.ExpressionAttributeValues[operand]
	}
	in := e.row
	names := strings.Split(operand, ".")
	for i, alias := range names {
		v := in[e.in.ExpressionAttributeNames[alias]]
		if i == len(names)-1 {
			return v
		}
		m, ok := v.(*types.AttributeValueMemberM)
		if !ok {
			return nil
		}
		in = m.Value
	}
	return nil
}
