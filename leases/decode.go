package leases

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/hashkey"
)

// item is a row as the SDK has it.
type item = map[string]types.AttributeValue

// RowError says why a row of the lease table cannot be read as a lease.
type RowError struct {
	Key       string // the row's leaseKey
	Attribute string
	Found     string // type and value, or "nothing"
	Want      string
}

func (e *RowError) Error() string {
	return fmt.Sprintf("lease row %q: attribute %s is %s, want %s", e.Key, e.Attribute, e.Found, e.Want)
}

// decoder reads rows. intern, if set, returns one copy of equal strings: a table has many rows and few workers.
type decoder struct {
	intern func(string) string
}

// decode reads a row as a lease. Attributes that it does not know are left out; a known one of another type, or a missing
// counter or checkpoint, is a *RowError. A tenure that cannot be read is taken for none: the row's owner then counts as
// a Java worker, and the next take writes a new one.
func (d decoder) decode(row item) (Lease, error) {
	r := rowReader{key: keyOf(row)}
	l := Lease{}
	var pending checkpoint.Pending
	var hasCounter, hasSwitches, hasCheckpoint, hasStart, hasEnd bool
	for name, v := range row {
		switch name {
		case attrKey:
			l.Key = r.str(name, v)
		case attrOwner:
			l.Owner = d.worker(r.str(name, v))
		case attrCounter:
			l.Counter, hasCounter = r.number(name, v), true
		case attrSwitches:
			l.OwnerSwitches, hasSwitches = r.number(name, v), true
		case attrCheckpoint:
			l.Checkpoint.SequenceNumber, hasCheckpoint = r.position(name, v), true
		case attrSub:
			l.Checkpoint.SubSequenceNumber = r.number(name, v)
		case attrPending:
			pending.At.SequenceNumber = r.position(name, v)
		case attrPendingSub:
			pending.At.SubSequenceNumber = r.number(name, v)
		case attrPendingState:
			pending.State = r.bytes(name, v)
		case attrParents:
			l.ParentShardIDs = r.set(name, v)
		case attrChildren:
			l.ChildShardIDs = r.set(name, v)
		case attrStartHash:
			l.HashKeyRange.Start, hasStart = r.hashKey(name, v), true
		case attrEndHash:
			l.HashKeyRange.End, hasEnd = r.hashKey(name, v), true
		case attrThroughput:
			l.ThroughputKBps, l.HasThroughput = r.float(name, v), true
		case attrCheckpointOwner:
			l.CheckpointOwner = d.worker(r.str(name, v))
		case attrEntityType:
			l.EntityType = r.str(name, v)
		case attrStream:
			l.StreamName = d.worker(r.str(name, v))
		case attrShard:
			l.ShardID = r.str(name, v)
		case attrTenure:
			l.Tenure = d.tenure(v)
		case attrHandoffTo:
			l.HandoffTo = d.worker(r.str(name, v))
		case attrStartAt:
			l.StartAtMillis = r.number(name, v)
		case attrStreamARN:
			l.StreamARN = d.worker(r.str(name, v))
		}
	}
	if pending.At.SequenceNumber != "" {
		l.Pending = &pending
	}
	l.HashKeyRange.Known = hasStart && hasEnd
	switch {
	case r.err != nil:
	case l.Key == "":
		r.fail(attrKey, row[attrKey], "a string (S) that is not empty")
	case !hasCounter:
		r.fail(attrCounter, nil, "a number (N)")
	case !hasSwitches:
		r.fail(attrSwitches, nil, "a number (N)")
	case !hasCheckpoint:
		r.fail(attrCheckpoint, nil, wantPosition)
	case hasStart && !hasEnd:
		r.fail(attrEndHash, nil, wantHashKey+", because there is a "+attrStartHash)
	case hasEnd && !hasStart:
		r.fail(attrStartHash, nil, wantHashKey+", because there is an "+attrEndHash)
	case hasStart && l.HashKeyRange.End.Compare(l.HashKeyRange.Start) < 0:
		r.fail(attrStartHash, row[attrStartHash], "at most "+attrEndHash+" "+l.HashKeyRange.End.String())
	}
	if r.err != nil {
		return Lease{}, r.err
	}
	return l, nil
}

func (d decoder) worker(s string) string {
	if d.intern == nil || s == "" {
		return s
	}
	return d.intern(s)
}

// tenure reads the tenure map, or returns nil if it is not one.
func (d decoder) tenure(v types.AttributeValue) *Tenure {
	m, ok := v.(*types.AttributeValueMemberM)
	if !ok {
		return nil
	}
	var r rowReader
	t := Tenure{}
	var hasAt bool
	for name, v := range m.Value {
		switch name {
		case tenureWorker:
			t.Worker = d.worker(r.str(name, v))
		case tenureNonce:
			t.Nonce = r.str(name, v) // one for each row: a table of them would take more than it saves
		case tenureAt:
			t.At, hasAt = r.number(name, v), true
		case tenureFailover:
			t.Failover = time.Duration(r.number(name, v)) * time.Millisecond
		case tenureMax:
			t.Max = int(r.number(name, v))
		case tenureZone:
			t.Zone = d.worker(r.str(name, v))
		case tenureLeaving:
			b, ok := v.(*types.AttributeValueMemberBOOL)
			if !ok {
				return nil
			}
			t.Leaving = b.Value
		}
	}
	if r.err != nil || t.Worker == "" || t.Nonce == "" || !hasAt {
		return nil
	}
	return &t
}

// rowReader reads attributes and keeps the first fault.
type rowReader struct {
	key string
	err *RowError
}

const (
	wantPosition = "a string (S): decimal digits, TRIM_HORIZON, LATEST, AT_TIMESTAMP or SHARD_END"
	wantHashKey  = "a string (S) with a decimal number from 0 to 2^128-1"
)

func (r *rowReader) fail(name string, v types.AttributeValue, want string) {
	if r.err == nil {
		r.err = &RowError{Key: r.key, Attribute: name, Found: describe(v), Want: want}
	}
}

func (r *rowReader) str(name string, v types.AttributeValue) string {
	s, ok := v.(*types.AttributeValueMemberS)
	if !ok {
		r.fail(name, v, "a string (S)")
		return ""
	}
	return s.Value
}

func (r *rowReader) number(name string, v types.AttributeValue) int64 {
	s, ok := v.(*types.AttributeValueMemberN)
	if ok {
		if n, err := strconv.ParseInt(s.Value, 10, 64); err == nil {
			return n
		}
	}
	r.fail(name, v, "a number (N) that is a 64-bit integer")
	return 0
}

func (r *rowReader) float(name string, v types.AttributeValue) float64 {
	s, ok := v.(*types.AttributeValueMemberN)
	if ok {
		if f, err := strconv.ParseFloat(s.Value, 64); err == nil {
			return f
		}
	}
	r.fail(name, v, "a number (N)")
	return 0
}

func (r *rowReader) position(name string, v types.AttributeValue) string {
	s, ok := v.(*types.AttributeValueMemberS)
	if ok {
		if _, err := checkpoint.Parse(s.Value); err == nil {
			return s.Value
		}
	}
	r.fail(name, v, wantPosition)
	return ""
}

func (r *rowReader) bytes(name string, v types.AttributeValue) []byte {
	b, ok := v.(*types.AttributeValueMemberB)
	if !ok {
		r.fail(name, v, "binary (B)")
		return nil
	}
	return b.Value
}

func (r *rowReader) set(name string, v types.AttributeValue) []string {
	s, ok := v.(*types.AttributeValueMemberSS)
	if !ok {
		// A list here is the classic mistake of a hand-made row: Java reads it as empty, without a word.
		r.fail(name, v, "a string set (SS)")
		return nil
	}
	out := slices.Clone(s.Value)
	slices.Sort(out)
	return out
}

func (r *rowReader) hashKey(name string, v types.AttributeValue) hashkey.Key {
	s, ok := v.(*types.AttributeValueMemberS)
	if ok {
		if k, err := hashkey.Parse(s.Value); err == nil {
			return k
		}
	}
	r.fail(name, v, wantHashKey)
	return hashkey.Key{}
}

func keyOf(row item) string {
	if s, ok := row[attrKey].(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}

// describe names type and value of an attribute, shortened to what fits a log line.
func describe(v types.AttributeValue) string {
	const most = 64
	cut := func(s string) string {
		if len(s) > most {
			return s[:most] + "…"
		}
		return s
	}
	switch v := v.(type) {
	case nil:
		return "missing"
	case *types.AttributeValueMemberS:
		return fmt.Sprintf("S %q", cut(v.Value))
	case *types.AttributeValueMemberN:
		return "N " + cut(v.Value)
	case *types.AttributeValueMemberBOOL:
		return fmt.Sprintf("BOOL %t", v.Value)
	case *types.AttributeValueMemberNULL:
		return "NULL"
	case *types.AttributeValueMemberB:
		return fmt.Sprintf("B of %d bytes", len(v.Value))
	case *types.AttributeValueMemberSS:
		return "SS " + cut(fmt.Sprintf("%q", v.Value))
	case *types.AttributeValueMemberNS:
		return "NS " + cut(fmt.Sprint(v.Value))
	case *types.AttributeValueMemberBS:
		return fmt.Sprintf("BS of %d", len(v.Value))
	case *types.AttributeValueMemberL:
		elems := make([]string, len(v.Value))
		for i, e := range v.Value {
			elems[i] = describe(e)
		}
		return "L " + cut(fmt.Sprint(elems))
	case *types.AttributeValueMemberM:
		return fmt.Sprintf("M of %d members", len(v.Value))
	}
	return fmt.Sprintf("%T", v)
}

// entityOf tells what a row that may not be a lease is: the value of entityType, or what the older tables of KCL 3.0 to
// 3.4 keep without one. known is false for a row of another kind; a lease is "LEASE".
func entityOf(row item) (entity string, known bool) {
	if v, ok := row[attrEntityType]; ok {
		s, isString := v.(*types.AttributeValueMemberS)
		if !isString {
			return describe(v), false
		}
		if s.Value != "" {
			return s.Value, s.Value == entityLease || knownEntities[s.Value]
		}
	}
	if _, ok := row[attrKey]; ok {
		return entityLease, true
	}
	if _, ok := row["wid"]; ok {
		return "WORKER_METRIC_STATS", true
	}
	if s, ok := row["key"].(*types.AttributeValueMemberS); ok {
		switch s.Value {
		case "Leader":
			return "LEADER", true
		case keyClientVersion:
			return "CLIENT_VERSION_MIGRATION", true
		case "TableMigration3.5":
			return "TABLE_MIGRATION", true
		}
	}
	return "", false
}
