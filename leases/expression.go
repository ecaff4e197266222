package leases

import (
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// expression collects one conditional update. Every attribute is written by an alias, since some names are reserved words
// of DynamoDB ("at" is).
type expression struct {
	sets, removes, conditions []string
	names                     map[string]string
	values                    item
}

func newExpression() *expression {
	return &expression{names: map[string]string{}, values: item{}}
}

// path is the alias of an attribute, or of a member inside maps.
func (e *expression) path(names ...string) string {
	var b strings.Builder
	for i, n := range names {
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteByte('#')
		b.WriteString(n)
		e.names["#"+n] = n
	}
	return b.String()
}

func (e *expression) value(v types.AttributeValue) string {
	name := ":v" + strconv.Itoa(len(e.values))
	e.values[name] = v
	return name
}

func (e *expression) set(attr string, v types.AttributeValue) {
	e.sets = append(e.sets, e.path(attr)+" = "+e.value(v))
}

func (e *expression) setIfAbsent(attr string, v types.AttributeValue) {
	p := e.path(attr)
	e.sets = append(e.sets, p+" = if_not_exists("+p+", "+e.value(v)+")")
}

func (e *expression) remove(attr string) { e.removes = append(e.removes, e.path(attr)) }

func (e *expression) equal(v types.AttributeValue, names ...string) {
	e.conditions = append(e.conditions, e.path(names...)+" = "+e.value(v))
}

// equalPaths requires that a member inside maps and an attribute have the same value, whatever it is.
func (e *expression) equalPaths(names []string, attr string) {
	e.conditions = append(e.conditions, e.path(names...)+" = "+e.path(attr))
}

func (e *expression) differs(v types.AttributeValue, attr string) {
	e.conditions = append(e.conditions, e.path(attr)+" <> "+e.value(v))
}

func (e *expression) exists(attr string) {
	e.conditions = append(e.conditions, "attribute_exists("+e.path(attr)+")")
}

func (e *expression) absent(attr string) {
	e.conditions = append(e.conditions, "attribute_not_exists("+e.path(attr)+")")
}

// unchanged requires that nobody has written the row since it was seen. The counter says so by itself, except after a row
// was deleted and made anew, where it starts over; the nonce closes that gap, or the
// owner if there is no tenure. (A tenure that cannot be read counts as none, so its absence must not be required.)
func (e *expression) unchanged(seen Lease) {
	e.equal(number(seen.Counter), attrCounter)
	switch {
	case seen.Tenure != nil:
		e.equal(str(seen.Tenure.Nonce), attrTenure, tenureNonce)
	case seen.Owner != "":
		e.equal(str(seen.Owner), attrOwner)
	default:
		e.absent(attrOwner)
	}
}

// write moves the counter on from what was seen and signs for it.
func (e *expression) write(seen Lease, me Tenure) {
	me.At = seen.Counter + 1
	e.set(attrCounter, number(me.At))
	// The whole map, not its at alone: the row of a Java worker has none, that of a hand-off is the former owner's.
	e.set(attrTenure, encodeTenure(me))
}

func (e *expression) condition() *string { return aws.String(strings.Join(e.conditions, " AND ")) }

func (e *expression) update() *string {
	var parts []string
	if len(e.sets) > 0 {
		parts = append(parts, "SET "+strings.Join(e.sets, ", "))
	}
	if len(e.removes) > 0 {
		parts = append(parts, "REMOVE "+strings.Join(e.removes, ", "))
	}
	return aws.String(strings.Join(parts, " "))
}

func (e *expression) updateItem(table, key string) *dynamodb.UpdateItemInput {
	in := &dynamodb.UpdateItemInput{
		TableName:                           &table,
		Key:                                 item{attrKey: str(key)},
		UpdateExpression:                    e.update(),
		ConditionExpression:                 e.condition(),
		ExpressionAttributeNames:            e.names,
		ReturnValues:                        types.ReturnValueAllNew,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	if len(e.values) > 0 { // an empty map is refused
		in.ExpressionAttributeValues = e.values
	}
	return in
}
