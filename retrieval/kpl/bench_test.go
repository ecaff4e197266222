package kpl

import (
	"crypto/md5"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	awslabs "github.com/awslabs/kinesis-aggregation/go/v2/deaggregator"

	"github.com/shardlease/shardlease/hashkey"
	"github.com/shardlease/shardlease/processor"
)

const perAggregate, payload = 100, 200

// packed is an aggregate of 100 user records of 200 bytes each, of so many partition keys.
func packed(b *testing.B, keys int) []byte {
	b.Helper()
	var in []UserRecord
	for i := range perAggregate {
		in = append(in, UserRecord{PartitionKey: fmt.Sprintf("customer-%06d", i%keys), Data: make([]byte, payload)})
	}
	data, err := Aggregate(in...)
	if err != nil {
		b.Fatal(err)
	}
	return data
}

// compared runs f, which takes the page of one aggregate apart, and reports what a user record costs: nanoseconds, as
// multiples of what its share of the MD5 sums costs that have to be computed, and allocations. Both are timed in turns, and
// medians count, because a machine that does other things too is slow for a while now and then.
func compared(b *testing.B, f, sums func()) {
	b.Helper()
	var ours, floor []time.Duration
	for b.Loop() {
		began := time.Now()
		f()
		between := time.Now()
		sums()
		ours, floor = append(ours, between.Sub(began)), append(floor, time.Since(between))
	}
	slices.Sort(ours)
	slices.Sort(floor)
	mine, least := ours[len(ours)/2], floor[len(floor)/2]
	b.ReportMetric(float64(mine.Nanoseconds())/perAggregate, "ns/record")
	b.ReportMetric(float64(mine)/float64(least), "x-md5")
	b.ReportMetric(testing.AllocsPerRun(100, f)/perAggregate, "allocs/record")
	b.ReportMetric(0, "ns/op")
}

// A page of one aggregate of 100 user records: for a shard that is the whole stream, for one that is a part of it (so that
// the hash of each key has to be looked at: one more MD5 sum a key), and with the decoder of awslabs, which does not look at
// shards.
func BenchmarkExpand(b *testing.B) {
	part := hashkey.Range{Start: hashkey.Key{Lo: 1}, End: hashkey.Max, Known: true} // everything is inside, and nobody knows before
	for _, keys := range []int{1, 10, perAggregate} {
		data := packed(b, keys)
		sum := func() { _ = md5.Sum(body(data)) }
		for name, shard := range map[string]hashkey.Range{"whole": hashkey.Full(), "part": part} {
			b.Run(fmt.Sprintf("keys=%d/%s", keys, name), func(b *testing.B) {
				page := []processor.Record{came("49600000000000000000000000000000000000000000000000000000", data)}
				compared(b, func() {
					if got := Expand(page, shard); len(got.Records) != perAggregate {
						b.Fatalf("%d records (%v)", len(got.Records), got.Err)
					}
				}, func() {
					sum()
					for i := 0; name == "part" && i < keys; i++ {
						_ = hashkey.Of("customer-000042")
					}
				})
			})
		}
		b.Run(fmt.Sprintf("keys=%d/awslabs", keys), func(b *testing.B) {
			page := []types.Record{{SequenceNumber: aws.String("49600000000000000000000000000000000000000000000000000000"), PartitionKey: aws.String("a"), Data: data}}
			compared(b, func() {
				if got, err := awslabs.DeaggregateRecords(page); err != nil || len(got) != perAggregate {
					b.Fatalf("%d records, %v", len(got), err)
				}
			}, sum)
		})
	}
}

// A page of 1,000 records that are no aggregates.
func BenchmarkPlain(b *testing.B) {
	const n = 1000
	page, theirs := make([]processor.Record, n), make([]types.Record, n)
	for i := range page {
		page[i] = came("1", make([]byte, payload))
		theirs[i] = types.Record{SequenceNumber: aws.String("1"), PartitionKey: aws.String("a"), Data: page[i].Data}
	}
	report := func(b *testing.B, f func()) {
		b.Helper()
		b.ReportAllocs()
		for b.Loop() {
			f()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/record")
		b.ReportMetric(0, "ns/op")
	}
	b.Run("ours", func(b *testing.B) { report(b, func() { Expand(page, hashkey.Full()) }) })
	b.Run("awslabs", func(b *testing.B) {
		report(b, func() {
			if _, err := awslabs.DeaggregateRecords(theirs); err != nil {
				b.Fatal(err)
			}
		})
	})
}
