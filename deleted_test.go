package shardlease_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/fleettest"
	"github.com/shardlease/shardlease/processor"
)

// deleteRow deletes a row as an operator does.
func deleteRow(f *fleettest.Fleet, key string) {
	f.T.Helper()
	table := fleettest.App
	if _, err := f.DynamoDB.DeleteItem(f.T.Context(), &dynamodb.DeleteItemInput{
		TableName: &table, Key: map[string]types.AttributeValue{"leaseKey": &types.AttributeValueMemberS{Value: key}},
	}); err != nil {
		f.T.Fatal(err)
	}
}

// The row of a parent is deleted by hand when its children have leases: no worker makes it anew, neither one that starts nor the
// audit, so no token falls while a descendant lives, and nothing is read twice.
func TestRows_ofAParentDeletedByHandIsNeverMadeAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 2)
		f.Start("w0")
		w1 := f.Start("w1")
		time.Sleep(20 * time.Second)
		f.Put(200, 20)
		parent := f.Open()[0]
		f.Split(parent)
		f.Put(200, 20)
		f.WaitDelivered(10 * time.Second)
		children := slices.DeleteFunc(f.Open(), func(id string) bool { return id == "shardId-000000000001" })
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			rows := f.Rows()
			if rows[parent] == nil {
				t.Fatal("the parent's row was cleaned up before the test could delete it")
			}
			if end, _ := rows[parent]["checkpoint"].(*types.AttributeValueMemberS); end != nil && end.Value == "SHARD_END" &&
				rows[children[0]]["leaseOwner"] != nil && rows[children[1]]["leaseOwner"] != nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("rows %v", rows)
			}
		}
		var created atomic.Int64
		f.Server.Inject(emulator.Rule{Operation: "PutItem", Match: func([]byte) bool { created.Add(1); return false }})
		deleteRow(f, parent)
		tokens := map[string]int64{}
		for _, c := range children {
			tokens[c] = f.Audit.Token(c)
		}
		if err := w1.Stop(); err != nil {
			t.Error(err)
		}
		f.Start("w2") // syncs at its start
		for range 9 {
			f.Put(20, 20)
			time.Sleep(time.Minute) // four audits, one more than a hole needs to be believed
			if f.Rows()[parent] != nil {
				t.Fatal("the parent's row is there again")
			}
		}
		f.WaitDelivered(10 * time.Second)
		if d := f.Check(); d != 0 {
			t.Errorf("%d records were delivered again, want none", d)
		}
		for _, c := range children {
			if now := f.Audit.Token(c); now < tokens[c] {
				t.Errorf("the token of %s was %d and is %d", c, tokens[c], now)
			}
		}
		if created.Load() != 0 {
			t.Errorf("%d rows were created", created.Load())
		}
	})
}

// The row of an open shard is deleted by hand. What holds then, and what does not, stands in docs/guarantees.md: nothing is lost, the
// old tenure ends within a RenewInterval and its checkpoints do not land; but the shard is read again from its start, and its
// tokens begin anew.
func TestRows_ofAnOpenShardDeletedByHandIsMadeAnewAndReadAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 2)
		var mu sync.Mutex
		ended := map[string]time.Time{}
		var kept []*checkpoint.Checkpointer
		factory := func(worker string) processor.Factory {
			usual := f.Audit.Processor(worker)
			return func(s processor.Shard) processor.RecordProcessor {
				return &keeping{RecordProcessor: usual(s), lost: func() {
					mu.Lock()
					defer mu.Unlock()
					ended[s.ID] = time.Now()
				}, keep: func(c *checkpoint.Checkpointer) {
					mu.Lock()
					defer mu.Unlock()
					if s.ID == "shardId-000000000000" {
						kept = append(kept, c)
					}
				}}
			}
		}
		first := f.StartWith("w0", factory("w0"))
		time.Sleep(2 * time.Minute)
		w := f.StartWith("w1", factory("w1"))
		if err := first.Stop(); err != nil { // so that the token is one that a new row will not soon see
			t.Error(err)
		}
		f.Put(40, 20)
		f.WaitDelivered(10 * time.Second)
		const key = "shardId-000000000000"
		before := f.Audit.Token(key)
		mu.Lock()
		old := kept[len(kept)-1]
		mu.Unlock()
		at := time.Now()
		deleteRow(f, key)
		time.Sleep(4 * time.Second)
		mu.Lock()
		if ended[key].IsZero() || ended[key].Sub(at) > 3400*time.Millisecond {
			t.Errorf("the old tenure ended at %v, the row was deleted at %v; want at most a RenewInterval between", ended[key], at)
		}
		mu.Unlock()
		if err := old.Checkpoint(t.Context()); !errors.Is(err, checkpoint.ErrLeaseLost) {
			t.Errorf("the old tenure's checkpoint: %v, want lease lost", err)
		}
		for f.Rows()[key] == nil && time.Since(at) < time.Hour {
			time.Sleep(time.Second)
		}
		took := time.Since(at)
		if confirmed := 4 * 2 * time.Minute; took > confirmed {
			t.Errorf("the row was made anew after %v, want within %v", took, confirmed)
		}
		f.Put(40, 20)
		f.WaitDelivered(time.Minute)
		if d := f.Check(); d == 0 {
			t.Error("nothing was read again: the document is out of date")
		}
		for _, a := range w.Assignments() {
			if a.LeaseKey == key {
				t.Logf("made anew after %v; token %d, before %d", took, a.Token, before)
				if a.Token >= before {
					t.Errorf("token %d after %d: the document is out of date", a.Token, before)
				}
			}
		}
	})
}

// keeping remembers checkpointers and the end of tenures.
type keeping struct {
	processor.RecordProcessor
	keep func(*checkpoint.Checkpointer)
	lost func()
}

func (k *keeping) ProcessRecords(ctx context.Context, in processor.ProcessRecordsInput) error {
	k.keep(in.Checkpointer)
	return k.RecordProcessor.ProcessRecords(ctx, in)
}

func (k *keeping) LeaseLost(ctx context.Context, in processor.LeaseLostInput) {
	k.lost()
	k.RecordProcessor.LeaseLost(ctx, in)
}

// A process that hangs while another with its worker id starts: the newer one has the leases at once, without waiting until
// they are stale. When the older one goes on, its checkpoints do not land and its Run ends with an error that names both.
func TestRun_aProcessThatHungWhileAnotherTookItsIDMovesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 4)
		f.Put(100, 10)
		var refused, landed atomic.Int64
		var hangs, newer atomic.Bool
		release := make(chan struct{})
		older := f.StartWith("same", func(s processor.Shard) processor.RecordProcessor {
			return &hanging{RecordProcessor: f.Audit.Processor("same")(s), hangs: &hangs, release: release, tried: func(err error) {
				switch {
				case errors.Is(err, checkpoint.ErrLeaseLost):
					refused.Add(1)
				case err == nil && newer.Load():
					landed.Add(1)
				}
			}}
		})
		<-older.Ready()
		f.WaitDelivered(10 * time.Second)
		hangs.Store(true)
		f.Put(100, 10)
		time.Sleep(2 * time.Second) // its processors hang with a batch in hand
		thaw := f.Server.Inject(emulator.Rule{Client: "same", Effect: emulator.Freeze()})
		began := time.Now()
		w, tokens := f.StartAs("other-client", "same"), map[string]int64{}
		for len(w.Assignments()) < 4 {
			time.Sleep(10 * time.Millisecond)
			if time.Since(began) > 5*time.Second {
				t.Fatalf("the newer process holds %d leases after 5s, want all 4 without waiting until they are stale", len(w.Assignments()))
			}
		}
		t.Logf("regained after %v", time.Since(began))
		newer.Store(true)
		for _, a := range w.Assignments() {
			tokens[a.LeaseKey] = a.Token
		}
		close(release)
		thaw()
		err := older.Wait()
		if took := time.Since(began); err == nil || took > 10*time.Second {
			t.Errorf("the older Run returned %v after %v, want an error", err, took)
		}
		requireBothProcesses(t, err)
		if refused.Load() == 0 || landed.Load() != 0 {
			t.Errorf("checkpoints of the older process: %d landed, %d were refused; want none to land and some to be tried", landed.Load(), refused.Load())
		}
		f.Put(100, 10)
		f.WaitDelivered(10 * time.Second)
		for _, a := range w.Assignments() {
			if a.Token != tokens[a.LeaseKey] {
				t.Errorf("the newer process lost %s on the way", a.LeaseKey)
			}
		}
		f.Check()
	})
}

// hanging processes nothing while it hangs, and then goes on with the batch in hand.
type hanging struct {
	processor.RecordProcessor
	hangs   *atomic.Bool
	release chan struct{}
	tried   func(error)
}

func (h *hanging) ProcessRecords(ctx context.Context, in processor.ProcessRecordsInput) error {
	if h.hangs.Load() {
		<-h.release
		err := in.Checkpointer.Checkpoint(context.WithoutCancel(ctx))
		h.tried(err)
		return err
	}
	err := h.RecordProcessor.ProcessRecords(ctx, in)
	return err
}
