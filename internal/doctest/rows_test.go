package doctest

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/fleettest"
	"github.com/shardlease/shardlease/internal/mermaid"
)

const lifecycle = "docs/lease-lifecycle.md"

var update = flag.Bool("update", false, "write the example rows into "+lifecycle)

func TestTransitions_haveARowForEachWriteDrawn(t *testing.T) {
	t.Parallel()
	var drawn []string
	for _, e := range mermaid.Edges(document(t, lifecycle), "%% lease row") {
		drawn = append(drawn, e.Label)
	}
	same(t, lifecycle+", Each write", firstCells(t, lifecycle, "### Each write"), append(drawn, "create"))
}

// order is that in which the attributes of a row are shown.
var order = []string{
	"leaseKey", "entityType", "leaseOwner", "leaseCounter", "ownerSwitchesSinceCheckpoint", "checkpoint", "checkpointSubSequenceNumber",
	"pendingCheckpoint", "pendingCheckpointSubSequenceNumber", "pendingCheckpointState", "parentShardId", "childShardIds",
	"startingHashKey", "endingHashKey", "throughputKBps", "checkpointOwner", "streamName", "shardId", "startAtMillis", "handoffTo", "tenure",
	"worker", "nonce", "at", "failoverMillis", "max", "zone", "leaving",
}

// print writes a row as the AWS CLI does, one attribute a line.
func print(t *testing.T, row map[string]types.AttributeValue) string {
	t.Helper()
	var lines []string
	for _, name := range order {
		if v, there := row[name]; there {
			lines = append(lines, fmt.Sprintf("  %q: %s", name, printValue(t, v)))
		}
	}
	if len(lines) != len(row) {
		t.Fatalf("the row %v has attributes that this test does not know", row)
	}
	return "{\n" + strings.Join(lines, ",\n") + "\n}\n"
}

func printValue(t *testing.T, v types.AttributeValue) string {
	t.Helper()
	quote := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return `{"S": ` + quote(v.Value) + `}`
	case *types.AttributeValueMemberN:
		return `{"N": ` + quote(v.Value) + `}`
	case *types.AttributeValueMemberB:
		return `{"B": ` + quote(v.Value) + `}`
	case *types.AttributeValueMemberBOOL:
		return `{"BOOL": ` + quote(v.Value) + `}`
	case *types.AttributeValueMemberSS:
		return `{"SS": ` + strings.ReplaceAll(quote(v.Value), ",", ", ") + `}`
	case *types.AttributeValueMemberM:
		var members []string
		for _, name := range order {
			if m, there := v.Value[name]; there {
				members = append(members, fmt.Sprintf("%q: %s", name, printValue(t, m)))
			}
		}
		if len(members) != len(v.Value) {
			t.Fatalf("the map %v has members that this test does not know", v.Value)
		}
		return "{\"M\": {\n    " + strings.Join(members, ",\n    ") + "}}"
	}
	t.Fatalf("a row has a value of type %T", v)
	return ""
}

// Rows that a worker really writes, at the named moments of its life.
func TestExampleRows_areWhatWorkersWrite(t *testing.T) {
	t.Parallel()
	rows := map[string]string{}
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 2)
		take := func(name string, shard int) {
			t.Helper()
			table, key := fleettest.App, fmt.Sprintf("shardId-%012d", shard)
			out, err := f.DynamoDB.GetItem(t.Context(), &dynamodb.GetItemInput{
				TableName: &table, Key: map[string]types.AttributeValue{"leaseKey": &types.AttributeValueMemberS{Value: key}},
			})
			if err != nil || out.Item == nil {
				t.Fatalf("get %s: %v, %v", key, out, err)
			}
			rows[name] = print(t, out.Item)
		}
		stream := fleettest.Stream
		thaw := f.Server.Inject(emulator.Rule{Operation: "UpdateItem", Effect: emulator.Freeze()})
		a := f.Start("worker-a")
		time.Sleep(time.Second)
		take("created", 1)
		thaw()
		<-a.Ready()
		time.Sleep(5 * time.Second)
		take("taken", 1)
		f.Put(40, 8)
		f.WaitDelivered(10 * time.Second)
		time.Sleep(time.Second)
		take("checkpointed", 1)

		shard, middle := "shardId-000000000000", "85070591730234615865843651857942052864"
		if _, err := f.Kinesis.SplitShard(t.Context(), &kinesis.SplitShardInput{StreamName: &stream, ShardToSplit: &shard, NewStartingHashKey: &middle}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		take("split parent", 0)
		take("split child", 3)
		left, right := "shardId-000000000003", "shardId-000000000001"
		if _, err := f.Kinesis.MergeShards(t.Context(), &kinesis.MergeShardsInput{StreamName: &stream, ShardToMerge: &left, AdjacentShardToMerge: &right}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		take("merged child", 4)

		if err := a.Stop(); err != nil {
			t.Fatal(err)
		}
		take("released", 4)
		b := f.Start("worker-b")
		time.Sleep(10 * time.Second)
		b.Kill()
		f.Start("worker-c")
		time.Sleep(30 * time.Second)
		take("taken over", 4)

		// It notices late that the row is handed over, so that the looks below do not miss it.
		f.Server.Inject(emulator.Rule{Client: "worker-d", Operation: "GetItem", Effect: emulator.DelayReply(50 * time.Millisecond)})
		f.Start("worker-d")
		marked := func(attribute string, with bool) (shard int) {
			for {
				for key, row := range f.Rows() {
					if row["handoffTo"] != nil && (row[attribute] != nil) == with {
						if _, err := fmt.Sscanf(key, "shardId-%d", &shard); err != nil {
							t.Fatal(err)
						}
						return shard
					}
				}
				time.Sleep(5 * time.Millisecond)
			}
		}
		take("asked for", marked("checkpointOwner", true))
		take("in transit", marked("checkpointOwner", false))
	})

	text := document(t, lifecycle)
	for name, row := range rows {
		block := regexp.MustCompile("(?s)(<!-- row: " + name + " -->\n```json\n)(.*?)(```\n)")
		m := block.FindStringSubmatchIndex(text)
		if m == nil {
			t.Errorf("%s has no row %q", lifecycle, name)
			continue
		}
		if *update {
			text = text[:m[4]] + anonymous(row) + text[m[5]:]
			continue
		}
		if d := cmp.Diff(shape(t, text[m[4]:m[5]]), shape(t, row)); d != "" {
			t.Errorf("row %q is not what a worker writes; go test ./internal/doctest -update puts that in (-documented +written)\n%s", name, d)
		}
	}
	if *update {
		if err := os.WriteFile(filepath.Join(root, lifecycle), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

var nonce = regexp.MustCompile(`"nonce": \{"S": "[^"]*/([^"/]*)"\}`)

// anonymous takes the machine that the test ran on out of a row.
func anonymous(row string) string {
	return nonce.ReplaceAllString(row, `"nonce": {"S": "host-1/4711/5f0c2e9a61b3d874/$1"}`)
}

var number = regexp.MustCompile(`^[0-9]+$`)

// shape is a row without what differs from one run to the next: how far counters came, which records a batch held, the
// nonce. That a tenure speaks (its at is the row's counter) stays.
func shape(t *testing.T, text string) map[string]any {
	t.Helper()
	var row map[string]any
	if err := json.Unmarshal([]byte(text), &row); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	value := func(v any, kind string) any {
		m, _ := v.(map[string]any)
		return m[kind]
	}
	delete(row, "throughputKBps") // there once a renewal interval has passed since the first record
	counter := value(row["leaseCounter"], "N")
	if tenure, ok := value(row["tenure"], "M").(map[string]any); ok {
		tenure["at"] = map[string]any{"N": fmt.Sprintf("is the counter: %v", value(tenure["at"], "N") == counter)}
		tenure["nonce"] = map[string]any{"S": "…"}
	}
	if counter != "0" {
		row["leaseCounter"] = map[string]any{"N": "…"}
	}
	if at, ok := value(row["checkpoint"], "S").(string); ok && number.MatchString(at) {
		row["checkpoint"] = map[string]any{"S": "a sequence number"}
	}
	return row
}
