package leases

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/hashkey"
	"github.com/shardlease/shardlease/internal/golden"
)

const (
	ordersID = "123456789012:orders:1680616058"
	billsID  = "123456789012:bills:1680616059"
)

func TestStreamTable_isTheStreamsPartOfTheTable(t *testing.T) {
	t.Parallel()
	s := newTableSetup(t, nil)
	if err := s.table.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	orders, bills := s.table.OfStream(ordersID), s.table.OfStream(billsID)
	for _, table := range []*StreamTable{orders, bills} {
		if made, err := table.Create(t.Context(), Lease{Key: "shardId-1", Checkpoint: checkpoint.TrimHorizon, HashKeyRange: hashkey.Full()}); err != nil || !made {
			t.Fatalf("create: %t, %v", made, err)
		}
	}
	if made, err := orders.Create(t.Context(), Lease{Key: "shardId-1", Checkpoint: checkpoint.Latest}); err != nil || made {
		t.Errorf("create a row that is there: %t, %v", made, err)
	}
	if err := orders.UpdateMetadata(t.Context(), "shardId-1", Metadata{ChildShardIDs: []string{"shardId-2"}}); err != nil {
		t.Error(err)
	}
	l, there, err := orders.Get(t.Context(), "shardId-1")
	if err != nil || !there {
		t.Fatalf("get: %t, %v", there, err)
	}
	want := Lease{
		Key: "shardId-1", Checkpoint: checkpoint.TrimHorizon, HashKeyRange: hashkey.Full(), EntityType: "LEASE",
		ChildShardIDs: []string{"shardId-2"}, StreamName: ordersID, ShardID: "shardId-1",
	}
	if d := cmp.Diff(want, l); d != "" {
		t.Errorf("the row (-want +got)\n%s", d)
	}
	all, err := orders.List(t.Context())
	if d := cmp.Diff([]Lease{want}, all.Leases); d != "" || err != nil {
		t.Errorf("the stream's rows, %v (-want +got)\n%s", err, d)
	}
	if global, _, err := s.table.Get(t.Context(), orders.Key("shardId-1")); err != nil || global.Shard() != "shardId-1" || global.Stream() != ordersID {
		t.Errorf("in the whole table: %+v, %v", global, err)
	}
	if err := orders.Delete(t.Context(), l); err != nil {
		t.Error(err)
	}
	if _, there, _ := orders.Get(t.Context(), "shardId-1"); there {
		t.Error("a deleted row is there")
	}
	if _, there, _ := bills.Get(t.Context(), "shardId-1"); !there {
		t.Error("the other stream's row of that shard is gone")
	}
}

// What Java writes for several streams is what we write, attribute by attribute.
func TestStreamTable_writesRowsAsJavaDoes(t *testing.T) {
	t.Parallel()
	rows := 0
	for _, g := range golden.Rows(t) {
		if !strings.HasPrefix(g.Stage, "multi-stream") || g.Table != "APP" {
			continue
		}
		java := parseRow(t, g.Item)
		if entity, _ := entityOf(java); entity != entityLease {
			continue
		}
		l, err := (decoder{}).decode(java)
		if err != nil {
			t.Fatal(err)
		}
		if !StreamKeys.has(l) || ShardKeys.has(l) {
			t.Errorf("the key %s is not taken for one of several streams", l.Key)
		}
		if _, err := config.ParseStreamIdentifier(l.Stream()); err != nil || l.Key != l.Stream()+":"+l.Shard() {
			t.Errorf("row %s: stream %q, shard %q, %v", l.Key, l.Stream(), l.Shard(), err)
		}
		table := (&Table{}).OfStream(l.Stream())
		local := table.Local(l)
		local.StreamName, local.ShardID = "", ""
		again := local
		again.StreamName, again.ShardID, again.Key = l.Stream(), local.Key, table.Key(local.Key)
		if d := cmp.Diff(printRow(java), printRow(encode(again))); d != "" {
			t.Errorf("row %s (-java +ours)\n%s", l.Key, d)
		}
		rows++
	}
	if rows < 9 {
		t.Errorf("%d recorded rows of several streams", rows)
	}
}

func TestSharedListing_isOneForAllWhoWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSharedListing()
		var listings atomic.Int32
		list := func(context.Context) (Listing, error) {
			n := listings.Add(1)
			time.Sleep(time.Second)
			return Listing{Rows: int(n)}, nil
		}
		got := make(chan int, 20)
		ask := func() {
			sum, _, err := s.list(t.Context(), list)
			if err != nil {
				t.Error(err)
			}
			got <- sum.Rows
		}
		go ask()
		synctest.Wait() // it lists
		for range 10 {
			go ask()
		}
		if n := <-got; n != 1 {
			t.Errorf("the first got listing %d", n)
		}
		for range 10 {
			if n := <-got; n != 2 { // the first began before they asked
				t.Errorf("one that waited got listing %d, want the second", n)
			}
		}
		ask()
		if n := <-got; n != 3 {
			t.Errorf("one that came later got listing %d, want a new one", n)
		}
		failing := func(context.Context) (Listing, error) { return Listing{}, errors.New("no") }
		if _, _, err := s.list(t.Context(), failing); err == nil {
			t.Error("an error is hidden")
		}
		ended, end := context.WithCancel(t.Context())
		go ask()
		synctest.Wait()
		end()
		if _, _, err := s.list(ended, list); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v of a listing whose context has ended", err)
		}
		<-got
	})
}

func TestKeys_ofTheOtherFormAreRefusedAtTheStartAndLeftOutLater(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		keys        Keys
		own, other  string
		wantInError []string
	}{
		"one stream": {ShardKeys, "shardId-1", ordersID + ":shardId-1", []string{
			`lease table leases holds 1 leases with keys of the other form, "` + ordersID + `:shardId-1"`, shardKeyForm, streamKeyForm,
		}},
		"several": {StreamKeys, ordersID + ":shardId-1", "shardId-1", []string{`"shardId-1"`, shardKeyForm, streamKeyForm}},
		"several, and attributes that disagree": {StreamKeys, ordersID + ":shardId-1", "0:a:1:shardId-9", []string{
			`"0:a:1:shardId-9"`, "attributes streamName and shardId contradict",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var skipped []string
			s := newTableSetup(t, nil)
			table := NewTable(s.client, s.table.cfg, TableOptions{Keys: c.keys, Hooks: &config.Hooks{
				LeaseSkipped: func(e config.LeaseEvent) { skipped = append(skipped, e.LeaseKey) },
			}})
			if err := table.Ensure(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := table.Create(t.Context(), Lease{Key: c.own, Checkpoint: checkpoint.TrimHorizon}); err != nil {
				t.Fatal(err)
			}
			if _, err := table.List(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := table.Create(t.Context(), Lease{Key: c.other, Checkpoint: checkpoint.TrimHorizon, StreamName: streamIf(name, "disagree")}); err != nil {
				t.Fatal(err)
			}
			_, err := table.List(t.Context())
			if _, is := errors.AsType[*MixedKeysError](err); !is {
				t.Fatalf("a listing of both forms: %v, want a MixedKeysError", err)
			}
			for _, want := range c.wantInError {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error says %q, want %q in it", err, want)
				}
			}
			table.LeaveOtherKeysOut()
			for range 3 {
				sum, err := table.List(t.Context())
				if err != nil || len(sum.Leases) != 1 || sum.Leases[0].Key != c.own || sum.OtherKeys != 1 {
					t.Errorf("a later listing: %+v, %v", sum, err)
				}
			}
			if !slices.Equal(skipped, []string{c.other}) {
				t.Errorf("told of %q, want once of the row that was left out", skipped)
			}
		})
	}
}

// streamIf is a stream's identifier if a test's name says so.
func streamIf(name, word string) string {
	if strings.Contains(name, word) {
		return ordersID
	}
	return ""
}

func TestSplitKey_knowsTheTwoForms(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"shardId-000000000000":                     "",
		ordersID + ":shardId-000000000000":         ordersID,
		"1:a:0:shardId-000000000000":               "", // no epoch is 0
		"a:b:c:shardId-000000000000":               "",
		":":                                        "",
		"x:shardId-000000000000":                   "",
		"123456789012:orders:1680616058:shardId:x": "",
	} {
		if got := (Lease{Key: key}).Stream(); got != want {
			t.Errorf("the stream of key %q is %q, want %q", key, got, want)
		}
	}
}
