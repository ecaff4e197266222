package kinesis

import (
	"encoding/json"
	"math/big"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

// FuzzService throws bodies at every operation: each gets an answer or a modelled error, and the service goes on.
func FuzzService(f *testing.F) {
	for name := range operations {
		f.Add(name, []byte(`{}`))
		f.Add(name, []byte(`{"StreamName":"orders"}`))
		f.Add(name, []byte(`{"StreamName":"orders","ShardId":"shardId-000000000000","ShardIteratorType":"TRIM_HORIZON"}`))
	}
	f.Add("PutRecords", []byte(`{"StreamName":"orders","Records":[{"PartitionKey":"a","Data":"aGk=","ExplicitHashKey":"7"}]}`))
	f.Add("PutRecord", []byte(`{"StreamName":"orders","PartitionKey":"a","Data":"aGk="}`))
	f.Add("SplitShard", []byte(`{"StreamName":"orders","ShardToSplit":"shardId-000000000000","NewStartingHashKey":"100"}`))
	f.Add("ListShards", []byte(`{"NextToken":"eyJTdHJlYW0iOiJvcmRlcnMifQ=="}`))
	f.Add("ListShards", []byte(`{"StreamName":"orders","ShardFilter":{"Type":"AT_TIMESTAMP","Timestamp":1e9}}`))
	f.Add("SubscribeToShard", []byte(`{"ConsumerARN":"a/consumer/b","ShardId":"x","StartingPosition":{"Type":"LATEST"}}`))
	f.Fuzz(func(t *testing.T, name string, body []byte) {
		k := New(Config{})
		if err := k.CreateStream("orders", 2); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			r := httptest.NewRequestWithContext(t.Context(), "POST", "/", nil)
			r.Body = wire.NewBody(body)
			r.Header.Set("X-Amz-Target", "Kinesis_20131202."+name)
			w := httptest.NewRecorder()
			k.ServeHTTP(w, r)
			if w.Code == 200 {
				if w.Body.Len() > 0 && !json.Valid(w.Body.Bytes()) {
					t.Errorf("answer is no JSON: %s", w.Body)
				}
				continue
			}
			var e struct {
				Type    string `json:"__type"`
				Message string `json:"message"`
			}
			if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || e.Type == "" || e.Message == "" || w.Code >= 500 {
				t.Errorf("status %d with %s, want a modelled error", w.Code, w.Body)
			}
		}
	})
}

// FuzzPutRecords holds the hand-written decoder against encoding/json.
func FuzzPutRecords(f *testing.F) {
	f.Add([]byte(`{"StreamName":"s","Records":[{"PartitionKey":"a\"ü😀","Data":"aGk=","ExplicitHashKey":"7"},{"PartitionKey":"b","Data":""}]}`))
	f.Add([]byte(`{"StreamARN":null,"Records":[null,{"Data":null}]}`))
	f.Add([]byte(`{"Records":[{"":null}]}`))
	f.Add([]byte(` { "Records" : [ ] } `))
	f.Add([]byte(`{"Records":[{"PartitionKey":"\ud800","Data":"aGk"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		// The same fields without the methods.
		var want struct {
			streamRef
			Records []putEntry
		}
		wantErr := wire.JSON11.Unmarshal(body, &want)
		var got putRecordsInput
		gotErr := wire.JSON11.Unmarshal(body, &got)
		if gotErr != nil {
			return // it may be stricter: letter case, duplicates of another type
		}
		if wantErr != nil {
			t.Fatalf("accepted %s, which encoding/json refuses: %v", body, wantErr)
		}
		same := func(a, b putEntry) bool {
			return a.PartitionKey == b.PartitionKey && a.ExplicitHashKey == b.ExplicitHashKey && string(a.Data) == string(b.Data)
		}
		if got.streamRef != want.streamRef || !slices.EqualFunc(got.Records, want.Records, same) {
			t.Errorf("%s: got %+v, want %+v", body, got, want)
		}
	})
}

// FuzzIterator: what parses is what was written; nothing else does.
func FuzzIterator(f *testing.F) {
	now := time.Unix(1_700_000_000, 0)
	x := newStream(now, "orders", provisioned, 3).shards[2]
	f.Add(newIterator(now, x, 17).String())
	f.Add("AAAA")
	f.Fuzz(func(t *testing.T, s string) {
		if it, ok := parseIterator(s); ok && it.String() != s {
			again, ok := parseIterator(it.String())
			if !ok || again != it {
				t.Errorf("%q parses to %+v, which is written %q", s, it, it)
			}
		}
	})
}

// FuzzHash holds 128-bit arithmetic against math/big.
func FuzzHash(f *testing.F) {
	f.Add("0")
	f.Add("340282366920938463463374607431768211455")
	f.Add("340282366920938463463374607431768211456")
	f.Add("007")
	f.Fuzz(func(t *testing.T, s string) {
		h, err := parseHash("X", s)
		ok := err == nil
		n, isNumber := new(big.Int).SetString(s, 10)
		want := isNumber && n.Sign() >= 0 && n.BitLen() <= 128 && n.String() == s
		if ok != want {
			t.Fatalf("parseHash(%q) is %v, want %v", s, ok, want)
		}
		if !ok {
			return
		}
		if h.String() != s {
			t.Errorf("%q is written %s", s, h)
		}
		if h != maxHash && (h.next().previous() != h || h.next().compare(h) <= 0) {
			t.Errorf("neighbours of %s: %s, %s", h, h.next().previous(), h.next())
		}
	})
}
