package dynamodb

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

// Codecs are the encodings of requests and answers, that of requests which name none first.
var Codecs = []wire.Codec{wire.JSON10, wire.JSON11}

// DynamoDB is the service. Its zero value is ready, with no tables; set the options before the first call. Its methods may be
// called from several goroutines at once, and each call takes effect at one instant.
type DynamoDB struct {
	// Region and Account go into ARNs. Empty means us-east-1 and 000000000000.
	Region, Account string
	// TableDelay is how long a table stays CREATING, UPDATING or DELETING. Zero means no time at all, negative is taken as zero.
	TableDelay time.Duration
	// IndexDelay is how long an index stays CREATING, counted from when UpdateTable added it, and DELETING. Zero means
	// TableDelay, so that index and table become ACTIVE together.
	IndexDelay time.Duration
	// IndexLag is how far the secondary indexes run behind their tables. Zero means that they never do.
	IndexLag time.Duration
	// Limits makes provisioned tables and indexes throttle, with up to 300 s of unused capacity saved, and bounds on-demand
	// ones by what the service gives a new table: 12,000 read and 4,000 write units a second.
	Limits bool
	// StreamShards is how many shards a new stream of a table has; at least 1.
	StreamShards int
	// StreamShardLife is how old a shard becomes before one that follows takes its place, StreamRetention how long records, and closed
	// shards without records, are kept, StreamIteratorTTL how long a shard iterator is good for. Zero means what the service does:
	// 4 hours, 24 hours, 15 minutes.
	StreamShardLife, StreamRetention, StreamIteratorTTL time.Duration
	// Changed, if set, is called with every write, under the lock: it must not wait, nor call the service.
	Changed func(Change)

	mu        sync.Mutex
	tables    map[string]*table
	tokens    map[string]usedToken // ClientRequestTokens of transactions
	streams   []*stream            // by creation; the last of a table that is enabled is its own
	describes perSecond            // calls of DescribeStream
	programs  programs             // parsed expressions; has a lock of its own
}

// operation decodes a request and returns what to do under the lock.
type operation func(d *DynamoDB, p *params) (action, *wire.Error)

// action carries a decoded request out. It is called with the lock held, and returns the output's members.
type action func(c *call) (output, *wire.Error)

// call is one request under way.
type call struct {
	now    time.Time
	client string
	used   units
}

var operations = map[string]operation{
	"CreateTable":   (*DynamoDB).createTable,
	"DescribeTable": (*DynamoDB).describeTable,
	"DeleteTable":   (*DynamoDB).deleteTable,
	"UpdateTable":   (*DynamoDB).updateTable,
	"ListTables":    (*DynamoDB).listTables,

	"UpdateContinuousBackups":   (*DynamoDB).updateContinuousBackups,
	"DescribeContinuousBackups": (*DynamoDB).describeContinuousBackups,
	"UpdateTimeToLive":          (*DynamoDB).updateTimeToLive,
	"DescribeTimeToLive":        (*DynamoDB).describeTimeToLive,
	"TagResource":               (*DynamoDB).tagResource,
	"UntagResource":             (*DynamoDB).untagResource,
	"ListTagsOfResource":        (*DynamoDB).listTagsOfResource,
	"DescribeLimits":            (*DynamoDB).describeLimits,

	"PutItem":    (*DynamoDB).putItem,
	"UpdateItem": (*DynamoDB).updateItem,
	"DeleteItem": (*DynamoDB).deleteItem,
	"GetItem":    (*DynamoDB).getItem,
	"Query":      (*DynamoDB).query,
	"Scan":       (*DynamoDB).scan,

	"BatchGetItem":       (*DynamoDB).batchGetItem,
	"BatchWriteItem":     (*DynamoDB).batchWriteItem,
	"TransactGetItems":   (*DynamoDB).transactGetItems,
	"TransactWriteItems": (*DynamoDB).transactWriteItems,
}

// StreamsTarget is the prefix of X-Amz-Target that names an operation of DynamoDB Streams.
const StreamsTarget = "DynamoDBStreams_20120810"

// ServeHTTP answers one call in awsJson1.0 to either service, the operation named by X-Amz-Target. It notes the capacity used with [wire.Charge].
func (d *DynamoDB) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	target, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	codec, fault := wire.CodecFor(r.Header.Get("Content-Type"), Codecs...)
	if fault != nil {
		writeError(w, wire.JSON10, fault)
		return
	}
	body, err := wire.ReadBody(r)
	if err != nil {
		writeError(w, codec, serialization("read the body of %s: %v", operation, err))
		return
	}
	known := operations
	if target == StreamsTarget {
		known = streamOperations
	}
	out, used, fault := d.do(wire.ClientOf(r.Context()), operation, known[operation], codec, body)
	wire.Charge(r.Context(), used.read, used.write)
	if fault != nil {
		writeError(w, codec, fault)
		return
	}
	wire.WriteResult(w, codec, out)
}

// units are the capacity that a call used.
type units struct{ read, write float64 }

// do answers one call: the operation's output or a modelled error, and what it cost either way. The output holds stored
// values that nobody changes any more, so it may be encoded at leisure.
func (d *DynamoDB) do(client, name string, op operation, codec wire.Codec, body []byte) (output, units, *wire.Error) {
	if op == nil {
		return nil, units{}, wire.Errorf("UnknownOperationException", "the emulator does not know the DynamoDB operation %q", name)
	}
	if len(body) > maxBody {
		return nil, units{}, invalid("The request of %d bytes exceeds the limit of %d", len(body), maxBody)
	}
	decoded, err := decode(codec, body)
	if err != nil {
		return nil, units{}, serialization("decode the body of %s: %v", name, err)
	}
	p := newParams(name, decoded)
	if p.err != nil {
		return nil, units{}, p.err
	}
	act, fault := op(d, p)
	if fault != nil {
		return nil, units{}, fault
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tables == nil {
		d.tables, d.tokens = map[string]*table{}, map[string]usedToken{}
	}
	c := call{now: time.Now(), client: client}
	out, fault := act(&c)
	return out, c.used, fault
}

// maxBody is the largest request the service takes.
const maxBody = 16 << 20

// namespaces are what precedes the code of an error that does not come from the service itself but from what is in front of it.
var namespaces = map[string]string{
	"ValidationException":       "com.amazon.coral.validate#",
	"SerializationException":    "com.amazon.coral.service#",
	"ThrottlingException":       "com.amazon.coral.service#",
	"UnknownOperationException": "com.amazon.coral.service#",
}

func writeError(w http.ResponseWriter, codec wire.Codec, e *wire.Error) {
	namespace, ok := namespaces[e.Code]
	if !ok {
		namespace = "com.amazonaws.dynamodb.v20120810#"
	}
	wire.WriteError(w, codec, namespace, e)
}
