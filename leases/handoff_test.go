package leases

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/internal/golden"
)

// The two writes of a hand-off that Java knows do to a row's own attributes what the recorded ones did.
func TestHandoff_changesWhatKCLChanges(t *testing.T) {
	t.Parallel()
	s := newTableSetup(t, nil)
	held := s.held(t)
	raw := func() item {
		out, err := s.client.GetItem(t.Context(), &dynamodb.GetItemInput{
			TableName: aws.String("leases"), Key: item{attrKey: str(held.Key)}, ConsistentRead: aws.Bool(true),
		})
		if err != nil {
			t.Fatal(err)
		}
		delete(out.Item, attrTenure) // ours alone
		delete(out.Item, attrHandoffTo)
		return out.Item
	}
	compared := func(purpose string, do func() error) {
		t.Helper()
		want, found := raw(), false
		for _, step := range golden.Traces(t) {
			if step.Trace != "graceful handoff" || step.Purpose != purpose || step.Status != 200 {
				continue
			}
			found = true
			var body struct {
				AttributeUpdates map[string]struct {
					Action types.AttributeAction
					Value  struct{ S, N string }
				}
			}
			if err := json.Unmarshal(step.Body, &body); err != nil {
				t.Fatal(err)
			}
			for name, u := range body.AttributeUpdates {
				switch u.Action {
				case types.AttributeActionDelete:
					delete(want, name)
				case types.AttributeActionAdd:
					n := want[name].(*types.AttributeValueMemberN)
					was, _ := strconv.ParseInt(n.Value, 10, 64)
					more, _ := strconv.ParseInt(u.Value.N, 10, 64)
					want[name] = number(was + more)
				case types.AttributeActionPut:
					want[name] = str(u.Value.S) // w1 is who had it, w2 who gets it, as here
				}
			}
			break
		}
		if !found {
			t.Fatalf("no %q was recorded", purpose)
		}
		if err := do(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, raw(), cmp.Comparer(func(a, b types.AttributeValue) bool { return describe(a) == describe(b) })); diff != "" {
			t.Errorf("%s (-as KCL +as here):\n%s", purpose, diff)
		}
	}
	mark := held
	compared("start graceful handoff", func() (err error) {
		mark, err = s.table.StartHandoff(t.Context(), held, "w2")
		return err
	})
	compared("assign: finish or override a handoff", func() error {
		_, err := s.table.CompleteHandoff(t.Context(), mark, s.me)
		return err
	})
}

// Every write of Table, hand-offs among them, does to a row what the drawing of its life shows, and those that it does not
// show fail.
func TestHandoff_followsTheLifeOfARow(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(b *bubble) {
		random := rand.New(rand.NewPCG(5, 6))
		done := map[string]int{}
		number := 0
		var me Tenure // the last that took the row or was given it, and what it believes to hold
		var held Lease
		for range 3000 {
			row, found, err := b.table.Get(b.ctx, shardKey(0))
			if err != nil {
				t.Fatal(err)
			}
			if !found {
				row = Lease{}
			}
			w := []rowWrite{
				writeCreate, writeTake, writeRenew, writeRenew, writeRenew, writeCheckpoint, writeAsk, writeAsk, writeAsk, writeComplete, writeComplete, writeComplete, writeRelease,
			}[random.IntN(13)]
			if random.IntN(40) == 0 {
				w = []rowWrite{writeEnd, writeDelete}[random.IntN(2)]
			}
			if me.Nonce == "" && w != writeCreate && w != writeTake && w != writeDelete {
				continue // who never held it has nothing to write
			}
			if row.InTransit() && (w == writeRenew || w == writeRelease) { // to whom it was handed over
				me, held = Tenure{Worker: row.Owner, Nonce: fmt.Sprint("h/1/r/t", number), Failover: 10 * second}, row
			}
			want, can := nextRow(row.State(), w)
			seen := row
			seen.Key = shardKey(0)
			number++
			place := at(number)
			var after Lease
			switch w {
			case writeCreate:
				var created bool
				if created, err = b.table.Create(b.ctx, Lease{Key: seen.Key, Checkpoint: checkpoint.TrimHorizon}); !created {
					err = errors.New("there is a row")
				}
			case writeTake:
				next := Tenure{Worker: fmt.Sprint("w", number%3), Nonce: fmt.Sprint("h/1/r/", number), Failover: 10 * second}
				var wrote Written
				if wrote, err = b.table.Take(b.ctx, seen, next); err == nil {
					me, after = next, wrote.Lease
				}
			case writeRenew:
				var wrote Written
				wrote, err = b.table.Renew(b.ctx, held, me, Renewal{})
				after = wrote.Lease
			case writeCheckpoint:
				var wrote Written
				wrote, err = b.table.Update(b.ctx, held, me, Update{Checkpoint: &place})
				after = wrote.Lease
			case writeEnd:
				var wrote Written
				wrote, err = b.table.Update(b.ctx, held, me, Update{Checkpoint: &checkpoint.ShardEnd})
				after = wrote.Lease
			case writeAsk:
				_, err = b.table.StartHandoff(b.ctx, seen, "asker")
				if me.Worker == "asker" && can {
					can, want = false, row.State()
				}
			case writeComplete:
				// As it is learnt, by a renewal: the mark alone, on what is held.
				mark := held
				mark.Owner, mark.CheckpointOwner, mark.HandoffTo = row.Owner, row.CheckpointOwner, row.HandoffTo
				can = can && row.CheckpointOwner != "" // an ended row may have been asked for or not
				_, err = b.table.CompleteHandoff(b.ctx, mark, me)
			case writeRelease:
				err = b.table.Evict(b.ctx, held, me)
				can = can && !row.MarkIsLive() // nor may an ended one
			case writeDelete:
				err = b.table.Delete(b.ctx, seen)
			}
			if err == nil && after.Key != "" {
				held = after
			}
			if (err == nil) != can && !idleWrite(row, w) {
				t.Fatalf("%v of a row that is %v: error %v, want success %t; row %+v, held %+v", w, row.State(), err, can, row, held)
			}
			if err == nil {
				done[row.State().String()+" "+w.String()]++
			}
			now, found, err := b.table.Get(b.ctx, seen.Key)
			if err != nil {
				t.Fatal(err)
			}
			if !found {
				now = Lease{}
			}
			if now.State() != want {
				t.Fatalf("%v of a row that was %v leaves it %v, want %v", w, row.State(), now.State(), want)
			}
		}
		for _, step := range []string{"owned ask", "handing over renew", "handing over checkpoint", "handing over complete", "in transit renew", "in transit release", "in transit take", "handing over end", "ended complete"} {
			if done[step] == 0 {
				t.Errorf("no walk came by %q: %v", step, done)
			}
		}
	})
}

// idleWrite reports whether a write would change nothing, so that it may succeed or fail: deleting what is gone, releasing or
// handing over again, any write of a former owner on an ended row that was given up.
func idleWrite(row Lease, w rowWrite) bool {
	switch row.State() {
	case RowAbsent:
		return w == writeDelete
	case RowUnowned:
		return w == writeRelease
	case RowInTransit:
		return w == writeComplete
	case RowEnded:
		return w != writeCreate && w != writeAsk && w != writeTake && w != writeDelete
	case RowOwned, RowHandingOver:
	}
	return false
}

func TestStartHandoff_saysWhyALeaseIsNotAskedFor(t *testing.T) {
	t.Parallel()
	tenure := func(worker string) *Tenure { return &Tenure{Worker: worker, Nonce: "n", At: 4} }
	for want, row := range map[string]Lease{
		"there is no row":                       {},
		"nobody owns it":                        {Key: "s", Counter: 4, Tenure: tenure("a")},
		"":                                      {Key: "s", Owner: "a", Counter: 4, Tenure: tenure("a")},
		`its owner is "a", a Java worker`:       {Key: "s", Owner: "a", Counter: 5, Tenure: tenure("a")},
		`its owner is "j", a Java worker`:       {Key: "s", Owner: "j", Counter: 5, CheckpointOwner: "a", HandoffTo: "b", Tenure: tenure("a")},
		`"me" owns it already`:                  {Key: "s", Owner: "me", Counter: 4, Tenure: tenure("me")},
		`"b" has asked for it already`:          {Key: "s", Owner: "b", CheckpointOwner: "a", HandoffTo: "b", Counter: 4, Tenure: tenure("a")},
		`"a" has handed it over to "b" already`: {Key: "s", Owner: "b", HandoffTo: "b", Counter: 4, Tenure: tenure("a")},
		"the shard has been read to its end":    {Key: "s", Owner: "a", Counter: 4, Tenure: tenure("a"), Checkpoint: checkpoint.ShardEnd},
		`the last write is "a"'s, but the row names "a" as owner and "a" as checkpointOwner`: {Key: "s", Owner: "a", CheckpointOwner: "a", Counter: 4, Tenure: tenure("a")},
		`the last write is "a"'s, but the row names "b" as owner and "" as checkpointOwner`:  {Key: "s", Owner: "b", Counter: 4, Tenure: tenure("a")},
	} {
		if why := notToBeAsked(row, "me"); why != want {
			t.Errorf("%+v: %q, want %q", row, why, want)
		}
	}
}

func TestHandoff_errorsNameTheRow(t *testing.T) {
	t.Parallel()
	s := newTableSetup(t, nil)
	held := s.held(t)
	_, err := s.table.CompleteHandoff(t.Context(), held, s.me)
	want := `hand over lease shardId-1: nobody has asked for it (leaseOwner "w1", checkpointOwner "", handoffTo "", counter 1)`
	if err == nil || err.Error() != want {
		t.Errorf("error is\n%v, want\n%s", err, want)
	}
	_, err = s.table.StartHandoff(t.Context(), held, "w1")
	want = `ask for lease shardId-1: lease lost: "w1" owns it already`
	if err == nil || err.Error() != want {
		t.Errorf("error is\n%v, want\n%s", err, want)
	}
}
