package sourcetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

// split splits a shard in the middle and waits for the children.
func (e *env) split(t *testing.T, name string, s types.Shard) {
	t.Helper()
	_, err := e.SplitShard(t.Context(), &kinesis.SplitShardInput{StreamName: &name, ShardToSplit: s.ShardId, NewStartingHashKey: middle(t, s)})
	if err != nil {
		t.Fatalf("split %s: %v", *s.ShardId, err)
	}
	e.active(t, name)
}

// open is the shards that are not closed.
func open(shards []types.Shard) []types.Shard {
	return slices.DeleteFunc(slices.Clone(shards), func(s types.Shard) bool { return s.SequenceNumberRange.EndingSequenceNumber != nil })
}

// wantClosed fails unless the parent has an end and the child begins behind it.
func wantClosed(t *testing.T, parent, child types.Shard) {
	t.Helper()
	end := parent.SequenceNumberRange.EndingSequenceNumber
	if end == nil {
		t.Fatalf("parent %s has no EndingSequenceNumber", *parent.ShardId)
	}
	if start := child.SequenceNumberRange.StartingSequenceNumber; number(t, start).Cmp(number(t, end)) <= 0 {
		t.Errorf("child %s starts at %s, want more than its parent's end %s", *child.ShardId, *start, *end)
	}
}

var reshardCases = []testCase{
	{name: "a split gives two children behind their parent", run: func(t *testing.T, e *env) {
		name, old := splitStream(t, e)
		shards := e.shards(t, name, nil)
		wantRing(t, open(shards))
		parent := byID(t, shards, *old.ShardId)
		children := shards[2:]
		if len(children) != 2 {
			t.Fatalf("%d children, want 2", len(children))
		}
		for _, c := range children {
			if aws.ToString(c.ParentShardId) != *parent.ShardId || c.AdjacentParentShardId != nil {
				t.Errorf("child %s has the parents %q and %q, want %s alone", *c.ShardId, aws.ToString(c.ParentShardId), aws.ToString(c.AdjacentParentShardId), *parent.ShardId)
			}
			wantClosed(t, parent, c)
		}
	}},
	{name: "a merge gives one child behind both parents", run: func(t *testing.T, e *env) {
		name := e.stream(t, 2)
		old := e.shards(t, name, nil)
		if _, err := e.MergeShards(t.Context(), &kinesis.MergeShardsInput{StreamName: &name, ShardToMerge: old[0].ShardId, AdjacentShardToMerge: old[1].ShardId}); err != nil {
			t.Fatal(err)
		}
		e.active(t, name)
		shards := e.shards(t, name, nil)
		child := shards[2]
		if aws.ToString(child.ParentShardId) != *old[0].ShardId || aws.ToString(child.AdjacentParentShardId) != *old[1].ShardId {
			t.Errorf("the child's parents are %q and %q, want %s and %s", aws.ToString(child.ParentShardId), aws.ToString(child.AdjacentParentShardId), *old[0].ShardId, *old[1].ShardId)
		}
		wantRing(t, open(shards))
		wantClosed(t, shards[0], child)
		wantClosed(t, shards[1], child)
	}},
	{name: "a closed shard is read to its end", run: func(t *testing.T, e *env) {
		name := e.stream(t, 1)
		for i := range 5 {
			e.put(t, name, "k", fmt.Sprintf("r%d", i))
		}
		parent := e.shards(t, name, nil)[0]
		e.split(t, name, parent)
		after := e.put(t, name, "k", "child")
		if *after.ShardId == *parent.ShardId {
			t.Errorf("a record went to closed shard %s", *parent.ShardId)
		}
		it := e.iterator(t, name, *parent.ShardId, nil)
		_, last := e.read(t, it, 5)
		e.end(t, last)
		if e.features.EndAtOnce && last.NextShardIterator != nil {
			t.Error("the page with the last record has a NextShardIterator, want none")
		}
		records, _ := e.read(t, e.iterator(t, name, *after.ShardId, nil), 1)
		if string(records[0].Data) != "child" {
			t.Errorf("the child holds %s, want child", records[0].Data)
		}
		// From behind the last record, where a consumer that had read all starts again.
		out, err := e.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: e.iterator(t, name, *parent.ShardId,
			startAt(types.ShardIteratorTypeAfterSequenceNumber, last.Records[len(last.Records)-1].SequenceNumber))})
		if err != nil {
			t.Fatal(err)
		}
		e.end(t, out)
	}},
	{name: "the end of a split shard names both children", has: func(f Features) bool { return f.ChildShards }, run: func(t *testing.T, e *env) {
		name, parent := splitStream(t, e)
		last := e.end(t, &kinesis.GetRecordsOutput{NextShardIterator: e.iterator(t, name, *parent.ShardId, nil)})
		if len(last.ChildShards) != 2 {
			t.Fatalf("%d ChildShards, want 2", len(last.ChildShards))
		}
		shards := e.shards(t, name, nil)
		for _, c := range last.ChildShards {
			want := byID(t, shards, *c.ShardId)
			if *c.HashKeyRange.StartingHashKey != *want.HashKeyRange.StartingHashKey || *c.HashKeyRange.EndingHashKey != *want.HashKeyRange.EndingHashKey ||
				!slices.Equal(c.ParentShards, []string{*parent.ShardId}) {
				t.Errorf("child %s: parents %v, range %s to %s; want %s, %s to %s", *c.ShardId, c.ParentShards, *c.HashKeyRange.StartingHashKey, *c.HashKeyRange.EndingHashKey,
					*parent.ShardId, *want.HashKeyRange.StartingHashKey, *want.HashKeyRange.EndingHashKey)
			}
		}
	}},
	{name: "the end of both merged shards names the child with two parents", has: func(f Features) bool { return f.ChildShards }, run: func(t *testing.T, e *env) {
		name := e.stream(t, 2)
		old := e.shards(t, name, nil)
		if _, err := e.MergeShards(t.Context(), &kinesis.MergeShardsInput{StreamName: &name, ShardToMerge: old[0].ShardId, AdjacentShardToMerge: old[1].ShardId}); err != nil {
			t.Fatal(err)
		}
		e.active(t, name)
		for _, parent := range old {
			last := e.end(t, &kinesis.GetRecordsOutput{NextShardIterator: e.iterator(t, name, *parent.ShardId, nil)})
			if len(last.ChildShards) != 1 || !slices.Equal(last.ChildShards[0].ParentShards, idsOf(old)) {
				t.Errorf("ChildShards of %s: %+v, want one with the parents %v", *parent.ShardId, last.ChildShards, idsOf(old))
			}
		}
	}},
	{name: "a closed shard is not split again", has: func(f Features) bool { return f.SplitOfClosedRefused }, run: func(t *testing.T, e *env) {
		name, parent := splitStream(t, e)
		_, err := e.SplitShard(t.Context(), &kinesis.SplitShardInput{StreamName: &name, ShardToSplit: parent.ShardId, NewStartingHashKey: middle(t, parent)})
		wantCode(t, "split", err, "InvalidArgumentException", "ResourceInUseException")
	}},
	{name: "a split at a shard's first hash key is refused", has: func(f Features) bool { return f.SplitAtStartRefused }, run: func(t *testing.T, e *env) {
		name := e.stream(t, 1)
		_, err := e.SplitShard(t.Context(), &kinesis.SplitShardInput{StreamName: &name, ShardToSplit: e.shards(t, name, nil)[0].ShardId, NewStartingHashKey: aws.String("0")})
		wantCode(t, "split", err, "InvalidArgumentException")
	}},
	{name: "shards that are not neighbours are not merged", run: func(t *testing.T, e *env) {
		name := e.stream(t, 3)
		s := e.shards(t, name, nil)
		_, err := e.MergeShards(t.Context(), &kinesis.MergeShardsInput{StreamName: &name, ShardToMerge: s[0].ShardId, AdjacentShardToMerge: s[2].ShardId})
		wantCode(t, "merge", err, "InvalidArgumentException")
	}},
	{name: "UpdateShardCount doubles and halves", has: func(f Features) bool { return f.UpdateShardCount }, run: func(t *testing.T, e *env) {
		name := e.stream(t, 2)
		for _, want := range []int{4, 2} {
			if _, err := e.UpdateShardCount(t.Context(), &kinesis.UpdateShardCountInput{
				StreamName: &name, TargetShardCount: aws.Int32(int32(want)), ScalingType: types.ScalingTypeUniformScaling,
			}); err != nil {
				t.Fatal(err)
			}
			e.active(t, name)
			shards := open(e.shards(t, name, nil))
			if len(shards) != want {
				t.Errorf("%d open shards, want %d", len(shards), want)
			}
			wantRing(t, shards)
		}
	}},
}
