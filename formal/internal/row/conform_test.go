package row

import (
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/formal/internal/explore"
	"github.com/shardlease/shardlease/leases"
)

// encounter is a request and the row that it met.
type encounter struct {
	row Row
	op  Op
}

// Each request that a Go worker of the models sends, at each row that it meets there, is made through the production table
// against the emulator: the outcome, and the row that is left, must be those of the model.
func TestWrites_doWhatTheTableDoes(t *testing.T) {
	t.Parallel()
	met := map[encounter]bool{}
	models := []*Model{
		Small(),
		model("ended", 1, []Slot{a, b}, func(m *Model) { m.End, m.Losses, m.Repeats, m.Restarts = true, false, false, true }),
		model("leaving", 0, []Slot{a, b}, func(m *Model) { m.Leaves, m.Crashes, m.Repeats = true, false, false }),
		model("with Java", 0, []Slot{a, b, j2}, func(m *Model) { m.Losses, m.Repeats, m.Crashes = false, false, false }),
	}
	kinds := map[uint8]int{}
	for _, m := range models {
		m.met = func(before Row, request Op, _ Row, _ Op) {
			if request.Process != Go || request.Adopted != 0 || before.There == 0 {
				return
			}
			met[encounter{before, Op{
				Kind: request.Kind, ID: request.ID, Process: Go, Behind: request.Behind, Nonce: request.Nonce, Seen: request.Seen, Pos: request.Pos,
				To: request.To, Flags: request.Flags, State: sent,
			}}] = true
		}
		if g := explore.Run[State](m, 60_000, false); g.Broken != "" {
			t.Fatal(g.Broken)
		}
		m.met = nil
	}
	m := models[1] // whose last position is SHARD_END
	bench := newBench(t)
	for e := range met {
		if e.op.Kind == opFirst && e.op.Behind == 0 && !m.fact(&e.row).transit {
			continue
		}
		kinds[e.op.Kind]++
		bench.put(e.row, m)
		want, left := m.call(e.row, e.op)
		got := bench.call(m, e)
		if got != want {
			t.Errorf("%s by w%d, %d behind, at %s: the table says %s, the model %s", opNames[e.op.Kind], e.op.ID, e.op.Behind, e.row, got, want)
		}
		if got, want := bench.text(), textOf(m.Lease(left)); got != want {
			t.Errorf("%s by w%d, %d behind, at %s\nleaves in the table %s\nand in the model   %s", opNames[e.op.Kind], e.op.ID, e.op.Behind, e.row, got, want)
		}
	}
	for _, kind := range []uint8{opTake, opFirst, opRenew, opCheckpoint, opAsk, opComplete, opRelease} {
		if kinds[kind] == 0 {
			t.Errorf("no %s among them", opNames[kind])
		}
	}
	t.Logf("%d requests", len(met))
}

// call is one call of the table in the model, to its end, with nobody in between.
func (m *Model) call(row Row, o Op) (outcome string, left Row) {
	s := State{Row: row, Newest: o.Nonce, Highest: m.Positions}
	for {
		m.land(&s, &o, false)
		switch {
		case o.Verdict == landed:
			return "done", s.Row
		case o.Verdict != mine:
			if o.Kind == opAsk && s.Row.HandoffTo == o.ID && (m.fact(&s.Row).live || m.fact(&s.Row).transit) {
				return "done", s.Row // its own mark
			}
			return "lost", s.Row
		case o.Kind == opComplete && o.VTo == 0:
			return "not asked", s.Row
		case o.Kind == opRelease && o.VTo != 0:
			return "asked", s.Row
		case o.Kind == opCheckpoint && o.Pos < o.VPos:
			return "regress", s.Row
		}
		var p Proc
		m.again(&p, o)
		if o.Kind == opComplete {
			p.Op.To = o.VTo
		}
		o = p.Op
	}
}

type bench struct {
	*testing.T
	api   *dynamodb.Client
	table *leases.Table
	name  string
}

const key = "shardId-000000000001"

func newBench(t *testing.T) *bench {
	t.Helper()
	cfg := config.Default("formal", "stream").Complete().LeaseManagement
	api := dynamodb.NewFromConfig(emulator.New().AWSConfig())
	b := &bench{T: t, api: api, table: leases.NewTable(api, cfg, leases.TableOptions{Worker: "test"}), name: cfg.TableName}
	if err := b.table.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func numeral(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

// put makes the row what it is in the model.
func (b *bench) put(r Row, m *Model) {
	b.Helper()
	l := m.Lease(r)
	row := map[string]types.AttributeValue{
		"leaseKey": text(key), "leaseCounter": numeral(l.Counter), "checkpoint": text(l.Checkpoint.SequenceNumber),
		"checkpointSubSequenceNumber": numeral(0), "ownerSwitchesSinceCheckpoint": numeral(0), "entityType": text("LEASE"),
	}
	for name, v := range map[string]string{"leaseOwner": l.Owner, "checkpointOwner": l.CheckpointOwner, "handoffTo": l.HandoffTo} {
		if v != "" {
			row[name] = text(v)
		}
	}
	if t := l.Tenure; t != nil {
		row["tenure"] = &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{
			"worker": text(t.Worker), "nonce": text(t.Nonce), "at": numeral(t.At), "failoverMillis": numeral(10000),
			"leaving": &types.AttributeValueMemberBOOL{Value: t.Leaving},
		}}
	}
	if _, err := b.api.PutItem(b.Context(), &dynamodb.PutItemInput{TableName: &b.name, Item: row}); err != nil {
		b.Fatal(err)
	}
}

// call makes the request through the production table. What the worker knew when it sent it, it reads from the request.
func (b *bench) call(m *Model, e encounter) string {
	b.Helper()
	o, ctx := e.op, b.Context()
	me := leases.Tenure{Worker: worker(o.ID), Nonce: nonce(o.Nonce), Failover: 10_000_000_000, Leaving: o.Flags&flagLeaving != 0}
	seen := m.Lease(e.row)
	if o.Behind != 0 {
		seen = leases.Lease{Key: key, Counter: counter - int64(o.Behind), Checkpoint: m.position(0)}
	}
	held := leases.Lease{Key: key, Owner: worker(o.ID), Counter: counter - int64(o.Behind), Checkpoint: m.position(0)}
	own := me
	own.At = held.Counter
	held.Tenure = &own
	given := held // in transit to us, by another
	given.HandoffTo, given.Tenure = given.Owner, &leases.Tenure{Worker: "w9", Nonce: nonce(31), At: held.Counter}
	var err error
	switch o.Kind {
	case opTake:
		_, err = b.table.Take(ctx, seen, me)
	case opFirst:
		if o.Behind == 0 {
			given = seen
		}
		_, err = b.table.Renew(ctx, given, me, leases.Renewal{})
	case opRenew:
		_, err = b.table.Renew(ctx, held, me, leases.Renewal{})
	case opCheckpoint:
		at := m.position(o.Pos)
		_, err = b.table.Update(ctx, held, me, leases.Update{Checkpoint: &at})
	case opAsk:
		_, err = b.table.StartHandoff(ctx, leases.Lease{
			Key: key, Owner: worker(o.To), Counter: counter, Checkpoint: m.position(0),
			Tenure: &leases.Tenure{Worker: worker(o.To), Nonce: nonce(o.Seen), At: counter},
		}, worker(o.ID))
	case opComplete:
		held.Owner, held.HandoffTo, held.CheckpointOwner = worker(o.To), worker(o.To), worker(o.ID)
		if o.Flags&flagNewTenure != 0 && o.Behind == 0 {
			held = seen
		}
		_, err = b.table.CompleteHandoff(ctx, held, me)
	case opRelease:
		switch {
		case o.Flags&flagInTransit != 0 && o.Behind == 0:
			held = seen
		case o.Flags&flagInTransit != 0:
			held = given
		}
		err = b.table.Evict(ctx, held, me)
	}
	if err == nil {
		return "done"
	}
	if _, ok := errors.AsType[*leases.NotAskedError](err); ok {
		return "not asked"
	}
	if _, ok := errors.AsType[*leases.HandoffAskedError](err); ok {
		return "asked"
	}
	if _, ok := errors.AsType[*leases.RegressError](err); ok {
		return "regress"
	}
	if errors.Is(err, leases.ErrLeaseLost) {
		return "lost"
	}
	return err.Error()
}

func (b *bench) text() string {
	b.Helper()
	l, found, err := b.table.Get(b.Context(), key)
	if err != nil || !found {
		b.Fatalf("found %t, %v", found, err)
	}
	return textOf(l)
}

// textOf is all of a row but the numbers of its counter.
func textOf(l leases.Lease) string {
	s := fmt.Sprintf("%v, owner %q at %v, checkpointOwner %q, handoffTo %q", l.State(), l.Owner, l.Checkpoint, l.CheckpointOwner, l.HandoffTo)
	if l.Tenure != nil {
		s += fmt.Sprintf(", tenure %s %s, speaks %t, leaving %t", l.Tenure.Worker, l.Tenure.Nonce, l.TenureSpeaks(), l.Tenure.Leaving)
	}
	return s
}
