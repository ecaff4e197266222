package kpl

import (
	"bytes"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	awslabs "github.com/awslabs/kinesis-aggregation/go/v2/deaggregator"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"github.com/shardlease/shardlease/hashkey"
	"github.com/shardlease/shardlease/processor"
)

var userRecords = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) UserRecord {
	r := UserRecord{PartitionKey: rapid.SampledFrom([]string{"a", "b", "key", "ключ", "another"}).Draw(t, "key")}
	if rapid.Bool().Draw(t, "explicit") {
		k := hashkey.Key{Hi: rapid.Uint64().Draw(t, "hi"), Lo: rapid.Uint64().Draw(t, "lo")}
		r.ExplicitHashKey = k.String()
	}
	r.Data = rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "data")
	return r
}), 1, 30)

// A page of plain and aggregated records gives what was packed, in order, less what is another shard's.
func TestExpand_isTheInverseOfAggregate(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		shard := rapid.Custom(func(t *rapid.T) hashkey.Range {
			a, b := hashkey.Key{Hi: rapid.Uint64().Draw(t, "from")}, hashkey.Key{Hi: rapid.Uint64().Draw(t, "to"), Lo: 7}
			if a.Compare(b) > 0 {
				a, b = b, a
			}
			return rapid.SampledFrom([]hashkey.Range{{}, hashkey.Full(), {Start: a, End: b, Known: true}}).Draw(t, "range")
		}).Draw(t, "shard")
		var page []processor.Record
		want := []processor.Record{}
		outside := 0
		for i := range rapid.IntRange(0, 6).Draw(t, "records") {
			number := string(rune('1' + i))
			if rapid.Bool().Draw(t, "plain") {
				r := came(number, rapid.SliceOfN(rapid.Byte(), 0, 30).Filter(func(b []byte) bool { return !isAggregate(b) }).Draw(t, "plain data"))
				page, want = append(page, r), append(want, r)
				continue
			}
			users := userRecords.Draw(t, "users")
			data, err := Aggregate(users...)
			if err != nil {
				t.Fatal(err)
			}
			page = append(page, came(number, data))
			for i, u := range users {
				key := hashkey.Of(u.PartitionKey)
				if u.ExplicitHashKey != "" {
					key, _ = hashkey.Parse(u.ExplicitHashKey)
				}
				if shard.Known && !shard.Contains(key) {
					outside++
					continue
				}
				want = append(want, processor.Record{
					SequenceNumber: number, SubSequenceNumber: int64(i), PartitionKey: u.PartitionKey, ExplicitHashKey: u.ExplicitHashKey,
					Data: u.Data, ApproximateArrival: arrived,
				})
			}
		}
		got := Expand(page, shard)
		if diff := cmp.Diff(want, append([]processor.Record{}, got.Records...), cmp.Comparer(sameError)); diff != "" {
			t.Fatalf("user records (-packed +expanded):\n%s", diff)
		}
		if got.Outside != outside || got.Damaged != 0 {
			t.Fatalf("%d outside, %d damaged, want %d and 0", got.Outside, got.Damaged, outside)
		}
	})
}

// Whatever is done to an aggregate, the records around it come through.
func TestExpand_ofAMangledAggregateLeavesTheOthers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		data, err := Aggregate(userRecords.Draw(t, "users")...)
		if err != nil {
			t.Fatal(err)
		}
		good := bytes.Clone(data)
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			at := rapid.IntRange(0, len(data)-1).Draw(t, "at")
			switch rapid.IntRange(0, 2).Draw(t, "kind") {
			case 0:
				data[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
			case 1:
				data = data[:at+1]
			case 2:
				data = append(data, data[:at]...)
			}
		}
		if rapid.Bool().Draw(t, "seal") && len(data) > len(magic) {
			data = sealed(data[len(magic):max(len(magic), len(data)-16)])
		}
		got := Expand([]processor.Record{came("1", good), came("2", data), came("3", good)}, hashkey.Range{})
		checkAround(t, got, good, data)
	})
}

type failer interface{ Fatalf(string, ...any) }

// checkAround looks at what became of {good, data, good}.
func checkAround(t failer, got Page, good, data []byte) {
	want := Expand([]processor.Record{came("1", good)}, hashkey.Range{}).Records
	of := func(number string) (out []processor.Record) {
		for _, r := range got.Records {
			if r.SequenceNumber == number {
				r.SequenceNumber = "1"
				out = append(out, r)
			}
		}
		return out
	}
	for _, number := range []string{"1", "3"} {
		if diff := cmp.Diff(want, of(number), cmp.Comparer(sameError)); diff != "" {
			t.Fatalf("the records of %s beside the mangled aggregate (-alone +beside):\n%s", number, diff)
		}
	}
	mangled := of("2")
	for i, r := range mangled {
		if len(mangled) == 1 && r.Err != nil && bytes.Equal(r.Data, data) {
			continue
		}
		if r.SubSequenceNumber != int64(i) || r.Err == nil && !isAggregate(data) && !bytes.Equal(r.Data, data) {
			t.Fatalf("user record %d of the mangled aggregate is %+v", i, r)
		}
	}
	if len(mangled) == 0 {
		t.Fatalf("the mangled record %x vanished", data)
	}
}

// theirs is what the decoder of awslabs makes of data; ok is false where it panics or gives up.
func theirs(data []byte) (out []types.Record, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	out, err := awslabs.DeaggregateRecords([]types.Record{{Data: data, PartitionKey: aws.String("a"), SequenceNumber: aws.String("1")}})
	return out, err == nil
}

// compare holds our decoder to theirs: what one of them takes apart the other takes apart into the same. Two things they look
// at and we do not, or the other way round: what is in a tag, and whether an explicit hash key is a number that is there.
func compare(t failer, data []byte) {
	got := Expand([]processor.Record{came("1", data)}, hashkey.Range{})
	want, ok := theirs(data)
	tagged, badExplicit := peculiar(data)
	switch {
	case !ok && got.Aggregates > 0 && !tagged:
		t.Fatalf("%x: awslabs cannot take it apart, we made %+v of it", data, got)
	case !ok || len(want) == 0 && got.Err != nil:
	case got.Aggregates == 0:
		if raw := len(want) == 1 && bytes.Equal(want[0].Data, data); !raw && !badExplicit {
			t.Fatalf("%x: we say %v, awslabs made %d records of it", data, got.Err, len(want))
		}
	case !slices.EqualFunc(got.Records, want, func(a processor.Record, b types.Record) bool {
		return bytes.Equal(a.Data, b.Data) && a.PartitionKey == *b.PartitionKey && a.SequenceNumber == *b.SequenceNumber
	}):
		t.Fatalf("%x:\nwe     %+v\nawslabs %+v", data, got.Records, want)
	}
}

// peculiar reports whether a user record in data has a tag, and whether one has an explicit hash key that is none.
func peculiar(data []byte) (tagged, badExplicit bool) {
	t := borrow(hashkey.Range{})
	defer t.giveBack()
	if t.measure(0, data) != nil {
		return false, false
	}
	for m := body(data); len(m) > 0; {
		number, raw, rest, err := nextField(m)
		if err != nil {
			break
		}
		if m = rest; number != recordsField {
			continue
		}
		u, err := parseRecord(raw)
		if err != nil {
			continue
		}
		if u.hasExplicit {
			bad := u.explicit >= uint64(len(t.explicit))
			if !bad {
				e := t.explicit[u.explicit]
				key := string(t.letters[e.from:e.to])
				_, err := hashkey.Parse(key)
				bad = key != "" && err != nil
			}
			badExplicit = badExplicit || bad
		}
		for len(raw) > 0 {
			number, kind, n := protowire.ConsumeField(raw)
			tagged = tagged || number == 4 && kind == protowire.BytesType
			raw = raw[n:]
		}
	}
	return tagged, badExplicit
}

func TestExpand_agreesWithAwslabs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		data, err := Aggregate(userRecords.Draw(t, "users")...)
		if err != nil {
			t.Fatal(err)
		}
		if n := rapid.IntRange(0, 3).Draw(t, "changes"); n > 0 {
			m := bytes.Clone(body(data))
			for range n {
				m[rapid.IntRange(0, len(m)-1).Draw(t, "at")] = byte(rapid.IntRange(0, 255).Draw(t, "to"))
			}
			data = sealed(m)
		}
		compare(t, data)
	})
}
