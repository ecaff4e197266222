package dynamodb

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

// maxIndexes is how many global secondary indexes a table may have.
const maxIndexes = 20

// definitions reads AttributeDefinitions.
func definitions(p *params) map[string]kind {
	kinds := map[string]kind{}
	p.structures("AttributeDefinitions", func(q *params) {
		name := q.str("AttributeName")
		k := kind(q.enum("AttributeType", "S", "N", "B"))
		if name == "" || !q.has("AttributeType") {
			q.fail(invalid("AttributeDefinitions: both AttributeName and AttributeType are required"))
		}
		if old, twice := kinds[name]; twice && old != k {
			q.fail(invalid("Cannot have two attributes with the same name: %s", name))
		}
		kinds[name] = k
	})
	return kinds
}

// schemaOf reads KeySchema; the kinds are filled in by resolve.
func schemaOf(p *params) keySchema {
	var k keySchema
	n := 0
	p.structures("KeySchema", func(q *params) {
		name := q.str("AttributeName")
		role := q.enum("KeyType", "HASH", "RANGE")
		if n++; name == "" {
			q.fail(invalid("KeySchema: AttributeName is required"))
		}
		switch {
		case n == 1 && role == "HASH":
			k.hash = name
		case n == 2 && role == "RANGE" && name != k.hash:
			k.sort = name
		case n == 2 && name == k.hash:
			q.fail(invalid("Both the Hash Key and the Range Key element in the KeySchema have the same name"))
		case n == 1:
			q.fail(invalid("Invalid KeySchema: The first KeySchemaElement is not a HASH key type"))
		case n == 2:
			q.fail(invalid("Invalid KeySchema: The second KeySchemaElement is not a RANGE key type"))
		default:
			q.fail(invalid("1 validation error detected: Value at 'keySchema' failed to satisfy constraint: Member must have length less than or equal to 2"))
		}
	})
	if n == 0 {
		p.fail(invalid("%s: KeySchema is required and must name a HASH key", p.of))
	}
	return k
}

// resolve fills in the kinds of the key's attributes.
func (k *keySchema) resolve(kinds map[string]kind) *wire.Error {
	for _, name := range k.names() {
		if kinds[name] == "" {
			return invalid("One or more parameter values were invalid: Some index key attributes are not defined in AttributeDefinitions. Keys: [%s], AttributeDefinitions: [%s]",
				strings.Join(k.names(), ", "), strings.Join(sortedNames(kinds), ", "))
		}
	}
	k.hashKind, k.sortKind = kinds[k.hash], kinds[k.sort]
	return nil
}

func sortedNames(kinds map[string]kind) []string {
	names := make([]string, 0, len(kinds))
	for n := range kinds {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// given reads ProvisionedThroughput; ok is false if it did not come.
func given(p *params) (t throughput, ok bool) {
	q := p.sub("ProvisionedThroughput")
	if q == nil {
		return throughput{}, false
	}
	var has [2]bool
	t.read, has[0] = q.integer("ReadCapacityUnits", 1, math.MaxInt32)
	t.write, has[1] = q.integer("WriteCapacityUnits", 1, math.MaxInt32)
	if !has[0] || !has[1] {
		q.fail(invalid("ProvisionedThroughput: both ReadCapacityUnits and WriteCapacityUnits are required"))
	}
	if err := q.done(); err != nil {
		p.fail(err)
	}
	return t, true
}

// indexOf reads the definition of a global secondary index.
func indexOf(q *params) *index {
	x := &index{name: q.str("IndexName"), keys: schemaOf(q)}
	if err := checkName("indexName", x.name); err != nil {
		q.fail(err)
	}
	pr := q.sub("Projection")
	if pr == nil {
		q.fail(invalid("One or more parameter values were invalid: Unknown ProjectionType: null"))
		return x
	}
	x.projection = pr.enum("ProjectionType", "ALL", "INCLUDE", "KEYS_ONLY")
	x.extra = pr.strings("NonKeyAttributes")
	switch {
	case !pr.has("ProjectionType"):
		pr.fail(invalid("One or more parameter values were invalid: Unknown ProjectionType: null"))
	case x.projection == "INCLUDE" && len(x.extra) == 0:
		pr.fail(invalid("One or more parameter values were invalid: ProjectionType is INCLUDE, but NonKeyAttributes is not specified"))
	case x.projection != "INCLUDE" && x.extra != nil:
		pr.fail(invalid("One or more parameter values were invalid: ProjectionType is %s, but NonKeyAttributes is specified", x.projection))
	}
	if err := pr.done(); err != nil {
		q.fail(err)
	}
	return x
}

// capacityOf settles the throughput of a table or index against the billing mode.
func capacityOf(what string, onDemand, given bool) *wire.Error {
	switch {
	case onDemand && given:
		return invalid("One or more parameter values were invalid: Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST")
	case !onDemand && !given:
		return invalid("No provisioned throughput specified for the %s", what)
	}
	return nil
}

// checkName refuses names of tables and indexes that the service does not take.
func checkName(what, name string) *wire.Error {
	for i := range len(name) {
		if c := name[i]; !isLetter(c) && !isDigit(c) && c != '.' && c != '-' {
			return invalid("1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+", name, what)
		}
	}
	if len(name) < 3 || len(name) > 255 {
		return invalid("%s%s must be at least 3 characters long and at most 255 characters long", strings.ToUpper(what[:1]), what[1:])
	}
	return nil
}

// add puts a new index on the table, checked against what is there.
func (t *table) add(x *index) *wire.Error {
	if err := x.keys.resolve(t.kinds); err != nil {
		return err
	}
	for _, y := range t.indexes {
		if y.name == x.name {
			return invalid("Attempting to create an index which already exists")
		}
	}
	if len(t.indexes) >= maxIndexes {
		return wire.Errorf("LimitExceededException", "GlobalSecondaryIndex count exceeds the per-table limit of %d", maxIndexes)
	}
	t.indexes = append(t.indexes, x)
	return nil
}

// usedNames are the attributes that make up the keys of the table and its indexes.
func (t *table) usedNames() []string {
	used := t.keys.names()
	for _, x := range t.indexes {
		used = append(used, x.keys.names()...)
	}
	slices.Sort(used)
	return slices.Compact(used)
}

// checkUsed refuses AttributeDefinitions that no key uses.
func (t *table) checkUsed() *wire.Error {
	used := t.usedNames()
	if names := sortedNames(t.kinds); !slices.Equal(names, used) {
		return invalid("One or more parameter values were invalid: Number of attributes in KeySchema does not exactly match number of attributes defined in AttributeDefinitions: Some AttributeDefinitions are not used. AttributeDefinitions: [%s], keys used: [%s]",
			strings.Join(names, ", "), strings.Join(used, ", "))
	}
	return nil
}

// readTags reads Tags.
func readTags(p *params) map[string]string {
	tags := map[string]string{}
	p.structures("Tags", func(q *params) {
		key := q.str("Key")
		value := q.str("Value")
		if key == "" || len(key) > 128 || len(value) > 256 {
			q.fail(invalid("One or more parameter values were invalid: a tag's key has 1 to 128 characters and its value at most 256, not %d and %d", len(key), len(value)))
		}
		tags[key] = value
	})
	return tags
}

func (d *DynamoDB) arn(table string) string {
	region, account := d.Region, d.Account
	if region == "" {
		region = "us-east-1"
	}
	if account == "" {
		account = "000000000000"
	}
	return fmt.Sprintf("arn:aws:dynamodb:%s:%s:table/%s", region, account, table)
}
