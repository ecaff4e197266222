package shardsync

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/hashkey"
	"github.com/shardlease/shardlease/leases"
)

// Three histories of a stream, one shard a line: id, parents (a before an adjacent one), first and last sequence number,
// hash keys.
const (
	graphA = `0 - 11-102 0-99
1 - 11-102 100-199
2 - 11-102 200-299
3 - 11-102 300-399
4 - 11-open 400-499
5 - 11-205 500-MAX
6 0,a1 103-205 0-199
7 2,a3 103-205 200-399
8 6,a7 206-open 0-399
9 5 206-open 500-799
10 a5 206-open 800-MAX`
	graphB = `0 - 1000-1049 0-499
1 - 1000-1049 500-MAX
2 0,a1 1050-1099 0-MAX
3 2 1100-1149 0-499
4 2 1100-1149 500-MAX
5 3,a4 1150-1199 0-MAX
6 5 1200-1249 0-499
7 5 1200-1249 500-MAX
8 6,a7 1250-1299 0-MAX
9 8 1300-open 0-499
10 a8 1300-open 500-MAX`
	graphC = `0 - 11-102 0-399
1 - 11-open 400-499
2 - 11-102 500-599
3 - 11-102 600-MAX
4 0 103-205 0-199
5 0 103-205 200-399
6 2,a3 103-open 500-MAX
7 4 206-open 0-99
8 4 206-open 100-199
9 5 206-open 200-299
10 5 206-open 300-399`
)

func parseGraph(text string) []Shard {
	var out []Shard
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		s := Shard{ID: id(f[0])}
		if f[1] != "-" {
			for p := range strings.SplitSeq(f[1], ",") {
				if adjacent, ok := strings.CutPrefix(p, "a"); ok {
					s.AdjacentParentID = id(adjacent)
				} else {
					s.ParentID = id(p)
				}
			}
		}
		s.StartingSequenceNumber, s.EndingSequenceNumber, _ = strings.Cut(f[2], "-")
		if s.EndingSequenceNumber == "open" {
			s.EndingSequenceNumber = ""
		}
		s.HashKeyRange = ring(f[3])
		out = append(out, s)
	}
	return out
}

// ring reads "0-99" or "500-MAX".
func ring(s string) hashkey.Range {
	from, to, _ := strings.Cut(s, "-")
	if to == "MAX" {
		to = hashkey.Max.String()
	}
	r, err := hashkey.ParseRange(from, to)
	if err != nil {
		panic(err)
	}
	return r
}

func id(n string) string { return "shardId-" + n }

func numberOf(id string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(id, "shardId-"))
	if err != nil {
		panic(err)
	}
	return n
}

// leased makes leases of some of the shards at a sequence number.
func leased(shards []Shard, numbers ...int) []leases.Lease {
	var out []leases.Lease
	for _, s := range shards {
		if slices.Contains(numbers, numberOf(s.ID)) {
			l := newLease(s, position{})
			l.Checkpoint = checkpoint.ExtendedSequenceNumber{SequenceNumber: s.StartingSequenceNumber}
			out = append(out, l)
		}
	}
	return out
}

func numbersOf(ls []leases.Lease) []int {
	out := []int{}
	for _, l := range ls {
		out = append(out, numberOf(l.Key))
	}
	slices.Sort(out)
	return out
}

// ints reads "0 1 4"; "-" and "" are none.
func ints(s string) []int {
	out := []int{}
	for f := range strings.FieldsSeq(strings.ReplaceAll(s, ",", " ")) {
		if f == "-" {
			continue
		}
		n, err := strconv.Atoi(f)
		if err != nil {
			panic(err)
		}
		out = append(out, n)
	}
	return out
}

var at1000 = time.UnixMilli(1000)

var positions = []config.InitialPosition{config.Latest(), config.TrimHorizon(), config.AtTimestamp(at1000)}

func sentinel(p config.InitialPosition) checkpoint.ExtendedSequenceNumber {
	return startOf(p, nil).at
}

func determine(t *testing.T, shards []Shard, have []leases.Lease, from config.InitialPosition) []leases.Lease {
	t.Helper()
	out, err := DetermineNewLeases(shards, have, from)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func graphs() map[string][]Shard {
	return map[string][]Shard{"A": parseGraph(graphA), "B": parseGraph(graphB), "C": parseGraph(graphC)}
}

func name(from config.InitialPosition) string { return fmt.Sprint(sentinel(from)) }
