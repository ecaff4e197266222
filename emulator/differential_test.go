package emulator_test

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/awshttp"
)

// TestKinesis_answersAsAForeignServerDoes sends the same random requests to the emulator and to the server at
// SHARDLEASE_KINESIS_ENDPOINT (kinesis-local 0.6.2 is the one it was made with), and compares what they answer: errors by their code,
// records by their data, sequence numbers by the record that they stand for. Without an endpoint there is nobody to compare
// with; the other tests stand by themselves.
func TestKinesis_answersAsAForeignServerDoes(t *testing.T) {
	t.Parallel()
	endpoint := os.Getenv("SHARDLEASE_KINESIS_ENDPOINT")
	if endpoint == "" {
		t.Log("SHARDLEASE_KINESIS_ENDPOINT names no server; nothing to compare with")
		return
	}
	pair := []*kinesis.Client{
		kinesis.NewFromConfig(emulator.New().AWSConfig()),
		kinesis.NewFromConfig(awshttp.Prepare(aws.Config{
			Region: "us-east-1", BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("000000000000", "secret", ""),
		})),
	}
	streams, explained, requests := 0, map[string]int{}, 0
	rapid.Check(t, func(rt *rapid.T) {
		streams++
		c := &comparison{T: rt, ctx: t.Context, clients: pair, stream: fmt.Sprintf("diff-%d-%d", time.Now().UnixNano(), streams), explained: explained, requests: &requests}
		c.create()
		defer c.drop()
		rt.Repeat(map[string]func(*rapid.T){
			"put": c.put, "put batch": c.putBatch, "split": c.split, "merge": c.merge, "list": c.list, "read": c.read, "read again": c.read, "retention": c.retention, "describe": c.describe,
		})
	})
	t.Logf("%d requests to each over %d streams; differences, by their explanation: %v", requests, streams, explained)
}

// comparison is one stream on both servers, the emulator first.
type comparison struct {
	*rapid.T
	ctx       func() context.Context
	clients   []*kinesis.Client
	stream    string
	numbers   [2]map[string]string // by sequence number, which record has it
	records   [2][]string          // the sequence numbers of the records, in the order in which they were put
	shardOf   []string             // of each of them
	shards    []types.Shard        // as the emulator lists them
	explained map[string]int
	requests  *int
}

// explanation says why the emulator and kinesis-local answer differently to an operation; "" if nobody knows.
func explanation(operation, ours, theirs string) string {
	refused := strings.HasPrefix(ours, "error ") && strings.HasPrefix(theirs, "error ")
	switch {
	case theirs == "error UnknownError" && ours == "error ValidationException":
		return "kinesis-local ends in an error 500 for a hash key that is no number"
	case operation == "put" && ours == "error ValidationException" && theirs == "error InvalidArgumentException":
		return "kinesis-local calls a hash key with a sign out of range; by the service's pattern it is none"
	case operation == "split" && ours == "error InvalidArgumentException" && theirs == "error ResourceInUseException":
		return "a closed shard is split: AWS answers InvalidArgumentException (kinesalite issue 109)"
	case (operation == "merge" || operation == "split") && refused:
		return "a split or merge with two faults: each server names another one"
	}
	return ""
}

// both makes a request of both and compares the answers.
func (c *comparison) both(operation string, call func(k *kinesis.Client, i int) (string, error)) (ours string) {
	*c.requests++
	var answers [2]string
	for i, k := range c.clients {
		answer, err := call(k, i)
		if err != nil {
			api, ok := errors.AsType[smithy.APIError](err)
			if !ok {
				c.Fatalf("%s: %v", operation, err)
			}
			answer = "error " + api.ErrorCode()
		}
		answers[i] = answer
	}
	if answers[0] != answers[1] {
		why := explanation(operation, answers[0], answers[1])
		if why == "" {
			c.Fatalf("%s (-foreign +ours):\n%s", operation, cmp.Diff(strings.Split(answers[1], "\n"), strings.Split(answers[0], "\n")))
		}
		c.explained[why]++
	}
	return answers[0]
}

// create begins with one shard: those of a larger stream end one hash key too early in kinesis-local.
func (c *comparison) create() {
	c.both("create", func(k *kinesis.Client, _ int) (string, error) {
		_, err := k.CreateStream(c.ctx(), &kinesis.CreateStreamInput{StreamName: &c.stream, ShardCount: aws.Int32(1)})
		return "", err
	})
	c.numbers = [2]map[string]string{{}, {}}
	c.settle()
}

func (c *comparison) drop() {
	for _, k := range c.clients {
		_, _ = k.DeleteStream(c.ctx(), &kinesis.DeleteStreamInput{StreamName: &c.stream})
	}
}

// settle waits until both streams are ACTIVE and compares their shards.
func (c *comparison) settle() {
	for _, k := range c.clients {
		for status := types.StreamStatus(""); status != types.StreamStatusActive; {
			out, err := k.DescribeStreamSummary(c.ctx(), &kinesis.DescribeStreamSummaryInput{StreamName: &c.stream})
			if err != nil {
				c.Fatal(err)
			}
			status = out.StreamDescriptionSummary.StreamStatus
		}
	}
	c.both("list", func(k *kinesis.Client, i int) (string, error) {
		out, err := k.ListShards(c.ctx(), &kinesis.ListShardsInput{StreamName: &c.stream})
		if err != nil {
			return "", err
		}
		if i == 0 {
			c.shards = out.Shards
		}
		return shardsText(out.Shards), nil
	})
}

// shardsText is everything of shards but their sequence numbers.
func shardsText(shards []types.Shard) string {
	var b strings.Builder
	for _, s := range shards {
		fmt.Fprintf(&b, "%s %s-%s parents %s %s closed %t\n", *s.ShardId, *s.HashKeyRange.StartingHashKey, *s.HashKeyRange.EndingHashKey,
			aws.ToString(s.ParentShardId), aws.ToString(s.AdjacentParentShardId), s.SequenceNumberRange.EndingSequenceNumber != nil)
	}
	return b.String()
}

// shard draws one of the shards.
func (c *comparison) shard(t *rapid.T, label string) types.Shard {
	return c.shards[rapid.IntRange(0, len(c.shards)-1).Draw(t, label)]
}

// hashKey draws one that is absent, on an edge of a shard, anywhere, or too large.
func (c *comparison) hashKey(t *rapid.T) *string {
	s := c.shard(t, "shard of the hash key")
	text := rapid.SampledFrom([]string{"", "", *s.HashKeyRange.StartingHashKey, *s.HashKeyRange.EndingHashKey, "340282366920938463463374607431768211456", "-1", "x"}).Draw(t, "hash key")
	if text == "" {
		return nil
	}
	return &text
}

// stored notes on each server the number of the record that both have stored.
func (c *comparison) stored(numbers [2]string, shard string) {
	for i, n := range numbers {
		c.numbers[i][n] = fmt.Sprint("r", len(c.records[i]))
		c.records[i] = append(c.records[i], n)
	}
	c.shardOf = append(c.shardOf, shard)
}

func (c *comparison) put(t *rapid.T) {
	key, hash := rapid.StringMatching("[a-z]{1,3}").Draw(t, "key"), c.hashKey(t)
	var numbers [2]string
	shard := ""
	c.both("put", func(k *kinesis.Client, i int) (string, error) {
		out, err := k.PutRecord(c.ctx(), &kinesis.PutRecordInput{StreamName: &c.stream, PartitionKey: &key, ExplicitHashKey: hash, Data: fmt.Append(nil, "r", len(c.records[i]))})
		if err != nil {
			return "", err
		}
		numbers[i], shard = *out.SequenceNumber, *out.ShardId
		return shard, nil
	})
	if shard != "" {
		c.stored(numbers, shard)
	}
}

func (c *comparison) putBatch(t *rapid.T) {
	keys := rapid.SliceOfN(rapid.StringMatching("[a-z]{1,3}"), 1, 6).Draw(t, "keys")
	var numbers [2][]string
	var shards []string
	c.both("put batch", func(k *kinesis.Client, i int) (string, error) {
		var batch []types.PutRecordsRequestEntry
		for n := range keys {
			batch = append(batch, types.PutRecordsRequestEntry{PartitionKey: &keys[n], Data: fmt.Append(nil, "r", len(c.records[i])+n)})
		}
		out, err := k.PutRecords(c.ctx(), &kinesis.PutRecordsInput{StreamName: &c.stream, Records: batch})
		if err != nil {
			return "", err
		}
		shards = nil
		for _, r := range out.Records {
			numbers[i], shards = append(numbers[i], aws.ToString(r.SequenceNumber)), append(shards, aws.ToString(r.ShardId))
		}
		return fmt.Sprint(aws.ToInt32(out.FailedRecordCount), shards), nil
	})
	for n := range shards {
		c.stored([2]string{numbers[0][n], numbers[1][n]}, shards[n])
	}
}

// split splits in the middle, or where it must not; never at a shard's first hash key, which kinesis-local takes, and then has a
// child without hash keys (docs/compatibility.md).
func (c *comparison) split(t *rapid.T) {
	if len(c.shards) > 12 {
		t.Skip("enough shards")
	}
	s := c.shard(t, "shard to split")
	low, _ := new(big.Int).SetString(*s.HashKeyRange.StartingHashKey, 10)
	high, _ := new(big.Int).SetString(*s.HashKeyRange.EndingHashKey, 10)
	middle := new(big.Int).Add(low, high)
	at := rapid.SampledFrom([]string{middle.Rsh(middle, 1).String(), middle.String(), new(big.Int).Add(high, big.NewInt(1)).String(), "x"}).Draw(t, "hash key to split at")
	id := rapid.SampledFrom([]string{*s.ShardId, *s.ShardId, *s.ShardId, "shardId-000000000099"}).Draw(t, "shard to split")
	c.both("split", func(k *kinesis.Client, _ int) (string, error) {
		_, err := k.SplitShard(c.ctx(), &kinesis.SplitShardInput{StreamName: &c.stream, ShardToSplit: &id, NewStartingHashKey: &at})
		return "", err
	})
	c.settle()
}

// merge merges any two, neighbours with the lower one first: kinesis-local and kinesalite refuse them the other way round; AWS does
// not say.
func (c *comparison) merge(t *rapid.T) {
	one, other := c.shard(t, "shard to merge"), c.shard(t, "shard to merge it with")
	low, _ := new(big.Int).SetString(*one.HashKeyRange.StartingHashKey, 10)
	high, _ := new(big.Int).SetString(*other.HashKeyRange.EndingHashKey, 10)
	if high.Add(high, big.NewInt(1)).Cmp(low) == 0 {
		one, other = other, one
	}
	c.both("merge", func(k *kinesis.Client, _ int) (string, error) {
		_, err := k.MergeShards(c.ctx(), &kinesis.MergeShardsInput{StreamName: &c.stream, ShardToMerge: one.ShardId, AdjacentShardToMerge: other.ShardId})
		return "", err
	})
	c.settle()
}

func (c *comparison) list(t *rapid.T) {
	in := kinesis.ListShardsInput{StreamName: &c.stream}
	switch rapid.IntRange(0, 4).Draw(t, "kind of list") {
	case 0:
		in.ShardFilter = &types.ShardFilter{Type: types.ShardFilterTypeAtLatest}
	case 1:
		in.ShardFilter = &types.ShardFilter{Type: types.ShardFilterTypeFromTrimHorizon}
	case 2:
		in.ShardFilter = &types.ShardFilter{Type: types.ShardFilterTypeAfterShardId, ShardId: c.shard(t, "after").ShardId}
	case 3:
		in.MaxResults = aws.Int32(int32(rapid.IntRange(1, 4).Draw(t, "page")))
	case 4:
		in.ExclusiveStartShardId = c.shard(t, "start").ShardId
	}
	c.both("list", func(k *kinesis.Client, _ int) (string, error) {
		var text strings.Builder
		next := in
		for {
			out, err := k.ListShards(c.ctx(), &next)
			if err != nil {
				return "", err
			}
			text.WriteString(shardsText(out.Shards) + "--\n")
			if out.NextToken == nil {
				return text.String(), nil
			}
			next = kinesis.ListShardsInput{NextToken: out.NextToken, MaxResults: in.MaxResults}
		}
	})
}

// read reads a shard from somewhere to its end, or for three pages.
func (c *comparison) read(t *rapid.T) {
	shard := *c.shard(t, "shard to read").ShardId
	kind := rapid.SampledFrom([]types.ShardIteratorType{
		types.ShardIteratorTypeTrimHorizon, types.ShardIteratorTypeLatest, types.ShardIteratorTypeAtSequenceNumber, types.ShardIteratorTypeAfterSequenceNumber,
	}).Draw(t, "from")
	at := -1
	if kind == types.ShardIteratorTypeAtSequenceNumber || kind == types.ShardIteratorTypeAfterSequenceNumber {
		var here []int
		for i, s := range c.shardOf {
			if s == shard {
				here = append(here, i)
			}
		}
		if len(here) == 0 {
			t.Skip("no record to begin at")
		}
		at = rapid.SampledFrom(here).Draw(t, "record")
	}
	limit := aws.Int32(int32(rapid.SampledFrom([]int{1, 2, 10000}).Draw(t, "limit")))
	c.both("read "+string(kind), func(k *kinesis.Client, i int) (string, error) {
		in := &kinesis.GetShardIteratorInput{StreamName: &c.stream, ShardId: &shard, ShardIteratorType: kind}
		if at >= 0 {
			in.StartingSequenceNumber = &c.records[i][at]
		}
		out, err := k.GetShardIterator(c.ctx(), in)
		if err != nil {
			return "", err
		}
		var text strings.Builder
		it := out.ShardIterator
		for page := 0; page < 3 && it != nil; page++ {
			got, err := k.GetRecords(c.ctx(), &kinesis.GetRecordsInput{ShardIterator: it, Limit: limit})
			if err != nil {
				return "", err
			}
			for _, r := range got.Records {
				fmt.Fprintf(&text, "%s %s is %s\n", r.Data, *r.PartitionKey, c.numbers[i][*r.SequenceNumber])
			}
			var children []string
			for _, child := range got.ChildShards {
				children = append(children, fmt.Sprint(*child.ShardId, child.ParentShards, *child.HashKeyRange.StartingHashKey))
			}
			slices.Sort(children)
			fmt.Fprintf(&text, "more %t children %v\n", got.NextShardIterator != nil, children)
			it = got.NextShardIterator
		}
		return text.String(), nil
	})
}

func (c *comparison) retention(t *rapid.T) {
	hours := aws.Int32(int32(rapid.SampledFrom([]int{1, 24, 30, 48, 8760, 8761}).Draw(t, "hours")))
	increase := rapid.Bool().Draw(t, "increase")
	c.both("retention", func(k *kinesis.Client, _ int) (string, error) {
		if increase {
			_, err := k.IncreaseStreamRetentionPeriod(c.ctx(), &kinesis.IncreaseStreamRetentionPeriodInput{StreamName: &c.stream, RetentionPeriodHours: hours})
			return "", err
		}
		_, err := k.DecreaseStreamRetentionPeriod(c.ctx(), &kinesis.DecreaseStreamRetentionPeriodInput{StreamName: &c.stream, RetentionPeriodHours: hours})
		return "", err
	})
	c.settle()
}

func (c *comparison) describe(*rapid.T) {
	c.both("describe", func(k *kinesis.Client, _ int) (string, error) {
		out, err := k.DescribeStreamSummary(c.ctx(), &kinesis.DescribeStreamSummaryInput{StreamName: &c.stream})
		if err != nil {
			return "", err
		}
		s := out.StreamDescriptionSummary
		return fmt.Sprintf("%s, %d open, %d hours, encryption %s, %d consumers", s.StreamStatus, aws.ToInt32(s.OpenShardCount), aws.ToInt32(s.RetentionPeriodHours), s.EncryptionType, aws.ToInt32(s.ConsumerCount)), nil
	})
}
