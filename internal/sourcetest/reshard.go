package sourcetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease/internal/ring"
)

// split splits a shard in the middle and waits for the children.
func (e *env) split(tb testing.TB, name string, s types.Shard) {
	tb.Helper()
	_, err := e.SplitShard(tb.Context(), &kinesis.SplitShardInput{StreamName: &name, ShardToSplit: s.ShardId, NewStartingHashKey: aws.String(ring.Middle(s))})
	if err != nil {
		tb.Fatalf("split %s: %v", *s.ShardId, err)
	}
	e.active(tb, name)
}

// open is the shards that are not closed.
func open(shards []types.Shard) []types.Shard {
	return slices.DeleteFunc(slices.Clone(shards), func(s types.Shard) bool { return s.SequenceNumberRange.EndingSequenceNumber != nil })
}

// wantClosed fails unless the parent has an end and the child begins behind it.
func wantClosed(tb testing.TB, parent, child types.Shard) {
	tb.Helper()
	end := parent.SequenceNumberRange.EndingSequenceNumber
	if end == nil {
		tb.Fatalf("parent %s has no EndingSequenceNumber", *parent.ShardId)
	}
	if start := child.SequenceNumberRange.StartingSequenceNumber; number(tb, start).Cmp(number(tb, end)) <= 0 {
		tb.Errorf("child %s starts at %s, want more than its parent's end %s", *child.ShardId, *start, *end)
	}
}

var reshardCases = []testCase{
	{name: "a split gives two children behind their parent", has: func(f Features) bool { return f.Resharding }, run: func(tb testing.TB, e *env) {
		name, old := splitStream(tb, e)
		shards := e.shards(tb, name, nil)
		wantRing(tb, open(shards))
		parent := byID(tb, shards, *old.ShardId)
		children := shards[2:]
		if len(children) != 2 {
			tb.Fatalf("%d children, want 2", len(children))
		}
		for _, c := range children {
			if aws.ToString(c.ParentShardId) != *parent.ShardId || c.AdjacentParentShardId != nil {
				tb.Errorf("child %s has the parents %q and %q, want %s alone", *c.ShardId, aws.ToString(c.ParentShardId), aws.ToString(c.AdjacentParentShardId), *parent.ShardId)
			}
			wantClosed(tb, parent, c)
		}
	}},
	{name: "a merge gives one child behind both parents", has: func(f Features) bool { return f.Resharding }, run: func(tb testing.TB, e *env) {
		name := e.stream(tb, 2)
		old := e.shards(tb, name, nil)
		if _, err := e.MergeShards(tb.Context(), &kinesis.MergeShardsInput{StreamName: &name, ShardToMerge: old[0].ShardId, AdjacentShardToMerge: old[1].ShardId}); err != nil {
			tb.Fatal(err)
		}
		e.active(tb, name)
		shards := e.shards(tb, name, nil)
		child := shards[2]
		if aws.ToString(child.ParentShardId) != *old[0].ShardId || aws.ToString(child.AdjacentParentShardId) != *old[1].ShardId {
			tb.Errorf("the child's parents are %q and %q, want %s and %s", aws.ToString(child.ParentShardId), aws.ToString(child.AdjacentParentShardId), *old[0].ShardId, *old[1].ShardId)
		}
		wantRing(tb, open(shards))
		wantClosed(tb, shards[0], child)
		wantClosed(tb, shards[1], child)
	}},
	{name: "a closed shard is read to its end", has: func(f Features) bool { return f.Resharding }, run: func(tb testing.TB, e *env) {
		name := e.stream(tb, 1)
		for i := range 5 {
			e.put(tb, name, "k", fmt.Sprintf("r%d", i))
		}
		parent := e.shards(tb, name, nil)[0]
		e.split(tb, name, parent)
		after := e.put(tb, name, "k", "child")
		if *after.ShardId == *parent.ShardId {
			tb.Errorf("a record went to closed shard %s", *parent.ShardId)
		}
		it := e.iterator(tb, name, *parent.ShardId, nil)
		_, last := e.read(tb, it, 5)
		e.end(tb, last)
		records, _ := e.read(tb, e.iterator(tb, name, *after.ShardId, nil), 1)
		if string(records[0].Data) != "child" {
			tb.Errorf("the child holds %s, want child", records[0].Data)
		}
		// From behind the last record, where a consumer that had read all starts again.
		out, err := e.GetRecords(tb.Context(), &kinesis.GetRecordsInput{ShardIterator: e.iterator(tb, name, *parent.ShardId,
			startAt(types.ShardIteratorTypeAfterSequenceNumber, last.Records[len(last.Records)-1].SequenceNumber))})
		if err != nil {
			tb.Fatal(err)
		}
		e.end(tb, out)
	}},
	{name: "the page with the last record of a closed shard has no NextShardIterator", has: func(f Features) bool { return f.EndAtOnce }, run: func(tb testing.TB, e *env) {
		name := e.stream(tb, 1)
		e.put(tb, name, "k", "only")
		parent := e.shards(tb, name, nil)[0]
		e.split(tb, name, parent)
		if _, last := e.read(tb, e.iterator(tb, name, *parent.ShardId, nil), 1); last.NextShardIterator != nil {
			tb.Error("it has one, want none")
		}
	}},
	{name: "the end of a split shard names both children", has: func(f Features) bool { return f.ChildShards }, run: func(tb testing.TB, e *env) {
		name, parent := splitStream(tb, e)
		last := e.end(tb, &kinesis.GetRecordsOutput{NextShardIterator: e.iterator(tb, name, *parent.ShardId, nil)})
		if len(last.ChildShards) != 2 {
			tb.Fatalf("%d ChildShards, want 2", len(last.ChildShards))
		}
		shards := e.shards(tb, name, nil)
		for _, c := range last.ChildShards {
			want := byID(tb, shards, *c.ShardId)
			if *c.HashKeyRange.StartingHashKey != *want.HashKeyRange.StartingHashKey || *c.HashKeyRange.EndingHashKey != *want.HashKeyRange.EndingHashKey ||
				!slices.Equal(c.ParentShards, []string{*parent.ShardId}) {
				tb.Errorf("child %s: parents %v, range %s to %s; want %s, %s to %s", *c.ShardId, c.ParentShards, *c.HashKeyRange.StartingHashKey, *c.HashKeyRange.EndingHashKey,
					*parent.ShardId, *want.HashKeyRange.StartingHashKey, *want.HashKeyRange.EndingHashKey)
			}
		}
	}},
	{name: "the end of both merged shards names the child with two parents", has: func(f Features) bool { return f.ChildShards }, run: func(tb testing.TB, e *env) {
		name := e.stream(tb, 2)
		old := e.shards(tb, name, nil)
		if _, err := e.MergeShards(tb.Context(), &kinesis.MergeShardsInput{StreamName: &name, ShardToMerge: old[0].ShardId, AdjacentShardToMerge: old[1].ShardId}); err != nil {
			tb.Fatal(err)
		}
		e.active(tb, name)
		for _, parent := range old {
			last := e.end(tb, &kinesis.GetRecordsOutput{NextShardIterator: e.iterator(tb, name, *parent.ShardId, nil)})
			if len(last.ChildShards) != 1 || !slices.Equal(last.ChildShards[0].ParentShards, idsOf(old)) {
				tb.Errorf("ChildShards of %s: %+v, want one with the parents %v", *parent.ShardId, last.ChildShards, idsOf(old))
			}
		}
	}},
	{name: "a closed shard is not split again", has: func(f Features) bool { return f.SplitOfClosedRefused }, run: func(tb testing.TB, e *env) {
		name, parent := splitStream(tb, e)
		_, err := e.SplitShard(tb.Context(), &kinesis.SplitShardInput{StreamName: &name, ShardToSplit: parent.ShardId, NewStartingHashKey: aws.String(ring.Middle(parent))})
		wantCode(tb, "split", err, "InvalidArgumentException", "ResourceInUseException")
	}},
	{name: "a split at a shard's first hash key is refused", has: func(f Features) bool { return f.SplitAtStartRefused }, run: func(tb testing.TB, e *env) {
		name := e.stream(tb, 1)
		_, err := e.SplitShard(tb.Context(), &kinesis.SplitShardInput{StreamName: &name, ShardToSplit: e.shards(tb, name, nil)[0].ShardId, NewStartingHashKey: aws.String("0")})
		wantCode(tb, "split", err, "InvalidArgumentException")
	}},
	{name: "shards that are not neighbours are not merged", has: func(f Features) bool { return f.MergeOfStrangersRefused }, run: func(tb testing.TB, e *env) {
		name := e.stream(tb, 3)
		s := e.shards(tb, name, nil)
		_, err := e.MergeShards(tb.Context(), &kinesis.MergeShardsInput{StreamName: &name, ShardToMerge: s[0].ShardId, AdjacentShardToMerge: s[2].ShardId})
		wantCode(tb, "merge", err, "InvalidArgumentException")
	}},
	{name: "UpdateShardCount doubles and halves", has: func(f Features) bool { return f.UpdateShardCount }, run: func(tb testing.TB, e *env) {
		name := e.stream(tb, 2)
		for _, want := range []int{4, 2} {
			if _, err := e.UpdateShardCount(tb.Context(), &kinesis.UpdateShardCountInput{
				StreamName: &name, TargetShardCount: aws.Int32(int32(want)), ScalingType: types.ScalingTypeUniformScaling,
			}); err != nil {
				tb.Fatal(err)
			}
			e.active(tb, name)
			shards := open(e.shards(tb, name, nil))
			if len(shards) != want {
				tb.Errorf("%d open shards, want %d", len(shards), want)
			}
			wantRing(tb, shards)
		}
	}},
}
