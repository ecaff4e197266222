package kpl

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/hashkey"
	"github.com/shardlease/shardlease/processor"
)

// FuzzExpand gives any bytes for a record, between two aggregates that are whole.
func FuzzExpand(f *testing.F) {
	good, err := Aggregate(UserRecord{"k", "", []byte("one")}, UserRecord{"l", "12", []byte("two")})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(magic))
	f.Add(sealed(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		got := Expand([]processor.Record{came("1", good), came("2", data), came("3", good)}, hashkey.Range{})
		checkAround(t, got, good, data)
	})
}

// FuzzMessage gives any bytes for the message, with the right sum, so that they are looked at; and compares with awslabs.
func FuzzMessage(f *testing.F) {
	good, err := Aggregate(UserRecord{"k", "", []byte("one")}, UserRecord{"l", "12", []byte("two")})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body(good))
	f.Add([]byte(field(1, "k") + field(3, number(1, 0)+field(3, "x")+field(4, field(1, "tag")))))
	f.Add([]byte(field(3, number(1, 0)+field(3, "x"))))
	f.Fuzz(func(t *testing.T, m []byte) { compare(t, sealed(m)) })
}

// FuzzAggregate packs two records of any keys and bytes.
func FuzzAggregate(f *testing.F) {
	f.Add("k", "", []byte("one"), "l", "12", []byte(nil))
	f.Fuzz(func(t *testing.T, k1, e1 string, d1 []byte, k2, e2 string, d2 []byte) {
		in := []UserRecord{{k1, e1, d1}, {k2, e2, d2}}
		data, err := Aggregate(in...)
		if err != nil {
			return
		}
		var out []UserRecord
		for _, r := range Expand([]processor.Record{came("1", data)}, hashkey.Full()).Records {
			out = append(out, UserRecord{r.PartitionKey, r.ExplicitHashKey, r.Data})
		}
		in[0].Data, in[1].Data = append([]byte{}, d1...), append([]byte{}, d2...)
		if diff := cmp.Diff(in, out); diff != "" {
			t.Fatalf("user records (-packed +expanded):\n%s", diff)
		}
	})
}
