package wire_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/aws/smithy-go/encoding/cbor"
	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

type inner struct {
	Name string `json:",omitempty"`
	Data []byte
}

type shape struct {
	inner
	Small  *int
	Number int64
	Flag   bool
	At     *wire.Time
	Tags   map[string]string
	Keys   []string
	List   []inner
	Next   *inner
}

func TestCBOR_readsWhatItWrote(t *testing.T) {
	t.Parallel()
	small := -7
	at := wire.Millis(1_700_000_000_123)
	before := wire.Millis(-5)
	for name, want := range map[string]shape{
		"empty":  {},
		"full":   {inner{"n", []byte{0, 255}}, &small, math.MinInt64 + 1, true, &at, map[string]string{"a": "ü"}, []string{"k"}, []inner{{Data: []byte{}}}, &inner{Name: "x"}},
		"limits": {Number: math.MaxInt64, At: &before},
	} {
		data, err := wire.CBOR{}.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got shape
		if err := (wire.CBOR{}).Unmarshal(data, &got); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(shape{}), cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestCBOR_writesTimesAsMillisecondsUnderTagOne(t *testing.T) {
	t.Parallel()
	data, err := wire.CBOR{}.Marshal(struct{ At wire.Time }{wire.Millis(1_700_000_000_123)})
	if err != nil {
		t.Fatal(err)
	}
	got, err := cbor.Decode(data)
	want := cbor.Map{"At": &cbor.Tag{ID: 1, Value: cbor.Uint(1_700_000_000_123)}}
	if err != nil || !cmp.Equal(cbor.Value(want), got) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}

func TestCBOR_namesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from cbor.Value
		want []string
	}{
		{cbor.Map{"Unknown": cbor.Bool(true)}, []string{`"Unknown"`}},
		{cbor.Map{"Flag": cbor.String("yes")}, []string{"Flag", "CBOR string", "bool"}},
		{cbor.Map{"Small": cbor.Float64(1)}, []string{"Small", "float64", "int"}},
		{cbor.Map{"Number": cbor.Uint(math.MaxUint64)}, []string{"Number", "integer"}},
		{cbor.Map{"Number": cbor.NegInt(0)}, []string{"Number", "integer"}},
		{cbor.Map{"Data": cbor.String("text")}, []string{"Data", "string"}},
		{cbor.Map{"Name": cbor.Slice("bytes")}, []string{"Name", "byte string"}},
		{cbor.Map{"At": cbor.String("now")}, []string{"At", "tag 1"}},
		{cbor.Map{"At": &cbor.Tag{ID: 0, Value: cbor.Uint(1)}}, []string{"At", "tag 0"}},
		{cbor.Map{"List": cbor.List{cbor.Map{"Data": cbor.Uint(1)}}}, []string{"List[0].Data"}},
		{cbor.Map{"Tags": cbor.Map{"a": cbor.Uint(1)}}, []string{"Tags.a"}},
		{cbor.List{}, []string{"list", "map"}},
		{&cbor.Nil{}, []string{"nil", "map"}},
	} {
		problem := wire.Decode(wire.CBOR{}, cbor.Encode(c.from), new(shape))
		if problem == nil || problem.Code != "SerializationException" {
			t.Errorf("%v is read: %v", c.from, problem)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(problem.Message, want) {
				t.Errorf("%v: %q, want %q in it", c.from, problem.Message, want)
			}
		}
	}
}

// FuzzCBOR: whatever comes gets a value or an error, and what is read can be written and read again.
func FuzzCBOR(f *testing.F) {
	for _, v := range []any{shape{}, shape{Tags: map[string]string{"a": "b"}, List: []inner{{Name: "x", Data: []byte("y")}}}} {
		data, err := wire.CBOR{}.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte{0xbf, 0x64, 'N', 'a', 'm', 'e', 0x7f, 0x61, 'a', 0xff, 0xff}) // a map and a string of unknown length, as Java writes
	f.Fuzz(func(t *testing.T, data []byte) {
		var got, again shape
		if err := (wire.CBOR{}).Unmarshal(data, &got); err != nil {
			return
		}
		written, err := wire.CBOR{}.Marshal(got)
		if err != nil {
			t.Fatalf("%+v: %v", got, err)
		}
		if err := (wire.CBOR{}).Unmarshal(written, &again); err != nil {
			t.Fatalf("%x of %+v: %v", written, got, err)
		}
		rewritten, err := wire.CBOR{}.Marshal(again)
		if err != nil || len(rewritten) != len(written) {
			t.Fatalf("%+v is written with %d bytes, then with %d, %v", got, len(written), len(rewritten), err)
		}
	})
}
