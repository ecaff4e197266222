package leases

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
)

// unreliable is a client whose UpdateItem fails as the plan says, and that sees every write that lands.
type unreliable struct {
	*dynamodb.Client
	plan   []string // of the next requests; after it all is well
	cancel func()   // ends the call under way
	late   []*dynamodb.UpdateItemInput
	landed func(nonce string)
}

var errNetwork = errors.New("the network failed")

func (u *unreliable) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	what := "answered"
	if len(u.plan) > 0 {
		what, u.plan = u.plan[0], u.plan[1:]
	}
	switch what {
	case "never sent":
		return nil, errNetwork
	case "late": // it lands some time later, if at all
		u.late = append(u.late, in)
		return nil, errNetwork
	case "given up":
		u.cancel()
		return nil, errNetwork
	}
	out, err := u.send(ctx, in, opts...)
	switch what {
	case "reply lost":
		return nil, errNetwork
	case "reply lost and given up":
		u.cancel()
		return nil, errNetwork
	}
	return out, err
}

func (u *unreliable) send(ctx context.Context, in *dynamodb.UpdateItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	out, err := u.Client.UpdateItem(ctx, in, opts...)
	if err == nil {
		for _, v := range in.ExpressionAttributeValues {
			if m, ok := v.(*types.AttributeValueMemberM); ok {
				u.landed(m.Value[tenureNonce].(*types.AttributeValueMemberS).Value)
			}
		}
	}
	return out, err
}

// process is one Go worker process, with what it believes.
type process struct {
	id      string
	host    string
	tenures int
	me      Tenure
	held    *Lease // nil: none
}

// Random workers, two of them with one id, and Java workers write one row over a network that loses, delays and repeats. What
// a process is told is compared with the row after each step.
func TestTable_beliefsAgreeWithTheTableWhateverTheNetworkDoes(t *testing.T) {
	t.Parallel()
	// Virtual time, so that the pauses between attempts cost nothing. rapid would ask for the deadline of the test, which a
	// bubble does not have.
	synctest.Test(t, func(t *testing.T) { rapid.Check(struct{ rapid.TB }{t}, randomWriters) })
}

func randomWriters(t *rapid.T) {
	ctx := context.Background()
	api := &unreliable{Client: dynamodb.NewFromConfig(emulator.New().AWSConfig())}
	table := NewTable(api, config.LeaseManagementConfig{TableName: "leases", FailoverTime: 10 * time.Second, CreateTable: true}, TableOptions{})
	if err := table.Ensure(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := table.Create(ctx, Lease{Key: "s", Checkpoint: checkpoint.TrimHorizon}); err != nil {
		t.Fatal(err)
	}
	row := func() Lease {
		l, found, err := table.Get(ctx, "s")
		if err != nil || !found {
			t.Fatal(found, err)
		}
		return l
	}
	// Fencing: a tenure whose row somebody else has written since never writes again.
	current, over := "", map[string]bool{}
	api.landed = func(nonce string) {
		if over[nonce] {
			t.Fatalf("a write of tenure %s landed after tenure %s had begun", nonce, current)
		}
		if current != nonce {
			over[current], current = true, nonce
		}
	}
	processes := []*process{{id: "w1", host: "a"}, {id: "w1", host: "b"}, {id: "w2", host: "c"}}
	last := row()
	network := rapid.SliceOfN(rapid.SampledFrom([]string{"answered", "never sent", "late", "reply lost", "given up", "reply lost and given up"}), 0, 4)

	send := func(f func(context.Context) (Written, error)) (Written, error) {
		var ctx2 context.Context
		ctx2, api.cancel = context.WithCancel(ctx)
		defer api.cancel()
		api.plan = network.Draw(t, "network")
		w, err := f(ctx2)
		api.plan = nil
		return w, err
	}
	// call runs one write of a process over the network, and judges what it was told.
	call := func(p *process, f func(context.Context) (Written, error)) (Lease, error) {
		w, err := send(f)
		l, now := w.Lease, row()
		switch {
		case err == nil && l.Key != "": // it holds
			// What is known by an earlier call only may be behind a later write of our own, of which nothing is known.
			if diff := cmp.Diff(now, l); diff != "" && w.Recovered != ByEarlierCall {
				t.Fatalf("%s believes what is not so (-table +belief):\n%s", p.host, diff)
			}
			if !p.me.ours(now) {
				t.Fatalf("%s believes to hold %+v", p.host, now)
			}
		case errors.Is(err, ErrLeaseLost) && p.me.ours(now):
			t.Fatalf("%s was told that it lost what it has: %v", p.host, err)
		}
		if dup, ok := errors.AsType[*DuplicateWorkerError](err); ok && p.id != "w1" {
			t.Fatalf("there is no other %s: %v", p.id, dup)
		}
		return l, err
	}
	// keep stores what a call of a holder ended with.
	keep := func(p *process, l Lease, err error) {
		switch {
		case err == nil && l.Key != "":
			p.held = &l
		case err == nil, errors.Is(err, ErrLeaseLost):
			p.held = nil
		}
	}
	some := func() *process { return rapid.SampledFrom(processes).Draw(t, "process") }
	holder := func() *process {
		p := some()
		if p.held == nil {
			t.Skip("holds nothing")
		}
		return p
	}
	t.Repeat(map[string]func(*rapid.T){
		"take": func(*rapid.T) {
			p := some()
			if p.held != nil {
				t.Skip("holds it")
			}
			p.tenures++
			p.me = Tenure{Worker: p.id, Nonce: fmt.Sprintf("%s/1/%s/%d", p.host, p.host, p.tenures), Failover: time.Second}
			seen := row()
			l, err := call(p, func(ctx context.Context) (Written, error) { return table.Take(ctx, seen, p.me) })
			keep(p, l, err)
			if err != nil && !errors.Is(err, ErrLeaseLost) { // unknown: the same call again finds out
				w, err := table.Take(ctx, seen, p.me)
				if err != nil && !errors.Is(err, ErrLeaseLost) {
					t.Fatal(err)
				}
				keep(p, w.Lease, err)
			}
		},
		"renew": func(*rapid.T) {
			p := holder()
			l, err := call(p, func(ctx context.Context) (Written, error) { return table.Renew(ctx, *p.held, p.me, Renewal{}) })
			keep(p, l, err)
		},
		"checkpoint": func(*rapid.T) {
			p := holder()
			at := checkpoint.ExtendedSequenceNumber{SequenceNumber: strconv.Itoa(rapid.IntRange(1, 99).Draw(t, "at"))}
			l, err := call(p, func(ctx context.Context) (Written, error) {
				return table.Update(ctx, *p.held, p.me, Update{Checkpoint: &at})
			})
			keep(p, l, err)
			if r, ok := errors.AsType[*RegressError](err); ok && row().Checkpoint.Compare(r.Have) < 0 {
				t.Fatalf("%v, it says: %+v", r, row())
			}
		},
		"release": func(*rapid.T) {
			p := holder()
			_, err := call(p, func(ctx context.Context) (Written, error) { return Written{}, table.Evict(ctx, *p.held, p.me) })
			keep(p, Lease{}, err)
			if now := row(); err == nil && p.me.ours(now) {
				t.Fatalf("released, it says: %+v", now)
			}
		},
		"resolve": func(*rapid.T) { // without faults every holder learns the truth
			p := holder()
			w, err := table.Renew(ctx, *p.held, p.me, Renewal{})
			if err != nil && !errors.Is(err, ErrLeaseLost) {
				t.Fatal(err)
			}
			keep(p, w.Lease, err)
			if held, is := p.held != nil, p.me.ours(row()); held != is {
				t.Fatalf("%s holds %t, the table says %t", p.host, held, is)
			}
		},
		"ask": func(*rapid.T) {
			p, seen := some(), rapid.SampledFrom([]Lease{row(), last}).Draw(t, "seen")
			if notToBeAsked(seen, p.id) != "" {
				t.Skip("nobody to ask")
			}
			w, err := send(func(ctx context.Context) (Written, error) {
				l, err := table.StartHandoff(ctx, seen, p.id)
				return Written{Lease: l}, err
			})
			now := row()
			if diff := cmp.Diff(now, w.Lease); err == nil && diff != "" {
				t.Fatalf("%s was told what is not so (-table +answer):\n%s", p.host, diff)
			}
			asked := (now.MarkIsLive() || now.InTransit()) && now.HandoffTo == p.id
			if err == nil && !asked || errors.Is(err, ErrLeaseLost) && asked {
				t.Fatalf("%s asked %+v (tenure %+v): %v; the row is %+v (tenure %+v)", p.host, seen, seen.Tenure, err, now, now.Tenure)
			}
		},
		"complete": func(*rapid.T) {
			p := holder()
			if !p.held.MarkIsLive() {
				t.Skip("was not asked, as far as it knows")
			}
			_, err := call(p, func(ctx context.Context) (Written, error) {
				_, err := table.CompleteHandoff(ctx, *p.held, p.me)
				return Written{}, err
			})
			if _, none := errors.AsType[*NotAskedError](err); none {
				t.Fatalf("%s believes to be asked: %v", p.host, err)
			}
			keep(p, Lease{}, err)
			if now := row(); err == nil && !p.me.handedOver(now) {
				t.Fatalf("handed over, it says: %+v", now)
			}
		},
		"begin": func(*rapid.T) { // the first renewal after a hand-off
			p, seen := some(), row()
			if p.held != nil || !seen.InTransit() || seen.Owner != p.id {
				t.Skip("nothing was handed over to it")
			}
			p.tenures++
			p.me = Tenure{Worker: p.id, Nonce: fmt.Sprintf("%s/1/%s/%d", p.host, p.host, p.tenures), Failover: time.Second}
			l, err := call(p, func(ctx context.Context) (Written, error) { return table.Renew(ctx, seen, p.me, Renewal{}) })
			keep(p, l, err)
			if err != nil && !errors.Is(err, ErrLeaseLost) {
				w, err := table.Renew(ctx, seen, p.me, Renewal{})
				if err != nil && !errors.Is(err, ErrLeaseLost) {
					t.Fatal(err)
				}
				keep(p, w.Lease, err)
			}
		},
		"java": func(*rapid.T) {
			worker := rapid.SampledFrom([]string{"w1", "w2", "w9"}).Draw(t, "worker")
			write(t, api.Client, "SET #o = :o, #n = :n", map[string]string{"#o": attrOwner, "#n": attrCounter},
				item{":o": str(worker), ":n": number(row().Counter + 1)})
			if current != "" {
				over[current], current = true, ""
			}
		},
		"late request": func(*rapid.T) {
			if len(api.late) == 0 {
				t.Skip("none")
			}
			i := rapid.IntRange(0, len(api.late)-1).Draw(t, "which")
			in := api.late[i]
			api.late = append(api.late[:i:i], api.late[i+1:]...)
			if _, err := api.send(ctx, in); err != nil && kindOf(err) != conditionFailed {
				t.Fatal(err)
			}
		},
		"": func(*rapid.T) {
			now := row()
			if now.Counter < last.Counter || now.Checkpoint.Compare(last.Checkpoint) < 0 {
				t.Fatalf("the row went back from %+v to %+v", last, now)
			}
			last = now
		},
	})
}

func write(t *rapid.T, client *dynamodb.Client, update string, names map[string]string, values item) {
	_, err := client.UpdateItem(context.Background(), &dynamodb.UpdateItemInput{
		TableName: aws.String("leases"), Key: item{attrKey: str("s")}, UpdateExpression: &update,
		ExpressionAttributeNames: names, ExpressionAttributeValues: values,
	})
	if err != nil {
		t.Fatal(err)
	}
}
