package kpl

import (
	"bytes"
	"crypto/md5"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/shardlease/shardlease/hashkey"
	"github.com/shardlease/shardlease/processor"
)

// sealed is an aggregate of any bytes, with the right sum.
func sealed(message []byte) []byte {
	sum := md5.Sum(message)
	return append(append([]byte(magic), message...), sum[:]...)
}

// field is a field of bytes.
func field(n protowire.Number, value string) string {
	return string(protowire.AppendString(protowire.AppendTag(nil, n, protowire.BytesType), value))
}

// number is a field of that kind.
func number(n protowire.Number, value uint64) string {
	return string(protowire.AppendVarint(protowire.AppendTag(nil, n, protowire.VarintType), value))
}

func aggregate(t *testing.T, records ...UserRecord) []byte {
	t.Helper()
	data, err := Aggregate(records...)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

var arrived = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// came is a Kinesis record.
func came(sequence string, data []byte) processor.Record {
	return processor.Record{SequenceNumber: sequence, PartitionKey: "a", Data: data, ApproximateArrival: arrived}
}

func TestExpand_takesAnAggregateApart(t *testing.T) {
	t.Parallel()
	data := aggregate(t, UserRecord{"red", "", []byte("one")}, UserRecord{"blue", "12", nil}, UserRecord{"red", "007", []byte("three")})
	got := Expand([]processor.Record{came("10", []byte("plain")), came("11", data), came("12", nil)}, hashkey.Full())
	want := Page{
		Records: []processor.Record{
			came("10", []byte("plain")),
			{SequenceNumber: "11", PartitionKey: "red", Data: []byte("one"), ApproximateArrival: arrived},
			{SequenceNumber: "11", SubSequenceNumber: 1, PartitionKey: "blue", ExplicitHashKey: "12", Data: []byte{}, ApproximateArrival: arrived},
			{SequenceNumber: "11", SubSequenceNumber: 2, PartitionKey: "red", ExplicitHashKey: "007", Data: []byte("three"), ApproximateArrival: arrived},
			came("12", nil),
		},
		Aggregates: 1, Users: 3,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("page (-want +got):\n%s", diff)
	}
}

// What is no aggregate, byte by byte near to one, is a record like any other.
func TestExpand_leavesPlainRecordsAlone(t *testing.T) {
	t.Parallel()
	for _, data := range []string{"", "\xf3", "\xf3\x89\x9a", "\xf3\x89\x9a\xc3" + strings.Repeat("x", 40), " " + magic, "text"} {
		page := []processor.Record{came("1", []byte(data))}
		got := Expand(page, hashkey.Full())
		if &got.Records[0] != &page[0] || got.Records[0].Err != nil || got.Damaged != 0 {
			t.Errorf("data %q: page %+v, want it as it was", data, got)
		}
	}
	if got := Expand(nil, hashkey.Full()); got.Records != nil {
		t.Errorf("no records became %v", got.Records)
	}
}

// The format may grow, and other libraries need not write what the KPL writes.
func TestExpand_readsWhateverProtobufAllows(t *testing.T) {
	t.Parallel()
	one := number(1, 0) + field(3, "x")
	for name, message := range map[string]string{
		"tables after the records":    field(3, one) + field(1, "k"),
		"tables between records":      field(1, "k") + field(3, one) + field(2, "5"),
		"the largest field number":    field(1, "k") + field(1<<29-1, "?") + field(3, one+number(1<<29-1, 1)),
		"tags":                        field(1, "k") + field(3, one+field(4, field(1, "tag")+field(2, "value"))),
		"unknown fields":              field(1, "k") + number(9, 7) + field(12, "?") + field(3, one+number(17, 1)+field(18, "?")),
		"a group":                     field(1, "k") + "\x4b\x08\x01\x4c" + field(3, one),
		"a table entry of other type": number(1, 3) + field(1, "k") + field(3, one),
		"data twice, the last counts": field(1, "k") + field(3, number(1, 0)+field(3, "old")+field(3, "x")),
		"index twice":                 field(1, "k") + field(3, number(1, 9)+one),
		"index of other type too":     field(1, "k") + field(3, field(1, "?")+one),
		"data before the index":       field(1, "k") + field(3, field(3, "x")+number(1, 0)),
		"index in too many bytes":     field(1, "k") + field(3, "\x08\x80\x80\x00"+field(3, "x")),
		"keys that nobody has":        field(1, "k") + field(1, "") + field(2, "no number") + field(3, one),
		"an empty explicit hash key":  field(1, "k") + field(2, "") + field(3, one+number(2, 0)),
	} {
		got := Expand([]processor.Record{came("1", sealed([]byte(message)))}, hashkey.Full())
		want := Page{
			Records:    []processor.Record{{SequenceNumber: "1", PartitionKey: "k", Data: []byte("x"), ApproximateArrival: arrived}},
			Aggregates: 1, Users: 1,
		}
		if diff := cmp.Diff(want, got, cmp.Comparer(sameError)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func sameError(a, b error) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return a.Error() == b.Error()
}

// Each kind of damage, between two aggregates and two plain records that are in order: those come as if nothing had been there.
func TestExpand_ofADamagedAggregateCostsOnlyThat(t *testing.T) {
	t.Parallel()
	whole := aggregate(t, UserRecord{"k", "", []byte("one")}, UserRecord{"k", "3", []byte("two")})
	broken := bytes.Clone(whole)
	broken[10] ^= 1
	good := field(1, "k") + field(3, number(1, 0)+field(3, "x"))
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"magic only":                 {[]byte(magic), "cut short: 4 bytes, want at least 20"},
		"no room for a sum":          {[]byte(magic + strings.Repeat("x", 15)), "cut short: 19 bytes"},
		"text that begins like one":  {[]byte(magic + "is what my file begins with"), "its MD5 sum is "},
		"a bit flipped":              {broken, "its MD5 sum is "},
		"a bit of the sum flipped":   {append(bytes.Clone(whole[:len(whole)-1]), whole[len(whole)-1]^1), "its MD5 sum is "},
		"cut":                        {whole[:len(whole)-5], "its MD5 sum is "},
		"more behind":                {append(bytes.Clone(whole), 0), "its MD5 sum is "},
		"empty":                      {sealed(nil), "it holds no user records"},
		"a table only":               {sealed([]byte(field(1, "k"))), "it holds no user records"},
		"message cut":                {sealed([]byte(good[:len(good)-1])), "it is no AggregatedRecord: a field goes beyond the end"},
		"field number 0":             {sealed([]byte(good + "\x02\x00")), "it is no AggregatedRecord: it has a field that protobuf does not allow"},
		"field number 2^29":          {sealed([]byte(good + number(1<<29, 0))), "it is no AggregatedRecord: it has a field that protobuf does not allow"},
		"the same in a record":       {sealed([]byte(good + field(3, number(1, 0)+field(3, "x")+number(1<<29, 0)))), "user record 1: it is no AggregatedRecord: it has a field that protobuf does not allow"},
		"type 7":                     {sealed([]byte(good + "\x0f\x00")), "it is no AggregatedRecord: it has a field that protobuf does not allow"},
		"end of a group":             {sealed([]byte(good + "\x0c")), "it is no AggregatedRecord: it has a field that protobuf does not allow"},
		"a length beyond the end":    {sealed([]byte(good + "\x1a\xff\xff\xff\xff\x0f")), "it is no AggregatedRecord: a field goes beyond the end"},
		"an index too large":         {sealed([]byte(good + field(3, number(1, 1)+field(3, "x")))), "user record 1: its partition key has index 1, want less than 1"},
		"the largest index":          {sealed([]byte(good + field(3, number(1, 1<<64-1)+field(3, "x")))), "user record 1: its partition key has index 18446744073709551615, want less than 1"},
		"no table":                   {sealed([]byte(field(3, number(1, 0)+field(3, "x")))), "user record 0: its partition key has index 0, want less than 0"},
		"an explicit index":          {sealed([]byte(good + field(3, number(1, 0)+number(2, 0)+field(3, "x")))), "user record 1: its explicit hash key has index 0, want less than 0"},
		"an explicit key of letters": {sealed([]byte(field(2, "1e3") + good + field(3, number(1, 0)+number(2, 0)+field(3, "x")))), `user record 1: its explicit hash key is "1e3", want decimal digits`},
		"an explicit key of 2^128":   {sealed([]byte(field(2, "340282366920938463463374607431768211456") + good + field(3, number(1, 0)+number(2, 0)+field(3, "x")))), "user record 1: its explicit hash key is "},
		"no partition key":           {sealed([]byte(good + field(3, number(2, 0)+field(3, "x")))), "user record 1: it has no partition key"},
		"no data":                    {sealed([]byte(good + field(3, number(1, 0)+number(2, 0)))), "user record 1: it has no data"},
		"an empty user record":       {sealed([]byte(good + field(3, ""))), "user record 1: 0 bytes, want at least 4"},
		"a user record that is cut":  {sealed([]byte(good + field(3, number(1, 0)+"\x1a\x05xx"))), "user record 1: it is no AggregatedRecord: a field goes beyond the end"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, shard := range []hashkey.Range{{}, hashkey.Full(), {End: hashkey.Max, Start: hashkey.Key{Lo: 1}, Known: true}} {
				page := []processor.Record{came("1", []byte("a")), came("2", whole), came("3", c.data), came("4", whole), came("5", []byte("b"))}
				without := Expand([]processor.Record{page[0], page[1], page[3], page[4]}, shard)
				got := Expand(page, shard)
				if got.Damaged != 1 || got.Err == nil || got.Aggregates != 2 || got.Users != without.Users {
					t.Fatalf("%d damaged (%v), %d aggregates, %d user records; want 1, 2 and %d", got.Damaged, got.Err, got.Aggregates, got.Users, without.Users)
				}
				at := len(without.Records)/2 + len(without.Records)%2
				raw := got.Records[at]
				want := came("3", c.data)
				want.Err = got.Err
				if diff := cmp.Diff(want, raw, cmp.Comparer(sameError)); diff != "" {
					t.Errorf("the damaged record (-want +got):\n%s", diff)
				}
				if text := raw.Err.Error(); !strings.Contains(text, c.want) || !strings.Contains(text, " at 3: ") {
					t.Errorf("error is %q, want %q in it", text, c.want)
				}
				rest := append(append([]processor.Record(nil), got.Records[:at]...), got.Records[at+1:]...)
				if diff := cmp.Diff(without.Records, rest); diff != "" {
					t.Errorf("the others, beside no damage and beside it:\n%s", diff)
				}
			}
		})
	}
}

func TestExpand_doesNotOpenAnAggregateInAnAggregate(t *testing.T) {
	t.Parallel()
	inner := aggregate(t, UserRecord{"in", "", []byte("x")})
	data := aggregate(t, UserRecord{"k", "", []byte("before")}, UserRecord{"k", "", inner}, UserRecord{"k", "", []byte(magic + "by chance, no sum")})
	got := Expand([]processor.Record{came("7", data)}, hashkey.Full())
	if got.Damaged != 1 || got.Users != 3 || len(got.Records) != 3 {
		t.Fatalf("%d damaged, %d user records, %d records; want 1, 3, 3", got.Damaged, got.Users, len(got.Records))
	}
	r := got.Records[1]
	if r.Err == nil || !bytes.Equal(r.Data, inner) || r.SubSequenceNumber != 1 || got.Records[0].Err != nil || got.Records[2].Err != nil {
		t.Errorf("records %+v, want the second with its bytes and an error", got.Records)
	}
	if want := "user record 1 of the aggregate at 7 is an aggregate itself, want data"; r.Err.Error() != want {
		t.Errorf("error is %q, want %q", r.Err, want)
	}
}

// Only the first shard's keys stay, with the indexes that they have in the aggregate.
func TestExpand_leavesOutWhatIsAnotherShards(t *testing.T) {
	t.Parallel()
	shard, err := hashkey.ParseRange("1000", hashkey.Of("in").String())
	if err != nil {
		t.Fatal(err)
	}
	var beyond string // a key above the range
	for _, k := range []string{"a", "b", "c", "d", "e"} {
		if !shard.Contains(hashkey.Of(k)) {
			beyond = k
		}
	}
	data := aggregate(t,
		UserRecord{"in", "", []byte("0 hash is the last key of the range")},
		UserRecord{beyond, "", []byte("1 hash beyond")},
		UserRecord{beyond, "1000", []byte("2 explicit, the first key of the range")},
		UserRecord{"in", "999", []byte("3 explicit, one below")},
		UserRecord{"in", "", []byte("4")},
		UserRecord{"in", hashkey.Max.String(), []byte("5 explicit, beyond")},
	)
	got := Expand([]processor.Record{came("1", data)}, shard)
	var kept []int64
	for _, r := range got.Records {
		kept = append(kept, r.SubSequenceNumber)
		if int64(r.Data[0]-'0') != r.SubSequenceNumber {
			t.Errorf("user record %d has data %q", r.SubSequenceNumber, r.Data)
		}
	}
	if diff := cmp.Diff([]int64{0, 2, 4}, kept); diff != "" || got.Outside != 3 || got.Users != 3 || got.Damaged != 0 {
		t.Errorf("%d outside, %d inside, %d damaged, want 3, 3, 0; indexes (-want +got):\n%s", got.Outside, got.Users, got.Damaged, diff)
	}
	for _, all := range []hashkey.Range{{}, hashkey.Full()} {
		if got := Expand([]processor.Record{came("1", data)}, all); len(got.Records) != 6 || got.Outside != 0 {
			t.Errorf("range %v: %d records, %d outside, want 6 and 0", all, len(got.Records), got.Outside)
		}
	}
}

// An aggregate of which nothing is ours leaves nothing: not the raw record either.
func TestExpand_ofAnAggregateForAnotherShardIsEmpty(t *testing.T) {
	t.Parallel()
	data := aggregate(t, UserRecord{"k", "5", []byte("x")})
	got := Expand([]processor.Record{came("1", data)}, hashkey.Range{Start: hashkey.Key{Lo: 6}, End: hashkey.Max, Known: true})
	if len(got.Records) != 0 || got.Outside != 1 || got.Aggregates != 1 || got.Damaged != 0 {
		t.Errorf("page %+v, want no records, 1 outside", got)
	}
}

func TestExpand_slicesDataAndDoesNotCopyIt(t *testing.T) {
	t.Parallel()
	data := aggregate(t, UserRecord{"k", "", []byte("one")}, UserRecord{"k", "", []byte("two")})
	got := Expand([]processor.Record{came("1", data)}, hashkey.Full()).Records
	if at := bytes.Index(data, []byte("one")); &got[0].Data[0] != &data[at] {
		t.Error("the user record's data is a copy")
	}
	got[0].Data = append(got[0].Data, "and more"...)
	if string(got[1].Data) != "two" {
		t.Errorf("after something was appended to the first user record the second one is %q, want two", got[1].Data)
	}
}

// 10 MiB is the largest record that Kinesis stores.
func TestExpand_takesTenMebibytes(t *testing.T) {
	t.Parallel()
	const limit = 10 << 20
	smallest := field(3, number(1, 0)+field(3, ""))
	many := []byte(field(1, "k") + strings.Repeat(smallest, (limit-len(magic)-md5.Size-3)/len(smallest)))
	large := make([]byte, limit-100)
	for name, c := range map[string]struct {
		data []byte
		want int
	}{
		"of one user record":        {aggregate(t, UserRecord{"k", "", large}), 1},
		"of as many as it can hold": {sealed(many), (len(many) - 3) / len(smallest)},
	} {
		got := Expand([]processor.Record{came("1", c.data)}, hashkey.Range{End: hashkey.Max, Start: hashkey.Key{Lo: 1}, Known: true})
		if len(got.Records) != c.want || got.Damaged != 0 {
			t.Errorf("%s: %d records, %d damaged, want %d and 0", name, len(got.Records), got.Damaged, c.want)
		}
	}
	garbage := []byte(magic + strings.Repeat("\x1a\x00", limit/2-len(magic)))
	if got := Expand([]processor.Record{came("1", garbage)}, hashkey.Full()); got.Damaged != 1 || len(got.Records) != 1 {
		t.Errorf("10 MiB of garbage: %d records, %d damaged, want the one as it came", len(got.Records), got.Damaged)
	}
}

func TestAggregate_refusesWhatKinesisWouldRefuse(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 256)
	if _, err := Aggregate(UserRecord{PartitionKey: long, ExplicitHashKey: hashkey.Max.String()}); err != nil {
		t.Errorf("a key of 256 characters: %v", err)
	}
	for want, records := range map[string][]UserRecord{
		"aggregate user records: there are none":                                                 nil,
		"aggregate user record 1 of 2: partition key has 0 characters, want 1 to 256 of UTF-8":   {{PartitionKey: "k"}, {}},
		"aggregate user record 0 of 1: partition key has 257 characters, want 1 to 256 of UTF-8": {{PartitionKey: long + "a"}},
		"aggregate user record 0 of 1: partition key has 1 characters, want 1 to 256 of UTF-8":   {{PartitionKey: "\xff"}},
		`aggregate user record 0 of 1: explicit hash key is "-1", want decimal digits`:           {{PartitionKey: "k", ExplicitHashKey: "-1"}},
	} {
		if data, err := Aggregate(records...); err == nil || err.Error() != want || data != nil {
			t.Errorf("error is %v, want %s", err, want)
		}
	}
}
