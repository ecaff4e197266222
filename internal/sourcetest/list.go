package sourcetest

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

var listCases = []testCase{
	{name: "the shards of a new stream cover the ring once", run: func(t *testing.T, e *env) {
		wantRing(t, e.shards(t, e.stream(t, 3), nil))
	}},
	{name: "ListShards comes in pages", has: func(f Features) bool { return f.ListShardsPages }, run: func(t *testing.T, e *env) {
		name := e.stream(t, 7)
		in := &kinesis.ListShardsInput{StreamName: &name, MaxResults: aws.Int32(3)}
		var sizes []int
		var ids []string
		for {
			out, err := e.ListShards(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			sizes = append(sizes, len(out.Shards))
			ids = append(ids, idsOf(out.Shards)...)
			if out.NextToken == nil {
				break
			}
			in = &kinesis.ListShardsInput{NextToken: out.NextToken, MaxResults: aws.Int32(3)}
		}
		if fmt.Sprint(sizes) != "[3 3 1]" || !slices.Equal(ids, idsOf(e.shards(t, name, nil))) {
			t.Errorf("pages of %v with %v, want 3, 3 and 1 with all shards in order", sizes, ids)
		}
		out, err := e.ListShards(t.Context(), &kinesis.ListShardsInput{StreamName: &name, ExclusiveStartShardId: &ids[4]})
		if err != nil {
			t.Fatal(err)
		}
		if got := idsOf(out.Shards); !slices.Equal(got, ids[5:]) {
			t.Errorf("behind %s come %v, want %v", ids[4], got, ids[5:])
		}
	}},
	{name: "a NextToken beside a stream's name is InvalidArgumentException", has: func(f Features) bool { return f.NextTokenAlone }, run: func(t *testing.T, e *env) {
		name := e.stream(t, 2)
		out, err := e.ListShards(t.Context(), &kinesis.ListShardsInput{StreamName: &name, MaxResults: aws.Int32(1)})
		if err != nil {
			t.Fatal(err)
		}
		_, err = e.ListShards(t.Context(), &kinesis.ListShardsInput{StreamName: &name, NextToken: out.NextToken})
		wantCode(t, "list", err, "InvalidArgumentException")
	}},
	{name: "ListShards of a stream that does not exist is ResourceNotFoundException", run: func(t *testing.T, e *env) {
		_, err := e.ListShards(t.Context(), &kinesis.ListShardsInput{StreamName: aws.String("no-such-stream")})
		wantCode(t, "list", err, "ResourceNotFoundException")
	}},
	filterCase(types.ShardFilterTypeAtLatest, func(parent types.Shard) *types.ShardFilter { return &types.ShardFilter{} }, "1 2 3"),
	filterCase(types.ShardFilterTypeAtTrimHorizon, func(parent types.Shard) *types.ShardFilter { return &types.ShardFilter{} }, "0 1"),
	filterCase(types.ShardFilterTypeFromTrimHorizon, func(parent types.Shard) *types.ShardFilter { return &types.ShardFilter{} }, "0 1 2 3"),
	filterCase(types.ShardFilterTypeAfterShardId, func(parent types.Shard) *types.ShardFilter {
		return &types.ShardFilter{ShardId: parent.ShardId}
	}, "1 2 3"),
	{name: "ListShards filtered AT_TIMESTAMP", has: hasFilter(types.ShardFilterTypeAtTimestamp), run: func(t *testing.T, e *env) {
		timestampFilter(t, e, types.ShardFilterTypeAtTimestamp, "0 1")
	}},
	{name: "ListShards filtered FROM_TIMESTAMP", has: hasFilter(types.ShardFilterTypeFromTimestamp), run: func(t *testing.T, e *env) {
		timestampFilter(t, e, types.ShardFilterTypeFromTimestamp, "0 1 2 3")
	}},
}

func hasFilter(kind types.ShardFilterType) func(Features) bool {
	return func(f Features) bool { return slices.Contains(f.Filters, kind) }
}

// filterCase lists a stream of shards 0 and 1 whose shard 0 was split into 2 and 3.
func filterCase(kind types.ShardFilterType, filter func(parent types.Shard) *types.ShardFilter, want string) testCase {
	return testCase{name: "ListShards filtered " + string(kind), has: hasFilter(kind), run: func(t *testing.T, e *env) {
		name, parent := splitStream(t, e)
		f := filter(parent)
		f.Type = kind
		wantShards(t, e.shards(t, name, f), want)
	}}
}

// timestampFilter lists the same stream as of a moment before the split.
func timestampFilter(t *testing.T, e *env, kind types.ShardFilterType, want string) {
	t.Helper()
	name := e.stream(t, 2)
	shard := *e.put(t, name, "k", "first").ShardId
	records, _ := e.read(t, e.iterator(t, name, shard, nil), 1)
	at := records[0].ApproximateArrivalTimestamp
	e.putLater(t, name, shard, 1, at.Add(e.features.FilterResolution))
	e.split(t, name, e.shards(t, name, nil)[0])
	wantShards(t, e.shards(t, name, &types.ShardFilter{Type: kind, Timestamp: at}), want)
}

func splitStream(t *testing.T, e *env) (name string, parent types.Shard) {
	t.Helper()
	name = e.stream(t, 2)
	parent = e.shards(t, name, nil)[0]
	e.split(t, name, parent)
	return name, parent
}

// wantShards compares the shards' indices.
func wantShards(t *testing.T, shards []types.Shard, want string) {
	t.Helper()
	var indices []string
	for _, id := range idsOf(shards) {
		var n int
		if _, err := fmt.Sscanf(id, "shardId-%012d", &n); err != nil {
			t.Fatalf("shard id %q: %v", id, err)
		}
		indices = append(indices, strconv.Itoa(n))
	}
	if got := strings.Join(indices, " "); got != want {
		t.Errorf("shards %s, want %s", got, want)
	}
}

func idsOf(shards []types.Shard) []string {
	out := make([]string, len(shards))
	for i, s := range shards {
		out[i] = *s.ShardId
	}
	return out
}

// wantRing fails unless the shards cover every hash key exactly once.
func wantRing(t *testing.T, shards []types.Shard) {
	t.Helper()
	sorted := slices.Clone(shards)
	slices.SortFunc(sorted, func(a, b types.Shard) int {
		return number(t, a.HashKeyRange.StartingHashKey).Cmp(number(t, b.HashKeyRange.StartingHashKey))
	})
	next := new(big.Int)
	for _, s := range sorted {
		if number(t, s.HashKeyRange.StartingHashKey).Cmp(next) != 0 {
			t.Fatalf("shard %s starts at %s, want %s", *s.ShardId, *s.HashKeyRange.StartingHashKey, next)
		}
		next.Add(number(t, s.HashKeyRange.EndingHashKey), big.NewInt(1))
	}
	if want := new(big.Int).Lsh(big.NewInt(1), 128); next.Cmp(want) != 0 {
		t.Errorf("the last shard ends before %s, want %s", next, want)
	}
}
