package sim

import (
	"context"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
)

// world is one bubble: the services, the fleet and who puts records.
type world struct {
	s        Schedule
	root     context.Context //nolint:containedctx // of all processes; without an end
	server   *emulator.Server
	kinesis  *kinesis.Client
	table    *dynamodb.Client        // if the stream is a table's, the table's,
	streams  *dynamodbstreams.Client // and the stream's
	arn      string
	j        *judge
	register *register
	hands    hands
	from     config.InitialPosition
	stale    bool // old replies may be asked for
	calls    atomic.Int64
	late     sync.WaitGroup // requests on their way whose senders may have given up
	deleted  atomic.Bool    // the stream was
	dark     atomic.Bool    // see night

	faults  sync.WaitGroup
	running context.Context //nolint:containedctx // done when everything is to be mended
	mend    context.CancelFunc

	mu      sync.Mutex
	places  []*place
	all     []*process // that were ever started
	next    map[string]int
	by      string // the strategy of processes that start
	applied int
}

func newWorld(ctx context.Context, s Schedule) *world {
	var opts []emulator.Option
	if s.ControlDelay > 0 {
		opts = append(opts, emulator.WithControlDelay(s.ControlDelay))
	}
	if s.IteratorTTL > 0 {
		opts = append(opts, emulator.WithIteratorTTL(s.IteratorTTL))
	}
	if s.SubscriptionTTL > 0 {
		opts = append(opts, emulator.WithSubscriptionTTL(s.SubscriptionTTL))
	}
	if s.Table {
		opts = append(opts, emulator.WithTableStreamShards(s.Shards), emulator.WithTableStreamRetention(s.Retention))
	}
	w := &world{
		s: s, root: context.WithoutCancel(ctx), server: emulator.New(opts...), j: newJudge(newHistory(), s), register: &register{},
		stale: s.has(StaleShards) || s.has(StaleScans), next: map[string]int{}, by: s.Strategy,
	}
	w.running, w.mend = context.WithCancel(w.root)
	w.kinesis = w.kinesisOf(w.cloud("admin", nil))
	w.server.ObserveItems(func(c emulator.ItemChange) {
		if c.Table == application {
			w.j.changed(c)
		} else {
			w.itemChanged(c)
		}
	})
	if s.Table {
		w.createTable()
	}
	for i := range s.Streams {
		if s.Table {
			break
		}
		if err := w.server.CreateStream(streamName(i), s.Shards); err != nil {
			w.j.violate("L0", "", "", "%v", err)
		}
	}
	w.begin()
	for range s.Workers {
		p := w.addPlace()
		w.start(p, "")
	}
	return w
}

// begin puts records that a fleet which starts later in the stream need not read, and decides where it does.
func (w *world) begin() {
	if w.s.From == TrimHorizon {
		w.from = config.TrimHorizon()
		return
	}
	for key := range w.s.Keys {
		w.put(0, 1, key)
	}
	// LATEST is a second before the service's time.
	time.Sleep(1500 * time.Millisecond)
	if w.from = config.Latest(); w.s.From == AtTimestamp {
		at := time.Now().Add(-500 * time.Millisecond)
		w.from = config.AtTimestamp(at)
		w.j.startsAt(at)
	}
}

func (w *world) addPlace() *place {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.places)
	p := &place{n: n, client: "p" + strconv.Itoa(n), busy: make(chan struct{}, 1)}
	p.tap = tapRules{random: rand.New(rand.NewPCG(w.s.Seed, uint64(n))), late: map[*lateRule]bool{}, stale: map[string]int{}, old: map[string]map[string]*reply{}, streams: map[*pushed]bool{}}
	p.user = userTrouble{random: rand.New(rand.NewPCG(w.s.Seed, uint64(1000+n))), kinds: map[*Fault]bool{}}
	w.places = append(w.places, p)
	return p
}

func (w *world) strategy() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.by
}

// at returns the places that a fault is about.
func (w *world) at(f *Fault) []*place {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f.Worker < 0 {
		return slices.Clone(w.places)
	}
	return []*place{w.places[f.Worker%len(w.places)]}
}

// takePlace gives the caller the right to start and end processes of a place, unless somebody has it.
func (p *place) take() bool {
	select {
	case p.busy <- struct{}{}:
		return true
	default:
		return false
	}
}

func (p *place) release() { <-p.busy }

// wait waits for d or until everything is to be mended.
func (w *world) wait(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-w.running.Done():
	}
}

// produce puts records until it is time to mend.
func (w *world) produce() {
	random := rand.New(rand.NewPCG(w.s.Seed, 77))
	for n := 0; w.running.Err() == nil && !w.deleted.Load(); n++ {
		w.put(n%w.s.Streams, 1+random.IntN(6), random.IntN(w.s.Keys))
		w.wait(w.s.Put)
	}
}

// put puts n records into a stream, each with the next number of its key.
func (w *world) put(into, n, firstKey int) {
	if w.s.Table {
		var keys []string
		for i := range n {
			keys = append(keys, "k"+strconv.Itoa((firstKey+i)%w.s.Keys))
		}
		w.putItems(keys)
		return
	}
	var batch []types.PutRecordsRequestEntry
	var recs []record
	for i := range n {
		key := keyPrefix(into) + "k" + strconv.Itoa((firstKey+i)%w.s.Keys)
		recs = append(recs, record{key, w.next[key]})
		batch = append(batch, types.PutRecordsRequestEntry{PartitionKey: &key, Data: fmt.Appendf(nil, "%s:%d", key, w.next[key])})
		w.next[key]++
	}
	w.send(into, batch, recs)
}

// putEverywhere puts one record into each open shard.
func (w *world) putEverywhere() (shards int) {
	if w.s.Table {
		return w.putEverywhereInTable()
	}
	for i := range w.s.Streams {
		shards += w.putEverywhereIn(i)
	}
	return shards
}

func (w *world) putEverywhereIn(into int) (shards int) {
	open := w.open(into)
	var batch []types.PutRecordsRequestEntry
	var recs []record
	for _, s := range open {
		key := keyPrefix(into) + "of " + *s.ShardId
		recs = append(recs, record{key, w.next[key]})
		batch = append(batch, types.PutRecordsRequestEntry{
			PartitionKey: &key, ExplicitHashKey: s.HashKeyRange.StartingHashKey, Data: fmt.Appendf(nil, "%s:%d", key, w.next[key]),
		})
		w.next[key]++
	}
	w.send(into, batch, recs)
	return len(open)
}

func (w *world) send(into int, batch []types.PutRecordsRequestEntry, recs []record) {
	w.calls.Add(1)
	out, err := w.kinesis.PutRecords(w.root, &kinesis.PutRecordsInput{StreamName: aws.String(streamName(into)), Records: batch})
	if err != nil || *out.FailedRecordCount != 0 {
		if !w.deleted.Load() {
			w.j.violate("L0", "", "", "the simulator cannot put records: %v, %v", out, err)
		}
		return
	}
	for i, r := range out.Records {
		w.j.produced(w.s.prefixes()[into]+*r.ShardId, *r.SequenceNumber, recs[i].key, recs[i].n)
	}
}

// open returns the open shards of a stream in the order of their hash keys.
func (w *world) open(of int) []types.Shard {
	w.calls.Add(1)
	out, err := w.kinesis.ListShards(w.root, &kinesis.ListShardsInput{
		StreamName: aws.String(streamName(of)), ShardFilter: &types.ShardFilter{Type: types.ShardFilterTypeAtLatest},
	})
	if err != nil {
		if !w.deleted.Load() {
			w.j.violate("L0", "", "", "the simulator cannot list shards: %v", err)
		}
		return nil
	}
	slices.SortFunc(out.Shards, func(a, b types.Shard) int { return start(a).Cmp(start(b)) })
	return out.Shards
}

// descent tells the judge which shard follows which, if records may leave the stream unread.
func (w *world) descent() {
	if !w.s.trims() || w.deleted.Load() {
		return
	}
	if w.s.Table {
		for _, s := range w.shardsOfTable() {
			w.j.descend(s.id, s.parent)
		}
		return
	}
	for i, prefix := range w.s.prefixes() {
		w.calls.Add(1)
		out, err := w.kinesis.ListShards(w.root, &kinesis.ListShardsInput{StreamName: aws.String(streamName(i))})
		if err != nil {
			w.j.violate("L0", "", "", "the simulator cannot list shards: %v", err)
			return
		}
		for _, s := range out.Shards {
			for _, parent := range []*string{s.ParentShardId, s.AdjacentParentShardId} {
				if parent != nil {
					w.j.descend(prefix+*s.ShardId, prefix+*parent)
				}
			}
		}
	}
}

// closes tells the judge that shards of a stream are closed.
func (w *world) closes(of int, shards ...string) {
	for _, s := range shards {
		prefix := ""
		if w.s.Streams > 1 {
			prefix = w.s.prefixes()[of]
		}
		w.j.closes(time.Since(w.j.began)+w.s.ControlDelay, prefix+s)
	}
	if w.s.Retention > 0 {
		w.descent()
	}
}

func start(s types.Shard) *big.Int {
	n, _ := new(big.Int).SetString(*s.HashKeyRange.StartingHashKey, 10)
	return n
}

// mostShards bounds what Split makes, so that a schedule stays small.
const mostShards = 6

func (w *world) split(pick uint64) string {
	of := int(pick >> 32 % uint64(w.s.Streams))
	open := w.open(of)
	if len(open) == 0 || len(open) >= mostShards {
		return "nothing: there are enough shards"
	}
	s := open[pick%uint64(len(open))]
	low := start(s)
	high, _ := new(big.Int).SetString(*s.HashKeyRange.EndingHashKey, 10)
	at := low.Add(low, high).Rsh(low, 1).String()
	_, err := w.kinesis.SplitShard(w.root, &kinesis.SplitShardInput{StreamName: aws.String(streamName(of)), ShardToSplit: s.ShardId, NewStartingHashKey: &at})
	if err != nil {
		return fmt.Sprintf("nothing: %v", err)
	}
	w.closes(of, *s.ShardId)
	return "split " + keyPrefix(of) + *s.ShardId
}

func (w *world) merge(pick uint64) string {
	of := int(pick >> 32 % uint64(w.s.Streams))
	open := w.open(of)
	if len(open) < 2 {
		return "nothing: there is one shard"
	}
	i := pick % uint64(len(open)-1)
	a, b := open[i].ShardId, open[i+1].ShardId
	if _, err := w.kinesis.MergeShards(w.root, &kinesis.MergeShardsInput{StreamName: aws.String(streamName(of)), ShardToMerge: a, AdjacentShardToMerge: b}); err != nil {
		return fmt.Sprintf("nothing: %v", err)
	}
	w.closes(of, *a, *b)
	return "merged " + keyPrefix(of) + *a + " and " + *b
}

// otherStrategy lets processes that start share leases by another strategy.
func (w *world) otherStrategy(pick uint64) string {
	all := config.AssignmentStrategies()
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(all, w.by)
	w.by = all[(i+1+int(pick%uint64(len(all)-1)))%len(all)]
	return w.by
}
