package leases

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/hashkey"
	"github.com/shardlease/shardlease/internal/golden"
)

// parseRow reads DynamoDB JSON.
func parseRow(tb testing.TB, raw []byte) item {
	tb.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		tb.Fatal(err)
	}
	row := item{}
	for name, v := range m {
		row[name] = parseValue(tb, v)
	}
	return row
}

func parseValue(tb testing.TB, raw []byte) types.AttributeValue {
	tb.Helper()
	var tagged map[string]json.RawMessage
	read := func(into any) {
		for _, v := range tagged {
			if err := json.Unmarshal(v, into); err != nil {
				tb.Fatal(err)
			}
		}
	}
	if err := json.Unmarshal(raw, &tagged); err != nil {
		tb.Fatal(err)
	}
	for tag := range tagged {
		switch tag {
		case "S":
			v := &types.AttributeValueMemberS{}
			read(&v.Value)
			return v
		case "N":
			v := &types.AttributeValueMemberN{}
			read(&v.Value)
			return v
		case "B":
			v := &types.AttributeValueMemberB{}
			read(&v.Value) // JSON's base64 is DynamoDB's
			return v
		case "SS":
			v := &types.AttributeValueMemberSS{}
			read(&v.Value)
			return v
		case "BOOL":
			v := &types.AttributeValueMemberBOOL{}
			read(&v.Value)
			return v
		case "M":
			return &types.AttributeValueMemberM{Value: parseRow(tb, tagged[tag])}
		case "L":
			var list []json.RawMessage
			read(&list)
			v := &types.AttributeValueMemberL{}
			for _, e := range list {
				v.Value = append(v.Value, parseValue(tb, e))
			}
			return v
		}
	}
	tb.Fatalf("attribute of unknown type: %s", raw)
	return nil
}

// printRow writes a row in one way for equal rows: sets sorted, numbers by value.
func printRow(row item) map[string]string {
	out := map[string]string{}
	for name, v := range row {
		out[name] = printValue(v)
	}
	return out
}

func printValue(v types.AttributeValue) string {
	switch v := v.(type) {
	case *types.AttributeValueMemberSS:
		return fmt.Sprintf("SS %q", slices.Sorted(slices.Values(v.Value)))
	case *types.AttributeValueMemberN:
		f, err := strconv.ParseFloat(v.Value, 64)
		if err != nil {
			return "N " + v.Value
		}
		return "N " + strconv.FormatFloat(f, 'f', -1, 64)
	case *types.AttributeValueMemberB:
		return "B " + base64.StdEncoding.EncodeToString(v.Value)
	case *types.AttributeValueMemberM:
		return fmt.Sprint("M ", printRow(v.Value))
	}
	return describe(v)
}

func TestDecode_readsEveryRowThatJavaWrote(t *testing.T) {
	t.Parallel()
	rows := golden.Rows(t)
	leases, entities := 0, map[string]int{}
	for i, g := range rows {
		row := parseRow(t, g.Item)
		entity, known := entityOf(row)
		if !known {
			if !strings.Contains(g.Stage, "foreign") && !strings.Contains(g.Stage, "intruder") {
				t.Errorf("row %d (%s, KCL %s) is %q, which nobody knows", i, g.Stage, g.KCL, entity)
			}
			continue
		}
		entities[entity]++
		if entity != entityLease {
			continue
		}
		leases++
		l, err := decoder{}.decode(row)
		if err != nil {
			t.Errorf("row %d (%s, KCL %s): %v", i, g.Stage, g.KCL, err)
			continue
		}
		if diff := cmp.Diff(printRow(row), printRow(encode(l))); diff != "" {
			t.Errorf("row %d (%s, KCL %s): Java's row and ours after reading differ (-Java +ours):\n%s", i, g.Stage, g.KCL, diff)
		}
	}
	if leases != 254 || len(rows)-leases != 165 {
		t.Errorf("found %d leases and %d other rows, want 254 and 165", leases, len(rows)-leases)
	}
	t.Logf("golden rows %d: %v", len(rows), entities)
}

// row is a healthy row with changes: an attribute that is nil is removed.
func rowWith(change item) item {
	row := encode(Lease{
		Key: "shardId-000000000007", Owner: "w1", Counter: 3, Checkpoint: checkpoint.TrimHorizon,
		HashKeyRange: hashkey.Range{Start: hashkey.Key{Lo: 5}, End: hashkey.Key{Lo: 9}, Known: true},
	})
	for name, v := range change {
		if v == nil {
			delete(row, name)
		} else {
			row[name] = v
		}
	}
	return row
}

func TestDecode_saysWhatIsWrongWithARow(t *testing.T) {
	t.Parallel()
	list := &types.AttributeValueMemberL{Value: []types.AttributeValue{str("shardId-1"), number(2)}}
	for _, c := range []struct {
		name   string
		change item
		want   string
	}{
		{"counter missing", item{attrCounter: nil}, "attribute leaseCounter is missing, want a number (N)"},
		{"counter a string", item{attrCounter: str("3")}, `attribute leaseCounter is S "3", want a number (N) that is a 64-bit integer`},
		{"counter too large", item{attrCounter: &types.AttributeValueMemberN{Value: "9223372036854775808"}}, "attribute leaseCounter is N 9223372036854775808, want a number (N) that is a 64-bit integer"},
		{"counter broken", item{attrCounter: &types.AttributeValueMemberN{Value: "1.5"}}, "attribute leaseCounter is N 1.5, want a number (N) that is a 64-bit integer"},
		{"switches missing", item{attrSwitches: nil}, "attribute ownerSwitchesSinceCheckpoint is missing, want a number (N)"},
		{"checkpoint missing", item{attrCheckpoint: nil}, "attribute checkpoint is missing, want a string (S): decimal digits, TRIM_HORIZON, LATEST, AT_TIMESTAMP or SHARD_END"},
		{"checkpoint no number", item{attrCheckpoint: str("12x")}, `attribute checkpoint is S "12x", want a string (S): decimal digits, TRIM_HORIZON, LATEST, AT_TIMESTAMP or SHARD_END`},
		{"checkpoint an N", item{attrCheckpoint: number(12)}, "attribute checkpoint is N 12, want a string (S): decimal digits, TRIM_HORIZON, LATEST, AT_TIMESTAMP or SHARD_END"},
		{"pending no number", item{attrPending: str("later")}, `attribute pendingCheckpoint is S "later", want a string (S): decimal digits, TRIM_HORIZON, LATEST, AT_TIMESTAMP or SHARD_END`},
		{"pending state no bytes", item{attrPendingState: number(0)}, "attribute pendingCheckpointState is N 0, want binary (B)"},
		{"parents a list", item{attrParents: list}, `attribute parentShardId is L [S "shardId-1" N 2], want a string set (SS)`},
		{"children a string", item{attrChildren: str("shardId-1")}, `attribute childShardIds is S "shardId-1", want a string set (SS)`},
		{"start above end", item{attrStartHash: str("10")}, `attribute startingHashKey is S "10", want at most endingHashKey 9`},
		{"start without end", item{attrEndHash: nil}, "attribute endingHashKey is missing, want a string (S) with a decimal number from 0 to 2^128-1, because there is a startingHashKey"},
		{"end without start", item{attrStartHash: nil}, "attribute startingHashKey is missing, want a string (S) with a decimal number from 0 to 2^128-1, because there is an endingHashKey"},
		{"hash key 2^128", item{attrEndHash: str("340282366920938463463374607431768211456")}, `attribute endingHashKey is S "340282366920938463463374607431768211456", want a string (S) with a decimal number from 0 to 2^128-1`},
		{"owner a number", item{attrOwner: number(1)}, "attribute leaseOwner is N 1, want a string (S)"},
		{"throughput a string", item{attrThroughput: str("fast")}, `attribute throughputKBps is S "fast", want a number (N)`},
		{"pin a string", item{attrStartAt: str("now")}, `attribute startAtMillis is S "now", want a number (N) that is a 64-bit integer`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := decoder{}.decode(rowWith(c.change))
			if err == nil {
				t.Fatal("no error")
			}
			if want := `lease row "shardId-000000000007": ` + c.want; err.Error() != want {
				t.Errorf("error is\n%s, want\n%s", err, want)
			}
		})
	}
}

func TestDecode_takesATenureThatItCannotReadForNone(t *testing.T) {
	t.Parallel()
	good := Tenure{Worker: "w1", Nonce: "h/1/ab/1", At: 3, Failover: 10 * time.Second, Max: 7, Zone: "z", Leaving: true}
	for name, change := range map[string]item{
		"not a map":      nil,
		"no worker":      {tenureWorker: nil},
		"no nonce":       {tenureNonce: nil},
		"no at":          {tenureAt: nil},
		"at a string":    {tenureAt: str("3")},
		"leaving an N":   {tenureLeaving: number(1)},
		"failover an S":  {tenureFailover: str("10s")},
		"max an S":       {tenureMax: str("many")},
		"zone is a BOOL": {tenureZone: &types.AttributeValueMemberBOOL{}},
	} {
		m := encodeTenure(good).(*types.AttributeValueMemberM)
		var v types.AttributeValue = m
		if change == nil {
			v = str("w1")
		}
		for k, x := range change {
			if x == nil {
				delete(m.Value, k)
			} else {
				m.Value[k] = x
			}
		}
		l, err := decoder{}.decode(rowWith(item{attrTenure: v}))
		if err != nil || l.Tenure != nil {
			t.Errorf("%s: tenure %+v, error %v; want none of both", name, l.Tenure, err)
		}
	}
	l, err := decoder{}.decode(rowWith(item{attrTenure: encodeTenure(good)}))
	if err != nil || !l.TenureSpeaks() || *l.Tenure != good {
		t.Errorf("tenure %+v, error %v; want %+v", l.Tenure, err, good)
	}
}

func drawLease(t *rapid.T) Lease {
	text := rapid.StringMatching(`[a-z0-9:-]{0,12}`)
	number := rapid.Int64Min(0)
	position := rapid.Custom(func(t *rapid.T) checkpoint.ExtendedSequenceNumber {
		if rapid.Bool().Draw(t, "sentinel") {
			return rapid.SampledFrom([]checkpoint.ExtendedSequenceNumber{checkpoint.TrimHorizon, checkpoint.Latest, checkpoint.AtTimestamp, checkpoint.ShardEnd}).Draw(t, "which")
		}
		return checkpoint.ExtendedSequenceNumber{SequenceNumber: rapid.StringMatching(`[0-9]{1,56}`).Draw(t, "sequence"), SubSequenceNumber: number.Draw(t, "sub")}
	})
	ids := func(name string) []string {
		set := rapid.SliceOfNDistinct(rapid.StringMatching(`shardId-[0-9]{12}`), 0, 3, rapid.ID).Draw(t, name)
		if len(set) == 0 {
			return nil
		}
		slices.Sort(set)
		return set
	}
	l := Lease{
		Key: rapid.StringMatching(`[a-z0-9-]{1,20}`).Draw(t, "key"), Owner: text.Draw(t, "owner"),
		Counter: number.Draw(t, "counter"), OwnerSwitches: number.Draw(t, "switches"), Checkpoint: position.Draw(t, "checkpoint"),
		ParentShardIDs: ids("parents"), ChildShardIDs: ids("children"),
		CheckpointOwner: text.Draw(t, "checkpointOwner"), EntityType: rapid.SampledFrom([]string{"", "LEASE"}).Draw(t, "entity"),
		StreamName: text.Draw(t, "stream"), ShardID: text.Draw(t, "shard"), HandoffTo: text.Draw(t, "handoffTo"), StartAtMillis: number.Draw(t, "pin"),
	}
	if rapid.Bool().Draw(t, "has range") {
		a := hashkey.Key{Hi: rapid.Uint64().Draw(t, "hi"), Lo: rapid.Uint64().Draw(t, "lo")}
		l.HashKeyRange = hashkey.Range{Start: a, End: hashkey.Max, Known: true}
	}
	if rapid.Bool().Draw(t, "pending") {
		l.Pending = &checkpoint.Pending{At: position.Draw(t, "pending at"), State: rapid.SliceOfN(rapid.Byte(), 1, 9).Draw(t, "state")}
	}
	if rapid.Bool().Draw(t, "throughput") {
		l.HasThroughput, l.ThroughputKBps = true, float64(rapid.IntRange(0, 1e9).Draw(t, "kbps"))/1024
	}
	if rapid.Bool().Draw(t, "tenure") {
		l.Tenure = &Tenure{
			Worker: "w" + text.Draw(t, "worker"), Nonce: "n" + text.Draw(t, "nonce"), At: number.Draw(t, "at"),
			Failover: time.Duration(rapid.IntRange(0, 1e6).Draw(t, "failover")) * time.Millisecond,
			Max:      rapid.IntRange(0, 99).Draw(t, "max"), Zone: text.Draw(t, "zone"), Leaving: rapid.Bool().Draw(t, "leaving"),
		}
	}
	return l
}

func TestCodec_roundTripsEveryLease(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		want := drawLease(rt)
		got, err := decoder{}.decode(encode(want))
		if err != nil {
			rt.Fatal(err)
		}
		if want.HasThroughput { // six decimals are kept
			want.ThroughputKBps = got.ThroughputKBps
		}
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatalf("written and read differ (-written +read):\n%s", diff)
		}
		for name, v := range encode(want) {
			if s, ok := v.(*types.AttributeValueMemberS); ok && s.Value == "" {
				rt.Fatalf("%s is an empty string, which KCL cannot read", name)
			}
		}
	})
}

func TestThroughput_hasSixDecimalsAtMost(t *testing.T) {
	t.Parallel()
	for in, want := range map[float64]string{
		1.024: "1.024", 1024.1024: "1024.1024", 1024.102412324: "1024.102412", 1999999.123213213: "1999999.123213", 1e-9: "0", 1: "1", 0.1: "0.1",
		math.NaN(): "0", math.Inf(1): "0",
	} {
		if got := throughput(in).(*types.AttributeValueMemberN).Value; got != want {
			t.Errorf("throughput %v is written as %s, want %s", in, got, want)
		}
	}
}

func TestList_leavesOutWhatIsNoLeaseAndWarnsOnce(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	client := dynamodb.NewFromConfig(emulator.New().AWSConfig())
	var skipped []string
	table := NewTable(client, config.LeaseManagementConfig{TableName: "leases", CreateTable: true, FailoverTime: 10 * time.Second}, TableOptions{
		Worker: "w1",
		Hooks:  &config.Hooks{LeaseSkipped: func(e config.LeaseEvent) { skipped = append(skipped, e.LeaseKey+": "+e.Err.Error()) }},
	})
	if err := table.Ensure(ctx); err != nil {
		t.Fatal(err)
	}
	put := func(key string, row item) {
		t.Helper()
		row[attrKey] = str(key)
		if _, err := client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &table.cfg.TableName, Item: row}); err != nil {
			t.Fatal(err)
		}
	}
	put("shardId-1", rowWith(nil))
	put("shardId-2", rowWith(item{attrEntityType: str(entityLease)}))
	for entity := range knownEntities {
		put(entity, item{attrEntityType: str(entity)})
	}
	put("alien", item{attrEntityType: str("SPACESHIP")})
	put("bare", item{})
	put("shardId-3", rowWith(item{attrParents: &types.AttributeValueMemberL{}}))
	for range 3 {
		got, err := table.List(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if got.Rows != 10 || len(got.Leases) != 2 || got.Foreign != 6 || got.Broken != 2 || got.Pages != 1 || got.ReadUnits <= 0 {
			t.Errorf("listing has %d rows, %d leases, %d foreign, %d broken, %d pages, %v read units; want 10, 2, 6, 2, 1 and some",
				got.Rows, len(got.Leases), got.Foreign, got.Broken, got.Pages, got.ReadUnits)
		}
	}
	want := []string{
		`alien: row "alien": entityType is SPACESHIP, which this version does not know`,
		`bare: lease row "bare": attribute leaseCounter is missing, want a number (N)`,
		`shardId-3: lease row "shardId-3": attribute parentShardId is L [], want a string set (SS)`,
	}
	slices.Sort(skipped)
	if diff := cmp.Diff(want, skipped); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func BenchmarkDecode(b *testing.B) {
	row := parseRow(b, []byte(`{"leaseKey":{"S":"shardId-000000000001"},"leaseOwner":{"S":"host/4711/0a1b2c3d"},"leaseCounter":{"N":"81234"},
"ownerSwitchesSinceCheckpoint":{"N":"0"},"checkpoint":{"S":"49590338271490256608559692538361571095921575989136588898"},"checkpointSubSequenceNumber":{"N":"0"},
"startingHashKey":{"S":"170141183460469231731687303715884105728"},"endingHashKey":{"S":"340282366920938463463374607431768211455"},"entityType":{"S":"LEASE"},
"tenure":{"M":{"worker":{"S":"host/4711/0a1b2c3d"},"nonce":{"S":"host/4711/0123456789abcdef/12"},"at":{"N":"81234"},"failoverMillis":{"N":"10000"}}}}`))
	d := decoder{intern: func(s string) string { return s }}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.decode(row); err != nil {
			b.Fatal(err)
		}
	}
}
