// Package fake is a prototype: how much code a Kinesis endpoint takes that gives a KCL-style
// consumer every behaviour that the probe asks for, over the real wire protocol (awsJson1.1 and
// event streams), in process. It is evidence for a decision, not a finished product.
package kinesis

import (
	"crypto/md5"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
)

// Kinesis is an http.Handler. The zero value of each knob is the usual behaviour.
type Kinesis struct {
	Delay     time.Duration    // how long CREATING, UPDATING and DELETING last
	Limits    bool             // enforce AWS's per-shard and control-plane rates
	Heartbeat time.Duration    // empty EFO events, 1 s if zero
	SubTTL    time.Duration    // 5 min if zero
	IterTTL   time.Duration    // 5 min if zero
	Now       func() time.Time // time.Now if nil
	// Fault, if set, is asked before each call: a non-nil error is answered instead.
	Fault func(op string, body []byte) *Error

	mu      sync.Mutex
	wake    chan struct{}
	streams map[string]*stream
	seq     int64
	rates   map[string]*bucket
}

// Error is a modelled AWS error.
type Error struct {
	Status    int
	Code, Msg string
}

type stream struct {
	name, arn, mode string
	created         time.Time
	readyAt         time.Time
	busy            string // CREATING, UPDATING or DELETING till readyAt
	retention       int
	shards          []*shard
	consumers       map[string]*consumer
	tags            map[string]string
	enc             string
}

type shard struct {
	id, parent, adjacent string
	lo, hi               *big.Int
	start, end           string // sequence numbers
	born, closed         time.Time
	recs                 []rec
}

type rec struct {
	seq, key string
	data     string // base64, as on the wire
	size     int
	at       time.Time
}

type consumer struct {
	name, arn string
	created   time.Time
	subs      map[string]*sub
}

type sub struct {
	since time.Time
	kill  chan struct{}
}

type bucket struct {
	tokens float64
	at     time.Time
}

var maxHash = new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 128), big.NewInt(1))

func (k *Kinesis) now() time.Time {
	if k.Now != nil {
		return k.Now()
	}
	return time.Now()
}

func (k *Kinesis) nextSeq() string { k.seq++; return fmt.Sprintf("49%054d", k.seq) }
func (k *Kinesis) curSeq() string  { return fmt.Sprintf("49%054d", k.seq) }
func before(seq string) string {
	n, _ := new(big.Int).SetString(seq, 10)
	return fmt.Sprintf("%056s", n.Sub(n, big.NewInt(1)).String())
}

func (k *Kinesis) bump() { close(k.wake); k.wake = make(chan struct{}) }

// allow is a token bucket; it is asked only where Limits is set.
func (k *Kinesis) allow(key string, rate, burst, cost float64) bool {
	if !k.Limits {
		return true
	}
	b := k.rates[key]
	now := k.now()
	if b == nil {
		b = &bucket{burst, now}
		k.rates[key] = b
	}
	b.tokens = min(burst, b.tokens+rate*now.Sub(b.at).Seconds())
	b.at = now
	if b.tokens < cost {
		return false
	}
	b.tokens -= cost
	return true
}

type request struct {
	StreamName, StreamARN, ShardId, ShardToSplit, NewStartingHashKey, ShardToMerge, AdjacentShardToMerge string
	ShardCount, TargetShardCount, Limit, MaxResults, RetentionPeriodHours                                *int
	StreamModeDetails                                                                                    struct{ StreamMode string }
	ExclusiveStartShardId, ExclusiveStartStreamName, NextToken                                           string
	ShardFilter                                                                                          *struct {
		Type, ShardId string
		Timestamp     float64
	}
	ShardIterator, ShardIteratorType, StartingSequenceNumber string
	Timestamp                                                float64
	PartitionKey, ExplicitHashKey, Data                      string
	Records                                                  []struct{ PartitionKey, ExplicitHashKey, Data string }
	ConsumerName, ConsumerARN, ResourceARN, EncryptionType   string
	EnforceConsumerDeletion                                  bool
	StartingPosition                                         struct {
		Type, SequenceNumber string
		Timestamp            float64
	}
	TagKeys []string
	Tags    json.RawMessage
}

type obj = map[string]any

func bad(code, f string, a ...any) *Error { return &Error{400, code, fmt.Sprintf(f, a...)} }
func invalid(f string, a ...any) *Error   { return bad("InvalidArgumentException", f, a...) }
func notFound(f string, a ...any) *Error  { return bad("ResourceNotFoundException", f, a...) }
func inUse(f string, a ...any) *Error     { return bad("ResourceInUseException", f, a...) }
func throughput(what string) *Error {
	return bad("ProvisionedThroughputExceededException", "Rate exceeded for %s", what)
}
func unix(t time.Time) float64     { return float64(t.UnixMilli()) / 1000 }
func fromUnix(f float64) time.Time { return time.UnixMilli(int64(f * 1000)) }
func shardID(n int) string         { return fmt.Sprintf("shardId-%012d", n) }
func (s *stream) open() (o []*shard) {
	for _, x := range s.shards {
		if x.end == "" {
			o = append(o, x)
		}
	}
	return
}
func (s *shard) has(h *big.Int) bool { return h.Cmp(s.lo) >= 0 && h.Cmp(s.hi) <= 0 }

func (k *Kinesis) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	body, _ := io.ReadAll(r.Body)
	var in request
	err := func() *Error {
		if k.Fault != nil {
			if e := k.Fault(op, body); e != nil {
				return e
			}
		}
		if e := json.Unmarshal(body, &in); e != nil {
			return bad("SerializationException", "%v", e)
		}
		return nil
	}()
	if err == nil && op == "SubscribeToShard" {
		err = k.subscribe(w, r, &in)
		if err == nil {
			return
		}
	}
	var out obj
	if err == nil {
		k.mu.Lock()
		k.init()
		out, err = k.call(op, &in)
		k.mu.Unlock()
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	w.Header().Set("X-Amzn-Requestid", "fake")
	if err != nil {
		w.WriteHeader(err.Status)
		_ = json.NewEncoder(w).Encode(obj{"__type": err.Code, "message": err.Msg})
		return
	}
	if out != nil {
		_ = json.NewEncoder(w).Encode(out)
	}
}

func (k *Kinesis) init() {
	if k.streams == nil {
		k.streams, k.wake, k.rates = map[string]*stream{}, make(chan struct{}), map[string]*bucket{}
	}
	for n, s := range k.streams {
		if s.busy != "" && !k.now().Before(s.readyAt) {
			if s.busy == "DELETING" {
				delete(k.streams, n)
			}
			s.busy = ""
		}
	}
}

func (k *Kinesis) find(in *request) (*stream, *Error) {
	n := in.StreamName
	if n == "" {
		_, n, _ = strings.Cut(in.StreamARN, "/")
		n, _, _ = strings.Cut(n, "/")
	}
	if n == "" {
		return nil, invalid("StreamName or StreamARN is needed")
	}
	if s := k.streams[n]; s != nil {
		return s, nil
	}
	return nil, notFound("Stream %s under account 000000000000 not found.", n)
}

func (s *stream) shard(id string) (*shard, *Error) {
	for _, x := range s.shards {
		if x.id == id {
			return x, nil
		}
	}
	return nil, notFound("Shard %s in stream %s under account 000000000000 does not exist", id, s.name)
}

func (k *Kinesis) add(s *stream, lo, hi *big.Int, parent, adj string) *shard {
	x := &shard{id: shardID(len(s.shards)), lo: lo, hi: hi, parent: parent, adjacent: adj, start: k.nextSeq(), born: k.now()}
	s.shards = append(s.shards, x)
	return x
}

func (k *Kinesis) setBusy(s *stream, st string) { s.busy, s.readyAt = st, k.now().Add(k.Delay) }

func (k *Kinesis) split(s *stream, x *shard, at *big.Int) {
	x.end, x.closed = k.nextSeq(), k.now()
	k.add(s, x.lo, new(big.Int).Sub(at, big.NewInt(1)), x.id, "")
	k.add(s, at, x.hi, x.id, "")
}

func (k *Kinesis) merge(s *stream, a, b *shard) {
	a.end, a.closed = k.nextSeq(), k.now()
	b.end, b.closed = k.nextSeq(), k.now()
	lo, hi := a.lo, b.hi
	if b.lo.Cmp(a.lo) < 0 {
		lo, hi = b.lo, a.hi
	}
	k.add(s, lo, hi, a.id, b.id)
}

func describe(x *shard) obj {
	q := obj{"StartingSequenceNumber": x.start}
	if x.end != "" {
		q["EndingSequenceNumber"] = x.end
	}
	o := obj{"ShardId": x.id, "HashKeyRange": obj{"StartingHashKey": x.lo.String(), "EndingHashKey": x.hi.String()}, "SequenceNumberRange": q}
	if x.parent != "" {
		o["ParentShardId"] = x.parent
	}
	if x.adjacent != "" {
		o["AdjacentParentShardId"] = x.adjacent
	}
	return o
}

func (s *stream) children(id string) []obj {
	var c []obj
	for _, x := range s.shards {
		if x.parent == id || x.adjacent == id {
			p := []string{x.parent}
			if x.adjacent != "" {
				p = append(p, x.adjacent)
			}
			c = append(c, obj{"ShardId": x.id, "ParentShards": p, "HashKeyRange": obj{"StartingHashKey": x.lo.String(), "EndingHashKey": x.hi.String()}})
		}
	}
	return c
}

func (s *stream) status() string {
	if s.busy != "" {
		return s.busy
	}
	return "ACTIVE"
}

func (k *Kinesis) call(op string, in *request) (obj, *Error) {
	switch op {
	case "CreateStream":
		if k.streams[in.StreamName] != nil {
			return nil, inUse("Stream %s under account 000000000000 already exists.", in.StreamName)
		}
		n, mode := 4, "ON_DEMAND"
		if in.StreamModeDetails.StreamMode != "ON_DEMAND" {
			mode = "PROVISIONED"
			if in.ShardCount == nil || *in.ShardCount < 1 {
				return nil, invalid("ShardCount is needed")
			}
			n = *in.ShardCount
		}
		s := &stream{name: in.StreamName, arn: "arn:aws:kinesis:us-east-1:000000000000:stream/" + in.StreamName, mode: mode, created: k.now(), retention: 24, consumers: map[string]*consumer{}, tags: map[string]string{}, enc: "NONE"}
		k.streams[in.StreamName] = s
		step := new(big.Int).Div(new(big.Int).Add(maxHash, big.NewInt(1)), big.NewInt(int64(n)))
		for i := range n {
			lo := new(big.Int).Mul(step, big.NewInt(int64(i)))
			hi := new(big.Int).Sub(new(big.Int).Add(lo, step), big.NewInt(1))
			if i == n-1 {
				hi = maxHash
			}
			k.add(s, lo, hi, "", "")
		}
		k.setBusy(s, "CREATING")
		return nil, nil
	case "ListStreams":
		var names []string
		for n := range k.streams {
			names = append(names, n)
		}
		sort.Strings(names)
		from := in.ExclusiveStartStreamName
		if in.NextToken != "" {
			from = in.NextToken
		}
		i := sort.Search(len(names), func(i int) bool { return names[i] > from })
		names = names[i:]
		lim, more := 100, false
		if in.Limit != nil {
			lim = *in.Limit
		}
		if len(names) > lim {
			names, more = names[:lim], true
		}
		o := obj{"StreamNames": names, "HasMoreStreams": more, "StreamSummaries": []obj{}}
		if more {
			o["NextToken"] = names[len(names)-1]
		}
		return o, nil
	case "DescribeLimits":
		return obj{"ShardLimit": 500, "OpenShardCount": 0, "OnDemandStreamCount": 0, "OnDemandStreamCountLimit": 50}, nil
	case "GetRecords":
		return k.getRecords(in)
	case "ListShards":
		return k.listShards(in)
	case "DescribeStreamConsumer", "DeregisterStreamConsumer":
		for _, s := range k.streams {
			for n, c := range s.consumers {
				if c.arn == in.ConsumerARN || (in.StreamARN == s.arn && c.name == in.ConsumerName) {
					if op == "DeregisterStreamConsumer" {
						delete(s.consumers, n)
						k.bump()
						return nil, nil
					}
					return obj{"ConsumerDescription": k.consumer(s, c)}, nil
				}
			}
		}
		return nil, notFound("Consumer %s%s not found.", in.ConsumerARN, in.ConsumerName)
	case "ListTagsForResource":
		return obj{"Tags": []obj{}}, nil
	}
	s, err := k.find(in)
	if err != nil {
		return nil, err
	}
	if s.busy != "" && strings.Contains(" SplitShard MergeShards UpdateShardCount StartStreamEncryption ", " "+op+" ") {
		return nil, inUse("Stream %s under account 000000000000 not ACTIVE, instead in state %s", s.name, s.busy)
	}
	switch op {
	case "DeleteStream":
		if len(s.consumers) > 0 && !in.EnforceConsumerDeletion {
			return nil, inUse("Stream %s has registered consumers", s.name)
		}
		k.setBusy(s, "DELETING")
		k.bump()
		return nil, nil
	case "DescribeStreamSummary":
		return obj{"StreamDescriptionSummary": k.summary(s)}, nil
	case "DescribeStream":
		d := k.summary(s)
		lim := 100
		if in.Limit != nil {
			lim = *in.Limit
		}
		var ss []obj
		more := false
		for _, x := range s.shards {
			if x.id > in.ExclusiveStartShardId {
				if len(ss) == lim {
					more = true
					break
				}
				ss = append(ss, describe(x))
			}
		}
		d["Shards"], d["HasMoreShards"] = ss, more
		return obj{"StreamDescription": d}, nil
	case "PutRecord":
		return k.put(s, in.PartitionKey, in.ExplicitHashKey, in.Data)
	case "PutRecords":
		if len(in.Records) < 1 || len(in.Records) > 500 {
			return nil, invalid("%d records, want 1 to 500", len(in.Records))
		}
		total := 0
		for _, r := range in.Records {
			total += len(r.Data)*3/4 + len(r.PartitionKey)
		}
		if total > 10<<20 {
			return nil, invalid("Records size exceeds 10 MB limit")
		}
		out, failed := []obj{}, 0
		for _, r := range in.Records {
			o, e := k.put(s, r.PartitionKey, r.ExplicitHashKey, r.Data)
			if e != nil && e.Code != "ProvisionedThroughputExceededException" {
				return nil, e
			}
			if e != nil {
				failed++
				o = obj{"ErrorCode": e.Code, "ErrorMessage": e.Msg}
			}
			out = append(out, o)
		}
		return obj{"FailedRecordCount": failed, "Records": out}, nil
	case "GetShardIterator":
		x, err := s.shard(in.ShardId)
		if err != nil {
			return nil, err
		}
		after, err := k.position(x, in.ShardIteratorType, in.StartingSequenceNumber, in.Timestamp)
		if err != nil {
			return nil, err
		}
		return obj{"ShardIterator": k.token(s, x, after)}, nil
	case "SplitShard":
		x, err := s.shard(in.ShardToSplit)
		if err != nil {
			return nil, err
		}
		at, ok := new(big.Int).SetString(in.NewStartingHashKey, 10)
		if x.end != "" {
			return nil, invalid("Shard %s has already been merged or split", x.id)
		}
		if !ok || at.Cmp(x.lo) <= 0 || at.Cmp(x.hi) > 0 {
			return nil, invalid("NewStartingHashKey %s is not inside shard %s", in.NewStartingHashKey, x.id)
		}
		k.split(s, x, at)
	case "MergeShards":
		a, err := s.shard(in.ShardToMerge)
		if err != nil {
			return nil, err
		}
		b, err := s.shard(in.AdjacentShardToMerge)
		if err != nil {
			return nil, err
		}
		one := big.NewInt(1)
		if a.end != "" || b.end != "" || (new(big.Int).Add(a.hi, one).Cmp(b.lo) != 0 && new(big.Int).Add(b.hi, one).Cmp(a.lo) != 0) {
			return nil, invalid("Shards %s and %s are closed or not adjacent", a.id, b.id)
		}
		k.merge(s, a, b)
	case "UpdateShardCount":
		cur, want := len(s.open()), *in.TargetShardCount
		if want < (cur+1)/2 || want > cur*2 {
			return nil, bad("LimitExceededException", "%d to %d shards", cur, want)
		}
		for len(s.open()) < want { // split the widest
			o := s.open()
			sort.SliceStable(o, func(i, j int) bool { return width(o[i]).Cmp(width(o[j])) > 0 })
			k.split(s, o[0], new(big.Int).Add(o[0].lo, new(big.Int).Rsh(width(o[0]), 1)))
		}
		for len(s.open()) > want { // merge the narrowest pair
			o := s.open()
			sort.Slice(o, func(i, j int) bool { return o[i].lo.Cmp(o[j].lo) < 0 })
			best := 0
			for i := range len(o) - 1 {
				if new(big.Int).Sub(o[i+1].hi, o[i].lo).Cmp(new(big.Int).Sub(o[best+1].hi, o[best].lo)) < 0 {
					best = i
				}
			}
			k.merge(s, o[best], o[best+1])
		}
		k.setBusy(s, "UPDATING")
		k.bump()
		return obj{"StreamName": s.name, "StreamARN": s.arn, "CurrentShardCount": cur, "TargetShardCount": want}, nil
	case "RegisterStreamConsumer":
		if s.consumers[in.ConsumerName] != nil {
			return nil, inUse("Consumer %s exists", in.ConsumerName)
		}
		c := &consumer{name: in.ConsumerName, created: k.now(), subs: map[string]*sub{}}
		c.arn = fmt.Sprintf("%s/consumer/%s:%d", s.arn, c.name, c.created.Unix())
		s.consumers[c.name] = c
		o := k.consumer(s, c)
		delete(o, "StreamARN")
		return obj{"Consumer": o}, nil
	case "ListStreamConsumers":
		var cs []obj
		for _, c := range s.consumers {
			o := k.consumer(s, c)
			delete(o, "StreamARN")
			cs = append(cs, o)
		}
		return obj{"Consumers": cs}, nil
	case "IncreaseStreamRetentionPeriod", "DecreaseStreamRetentionPeriod":
		s.retention = *in.RetentionPeriodHours
		return nil, nil
	case "UpdateStreamMode":
		s.mode = in.StreamModeDetails.StreamMode
	case "StartStreamEncryption", "StopStreamEncryption":
		s.enc = in.EncryptionType
	case "AddTagsToStream", "RemoveTagsFromStream":
		return nil, nil
	case "ListTagsForStream":
		return obj{"Tags": []obj{}, "HasMoreTags": false}, nil
	case "EnableEnhancedMonitoring", "DisableEnhancedMonitoring":
		return obj{"StreamName": s.name, "CurrentShardLevelMetrics": []string{}, "DesiredShardLevelMetrics": []string{}}, nil
	default:
		return nil, bad("UnknownOperationException", "%s", op)
	}
	k.setBusy(s, "UPDATING")
	k.bump()
	return nil, nil
}

func width(x *shard) *big.Int { return new(big.Int).Add(new(big.Int).Sub(x.hi, x.lo), big.NewInt(1)) }

func (k *Kinesis) summary(s *stream) obj {
	return obj{"StreamName": s.name, "StreamARN": s.arn, "StreamStatus": s.status(), "RetentionPeriodHours": s.retention, "StreamCreationTimestamp": unix(s.created),
		"StreamModeDetails": obj{"StreamMode": s.mode}, "EncryptionType": s.enc, "EnhancedMonitoring": []obj{{"ShardLevelMetrics": []string{}}}, "OpenShardCount": len(s.open()), "ConsumerCount": len(s.consumers)}
}

func (k *Kinesis) consumer(s *stream, c *consumer) obj {
	st := "ACTIVE"
	if k.now().Sub(c.created) < k.Delay {
		st = "CREATING"
	}
	return obj{"ConsumerName": c.name, "ConsumerARN": c.arn, "ConsumerStatus": st, "ConsumerCreationTimestamp": unix(c.created), "StreamARN": s.arn}
}

func (k *Kinesis) put(s *stream, key, hash, data string) (obj, *Error) {
	if key == "" || len(key) > 256 {
		return nil, bad("ValidationException", "PartitionKey of %d bytes", len(key))
	}
	size := base64.StdEncoding.DecodedLen(len(data)) + len(key) - strings.Count(data[max(0, len(data)-2):], "=")
	if size > 1<<20 {
		return nil, invalid("record of %d bytes is over 1 MiB", size)
	}
	sum := md5.Sum([]byte(key))
	h := new(big.Int).SetBytes(sum[:])
	if hash != "" {
		var ok bool
		if h, ok = new(big.Int).SetString(hash, 10); !ok || h.Sign() < 0 || h.Cmp(maxHash) > 0 {
			return nil, invalid("Invalid ExplicitHashKey %s", hash)
		}
	}
	for _, x := range s.open() {
		if x.has(h) {
			if !k.allow("wn"+s.name+x.id, 1000, 1000, 1) || !k.allow("wb"+s.name+x.id, 1<<20, 1<<20, float64(size)) {
				return nil, throughput("shard " + x.id + " in stream " + s.name)
			}
			r := rec{k.nextSeq(), key, data, size, k.now()}
			x.recs = append(x.recs, r)
			k.bump()
			return obj{"ShardId": x.id, "SequenceNumber": r.seq, "EncryptionType": s.enc}, nil
		}
	}
	return nil, &Error{500, "InternalFailure", "no shard for the key"}
}

type token struct {
	S, H, A string
	C, T    int64 // stream's creation, token's own
}

func (k *Kinesis) token(s *stream, x *shard, after string) string {
	b, _ := json.Marshal(token{s.name, x.id, after, s.created.UnixNano(), k.now().UnixMilli()})
	return base64.StdEncoding.EncodeToString(b)
}

// position turns an iterator type into "all records after this sequence number".
func (k *Kinesis) position(x *shard, typ, seq string, ts float64) (string, *Error) {
	switch typ {
	case "TRIM_HORIZON":
		return before(x.start), nil
	case "LATEST":
		return k.curSeq(), nil
	case "AT_TIMESTAMP":
		after := k.curSeq()
		for _, r := range x.recs {
			if !r.at.Before(fromUnix(ts)) {
				return before(r.seq), nil
			}
		}
		return after, nil
	case "AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER":
		if len(seq) != 56 || seq < x.start || (x.end != "" && seq > x.end) || seq > k.curSeq() {
			return "", invalid("StartingSequenceNumber %s used in GetShardIterator on shard %s is invalid.", seq, x.id)
		}
		if typ == "AT_SEQUENCE_NUMBER" {
			return before(seq), nil
		}
		return seq, nil
	}
	return "", bad("ValidationException", "ShardIteratorType %s", typ)
}

func (k *Kinesis) trim(s *stream, x *shard) {
	old := k.now().Add(-time.Duration(s.retention) * time.Hour)
	i := 0
	for i < len(x.recs) && x.recs[i].at.Before(old) {
		i++
	}
	x.recs = x.recs[i:]
}

// read gives the records after a sequence number, how far behind that is, and whether the shard is at its end.
func (k *Kinesis) read(s *stream, x *shard, after string, limit, bytes int) (out []obj, last string, behind int64, end bool, size int) {
	k.trim(s, x)
	i := sort.Search(len(x.recs), func(i int) bool { return x.recs[i].seq > after })
	last = after
	var at time.Time
	for ; i < len(x.recs) && len(out) < limit; i++ {
		r := x.recs[i]
		if size+r.size > bytes && len(out) > 0 {
			break
		}
		size += r.size
		out = append(out, obj{"Data": r.data, "PartitionKey": r.key, "SequenceNumber": r.seq, "ApproximateArrivalTimestamp": unix(r.at), "EncryptionType": s.enc})
		last, at = r.seq, r.at
	}
	if i < len(x.recs) {
		if at.IsZero() {
			at = x.recs[i].at
		}
		behind = max(1, k.now().Sub(at).Milliseconds())
	}
	return out, last, behind, x.end != "" && i == len(x.recs), size
}

func (k *Kinesis) getRecords(in *request) (obj, *Error) {
	b, e := base64.StdEncoding.DecodeString(in.ShardIterator)
	var t token
	if e != nil || json.Unmarshal(b, &t) != nil {
		return nil, invalid("Invalid ShardIterator.")
	}
	ttl := 5 * time.Minute
	if k.IterTTL > 0 {
		ttl = k.IterTTL
	}
	if k.now().Sub(time.UnixMilli(t.T)) > ttl {
		return nil, bad("ExpiredIteratorException", "Iterator expired. It was created at %s.", time.UnixMilli(t.T))
	}
	limit := 10000
	if in.Limit != nil {
		if limit = *in.Limit; limit < 1 || limit > 10000 {
			return nil, invalid("Limit %d", limit)
		}
	}
	s := k.streams[t.S]
	if s == nil || s.created.UnixNano() != t.C {
		return nil, notFound("Stream %s not found", t.S)
	}
	x, err := s.shard(t.H)
	if err != nil {
		return nil, err
	}
	if !k.allow("rn"+s.name+x.id, 5, 5, 1) || !k.allow("rb"+s.name+x.id, 2<<20, 10<<20, 0) {
		return nil, throughput("shard " + x.id + " in stream " + s.name)
	}
	recs, last, behind, end, size := k.read(s, x, t.A, limit, 10<<20)
	if bk := k.rates["rb"+s.name+x.id]; bk != nil {
		bk.tokens -= float64(size) // may go below zero: then the next calls are refused, as at AWS
	}
	if recs == nil {
		recs = []obj{}
	}
	o := obj{"Records": recs, "MillisBehindLatest": behind}
	if end {
		o["ChildShards"] = s.children(x.id)
	} else {
		o["NextShardIterator"] = k.token(s, x, last)
	}
	return o, nil
}

func (k *Kinesis) listShards(in *request) (obj, *Error) {
	if in.NextToken != "" {
		if in.StreamName != "" || in.StreamARN != "" {
			return nil, invalid("NextToken and a stream cannot be given together.")
		}
		max := in.MaxResults
		b, e := base64.StdEncoding.DecodeString(in.NextToken)
		if e != nil || json.Unmarshal(b, in) != nil {
			return nil, bad("ExpiredNextTokenException", "bad token")
		}
		in.MaxResults = max
	}
	s, err := k.find(in)
	if err != nil {
		return nil, err
	}
	if !k.allow("ls"+s.name, 1000, 1000, 1) || (k.Limits && !k.allow("ls2"+s.name, 100, 100, 1)) {
		return nil, bad("LimitExceededException", "Rate exceeded for stream %s", s.name)
	}
	horizon := k.now().Add(-time.Duration(s.retention) * time.Hour)
	if horizon.Before(s.created) {
		horizon = s.created
	}
	typ, at := "FROM_TRIM_HORIZON", horizon
	if f := in.ShardFilter; f != nil {
		typ = f.Type
		if strings.HasSuffix(typ, "_TIMESTAMP") {
			at = fromUnix(f.Timestamp)
			if at.Before(horizon) {
				at = horizon
			}
		}
	}
	lim := 1000
	if in.MaxResults != nil {
		lim = *in.MaxResults
	}
	ss := []obj{}
	more := ""
	for _, x := range s.shards {
		ok := x.id > in.ExclusiveStartShardId
		switch typ {
		case "AT_LATEST":
			ok = ok && x.end == ""
		case "AT_TRIM_HORIZON", "AT_TIMESTAMP":
			ok = ok && !x.born.After(maxTime(at, s.shards[0].born)) && (x.end == "" || x.closed.After(at))
			if x.parent == "" && !at.After(x.born) {
				ok = x.id > in.ExclusiveStartShardId
			}
		case "FROM_TRIM_HORIZON", "FROM_TIMESTAMP":
			ok = ok && (x.end == "" || !x.closed.Before(at))
		case "AFTER_SHARD_ID":
			ok = ok && x.id > in.ShardFilter.ShardId
		}
		if !ok {
			continue
		}
		if len(ss) == lim {
			more = ss[lim-1]["ShardId"].(string)
			break
		}
		ss = append(ss, describe(x))
	}
	o := obj{"Shards": ss}
	if more != "" {
		b, _ := json.Marshal(obj{"StreamName": s.name, "ShardFilter": in.ShardFilter, "ExclusiveStartShardId": more})
		o["NextToken"] = base64.StdEncoding.EncodeToString(b)
	}
	return o, nil
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// subscribe is SubscribeToShard. A non-nil error means that nothing was written yet.
func (k *Kinesis) subscribe(w http.ResponseWriter, r *http.Request, in *request) *Error {
	k.mu.Lock()
	k.init()
	var s *stream
	var c *consumer
	for _, st := range k.streams {
		for _, co := range st.consumers {
			if co.arn == in.ConsumerARN {
				s, c = st, co
			}
		}
	}
	fail := func(e *Error) *Error { k.mu.Unlock(); return e }
	if c == nil {
		return fail(notFound("Consumer %s not found.", in.ConsumerARN))
	}
	if k.now().Sub(c.created) < k.Delay {
		return fail(inUse("Consumer %s is CREATING", c.arn))
	}
	x, err := s.shard(in.ShardId)
	if err != nil {
		return fail(err)
	}
	if old := c.subs[x.id]; old != nil && k.now().Sub(old.since) < 5*time.Second {
		return fail(inUse("Another active subscription exists for this consumer: %s", c.arn))
	}
	p := in.StartingPosition
	after, err := k.position(x, p.Type, p.SequenceNumber, p.Timestamp)
	if err != nil {
		return fail(err)
	}
	if old := c.subs[x.id]; old != nil {
		close(old.kill)
	}
	me := &sub{k.now(), make(chan struct{})}
	c.subs[x.id] = me
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		if c.subs[x.id] == me && k.now().Sub(me.since) >= 5*time.Second {
			delete(c.subs, x.id)
		}
		k.mu.Unlock()
	}()

	w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
	w.WriteHeader(200)
	enc := eventstream.NewEncoder()
	send := func(typ, name string, payload obj) bool {
		b, _ := json.Marshal(payload)
		m := eventstream.Message{Payload: b}
		m.Headers.Set(":message-type", eventstream.StringValue(typ))
		m.Headers.Set(map[string]string{"event": ":event-type", "exception": ":exception-type"}[typ], eventstream.StringValue(name))
		m.Headers.Set(":content-type", eventstream.StringValue("application/json"))
		if enc.Encode(w, m) != nil {
			return false
		}
		w.(http.Flusher).Flush()
		return true
	}
	hb, ttl := time.Second, 5*time.Minute
	if k.Heartbeat > 0 {
		hb = k.Heartbeat
	}
	if k.SubTTL > 0 {
		ttl = k.SubTTL
	}
	if !send("event", "initial-response", obj{}) {
		return nil
	}
	deadline, beat := time.After(ttl), time.NewTicker(hb)
	defer beat.Stop()
	idle := false
	for {
		k.mu.Lock()
		if k.streams[s.name] != s || s.consumers[c.name] != c {
			k.mu.Unlock()
			send("exception", "ResourceNotFoundException", obj{"message": "consumer or stream is gone"})
			return nil
		}
		recs, last, behind, end, _ := k.read(s, x, after, 1000, 2<<20)
		ev := obj{"Records": recs, "ContinuationSequenceNumber": last, "MillisBehindLatest": behind}
		if recs == nil {
			ev["Records"] = []obj{}
		}
		if end {
			ev["ChildShards"] = s.children(x.id)
			delete(ev, "ContinuationSequenceNumber")
		}
		wake := k.wake
		k.mu.Unlock()
		if len(recs) > 0 || end || idle {
			if !send("event", "SubscribeToShardEvent", ev) || end {
				return nil
			}
			after, idle = last, false
			if behind > 0 {
				continue
			}
		}
		select {
		case <-wake:
		case <-beat.C:
			idle = true
		case <-deadline:
			return nil
		case <-me.kill:
			send("exception", "ResourceInUseException", obj{"message": "another subscription took over"})
			return nil
		case <-r.Context().Done():
			return nil
		}
	}
}
