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
	{name: "the shards of a new stream cover the ring once", run: func(tb testing.TB, e *env) {
		wantRing(tb, e.shards(tb, e.stream(tb, 3), nil))
	}},
	{name: "ListShards comes in pages", has: func(f Features) bool { return f.ListShardsPages }, run: func(tb testing.TB, e *env) {
		name := e.stream(tb, 7)
		in := &kinesis.ListShardsInput{StreamName: &name, MaxResults: aws.Int32(3)}
		var sizes []int
		var ids []string
		for {
			out, err := e.ListShards(tb.Context(), in)
			if err != nil {
				tb.Fatal(err)
			}
			sizes = append(sizes, len(out.Shards))
			ids = append(ids, idsOf(out.Shards)...)
			if out.NextToken == nil {
				break
			}
			in = &kinesis.ListShardsInput{NextToken: out.NextToken, MaxResults: aws.Int32(3)}
		}
		if fmt.Sprint(sizes) != "[3 3 1]" || !slices.Equal(ids, idsOf(e.shards(tb, name, nil))) {
			tb.Errorf("pages of %v with %v, want 3, 3 and 1 with all shards in order", sizes, ids)
		}
		out, err := e.ListShards(tb.Context(), &kinesis.ListShardsInput{StreamName: &name, ExclusiveStartShardId: &ids[4]})
		if err != nil {
			tb.Fatal(err)
		}
		if got := idsOf(out.Shards); !slices.Equal(got, ids[5:]) {
			tb.Errorf("behind %s come %v, want %v", ids[4], got, ids[5:])
		}
	}},
	{name: "a NextToken beside a stream's name is InvalidArgumentException", has: func(f Features) bool { return f.NextTokenAlone }, run: func(tb testing.TB, e *env) {
		name := e.stream(tb, 2)
		out, err := e.ListShards(tb.Context(), &kinesis.ListShardsInput{StreamName: &name, MaxResults: aws.Int32(1)})
		if err != nil {
			tb.Fatal(err)
		}
		_, err = e.ListShards(tb.Context(), &kinesis.ListShardsInput{StreamName: &name, NextToken: out.NextToken})
		wantCode(tb, "list", err, "InvalidArgumentException")
	}},
	{name: "ListShards of a stream that does not exist is ResourceNotFoundException", run: func(tb testing.TB, e *env) {
		_, err := e.ListShards(tb.Context(), &kinesis.ListShardsInput{StreamName: aws.String("no-such-stream")})
		wantCode(tb, "list", err, "ResourceNotFoundException")
	}},
	filterCase(types.ShardFilterTypeAtLatest, func(parent types.Shard) *types.ShardFilter { return &types.ShardFilter{} }, "1 2 3"),
	filterCase(types.ShardFilterTypeAtTrimHorizon, func(parent types.Shard) *types.ShardFilter { return &types.ShardFilter{} }, "0 1"),
	filterCase(types.ShardFilterTypeFromTrimHorizon, func(parent types.Shard) *types.ShardFilter { return &types.ShardFilter{} }, "0 1 2 3"),
	filterCase(types.ShardFilterTypeAfterShardId, func(parent types.Shard) *types.ShardFilter {
		return &types.ShardFilter{ShardId: parent.ShardId}
	}, "1 2 3"),
	{name: "ListShards filtered AT_TIMESTAMP", has: hasFilter(types.ShardFilterTypeAtTimestamp), run: func(tb testing.TB, e *env) {
		timestampFilter(tb, e, types.ShardFilterTypeAtTimestamp, "0 1")
	}},
	{name: "ListShards filtered FROM_TIMESTAMP", has: hasFilter(types.ShardFilterTypeFromTimestamp), run: func(tb testing.TB, e *env) {
		timestampFilter(tb, e, types.ShardFilterTypeFromTimestamp, "0 1 2 3")
	}},
}

func hasFilter(kind types.ShardFilterType) func(Features) bool {
	return func(f Features) bool { return slices.Contains(f.Filters, kind) }
}

// filterCase lists a stream of shards 0 and 1 whose shard 0 was split into 2 and 3.
func filterCase(kind types.ShardFilterType, filter func(parent types.Shard) *types.ShardFilter, want string) testCase {
	return testCase{name: "ListShards filtered " + string(kind), has: hasFilter(kind), run: func(tb testing.TB, e *env) {
		name, parent := splitStream(tb, e)
		f := filter(parent)
		f.Type = kind
		wantShards(tb, e.shards(tb, name, f), want)
	}}
}

// timestampFilter lists the same stream as of a moment before the split.
func timestampFilter(tb testing.TB, e *env, kind types.ShardFilterType, want string) {
	tb.Helper()
	name := e.stream(tb, 2)
	shard := *e.put(tb, name, "k", "first").ShardId
	records, _ := e.read(tb, e.iterator(tb, name, shard, nil), 1)
	at := records[0].ApproximateArrivalTimestamp
	e.putLater(tb, name, shard, 1, at.Add(e.features.FilterResolution))
	e.split(tb, name, e.shards(tb, name, nil)[0])
	wantShards(tb, e.shards(tb, name, &types.ShardFilter{Type: kind, Timestamp: at}), want)
}

func splitStream(tb testing.TB, e *env) (name string, parent types.Shard) {
	tb.Helper()
	name = e.stream(tb, 2)
	parent = e.shards(tb, name, nil)[0]
	e.split(tb, name, parent)
	return name, parent
}

// wantShards compares the shards' indices.
func wantShards(tb testing.TB, shards []types.Shard, want string) {
	tb.Helper()
	var indices []string
	for _, id := range idsOf(shards) {
		var n int
		if _, err := fmt.Sscanf(id, "shardId-%012d", &n); err != nil {
			tb.Fatalf("shard id %q: %v", id, err)
		}
		indices = append(indices, strconv.Itoa(n))
	}
	if got := strings.Join(indices, " "); got != want {
		tb.Errorf("shards %s, want %s", got, want)
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
func wantRing(tb testing.TB, shards []types.Shard) {
	tb.Helper()
	sorted := slices.Clone(shards)
	slices.SortFunc(sorted, func(a, b types.Shard) int {
		return number(tb, a.HashKeyRange.StartingHashKey).Cmp(number(tb, b.HashKeyRange.StartingHashKey))
	})
	next := new(big.Int)
	for _, s := range sorted {
		if number(tb, s.HashKeyRange.StartingHashKey).Cmp(next) != 0 {
			tb.Fatalf("shard %s starts at %s, want %s", *s.ShardId, *s.HashKeyRange.StartingHashKey, next)
		}
		next.Add(number(tb, s.HashKeyRange.EndingHashKey), big.NewInt(1))
	}
	if want := new(big.Int).Lsh(big.NewInt(1), 128); next.Cmp(want) != 0 {
		tb.Errorf("the last shard ends before %s, want %s", next, want)
	}
}
