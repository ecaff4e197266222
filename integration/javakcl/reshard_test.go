//go:build unix

package javakcl

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

// open are the shards that can be written to, by their place on the ring.
func (f *fleet) open() []types.Shard {
	f.t.Helper()
	out, err := f.kinesis.ListShards(f.t.Context(), &kinesis.ListShardsInput{StreamName: &f.stream})
	if err != nil {
		f.t.Fatal(err)
	}
	open := slices.DeleteFunc(out.Shards, func(s types.Shard) bool { return s.SequenceNumberRange.EndingSequenceNumber != nil })
	slices.SortFunc(open, func(a, b types.Shard) int {
		return number(a.HashKeyRange.StartingHashKey).Cmp(number(b.HashKeyRange.StartingHashKey))
	})
	return open
}

func number(decimal *string) *big.Int {
	n, _ := new(big.Int).SetString(aws.ToString(decimal), 10)
	return n
}

// children waits until the shards that came of a reshard are read.
func (f *fleet) children(what string, before []types.Shard, parents ...string) {
	f.t.Helper()
	old := map[string]bool{}
	for _, s := range before {
		old[*s.ShardId] = true
	}
	owners := make([]string, 0, len(parents))
	for _, p := range parents {
		owners = append(owners, f.history.ownerOf(p))
	}
	f.until(fmt.Sprintf("children read after %s of %s", what, strings.Join(owners, " and ")), 90*time.Second, func() bool {
		return !slices.ContainsFunc(parents, func(p string) bool { return !f.history.ended(p) }) &&
			!slices.ContainsFunc(f.open(), func(s types.Shard) bool { return !old[*s.ShardId] && !f.history.read(*s.ShardId) })
	})
}

func width(s types.Shard) *big.Int {
	return new(big.Int).Sub(number(s.HashKeyRange.EndingHashKey), number(s.HashKeyRange.StartingHashKey))
}

// split splits a shard in the middle and waits until its children are read.
func (f *fleet) split(s types.Shard) {
	f.t.Helper()
	before := f.open()
	middle := new(big.Int).Add(number(s.HashKeyRange.StartingHashKey), number(s.HashKeyRange.EndingHashKey))
	if _, err := f.kinesis.SplitShard(f.t.Context(), &kinesis.SplitShardInput{
		StreamName: &f.stream, ShardToSplit: s.ShardId, NewStartingHashKey: aws.String(middle.Rsh(middle, 1).String()),
	}); err != nil {
		f.t.Fatal(err)
	}
	f.children("a split of a shard", before, *s.ShardId)
}

// merge merges neighbours and waits until their child is read.
func (f *fleet) merge(a, b types.Shard) {
	f.t.Helper()
	before := f.open()
	if _, err := f.kinesis.MergeShards(f.t.Context(), &kinesis.MergeShardsInput{
		StreamName: &f.stream, ShardToMerge: a.ShardId, AdjacentShardToMerge: b.ShardId,
	}); err != nil {
		f.t.Fatal(err)
	}
	f.children("a merge of shards", before, *a.ShardId, *b.ShardId)
}

// reshards splits a shard and merges two others.
func (f *fleet) reshards() {
	f.t.Helper()
	open := f.open()
	f.split(open[0])
	f.merge(open[len(open)-2], open[len(open)-1])
}

// reshardsBoth splits a shard of a worker of each kind and merges one of each, if such neighbours are left, else two others.
func (f *fleet) reshardsBoth() {
	f.t.Helper()
	ofJava := func(s types.Shard) bool { return strings.HasPrefix(f.history.ownerOf(*s.ShardId), "java") }
	ofGo := func(s types.Shard) bool { return strings.HasPrefix(f.history.ownerOf(*s.ShardId), "go") }
	for _, mine := range []func(types.Shard) bool{ofJava, ofGo} {
		open := slices.DeleteFunc(f.open(), func(s types.Shard) bool { return !mine(s) })
		if len(open) == 0 {
			f.t.Error("a kind of worker reads nothing")
			continue
		}
		f.split(slices.MaxFunc(open, func(a, b types.Shard) int { return width(a).Cmp(width(b)) })) // a narrow one may have no key
	}
	open := f.open()
	at := len(open) - 2
	for i := range len(open) - 1 {
		if ofJava(open[i]) && ofGo(open[i+1]) || ofGo(open[i]) && ofJava(open[i+1]) {
			at = i
		}
	}
	f.merge(open[at], open[at+1])
}
