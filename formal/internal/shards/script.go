package shards

import (
	"context"
	"errors"
	"time"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/leases"
	"github.com/shardlease/shardlease/shardsync"
)

// script is a run of a production function as far as it has come: what it asks next, or its result. Runs with the same answers
// are one script, and what the answers lead to are its children.
type script struct {
	task    task
	answers []uint8 // to each question so far
	asks    question
	done    bool
	ok      bool // of ParentsEnded: they have; of EndShard: no error
	next    map[uint8]uint16
}

// task is what is run.
type task struct {
	kind  uint8
	shard uint8
	named bool // EndShard is told the children
}

const (
	endShard = iota
	parentsEnded
)

// question is one access to the table or the service.
type question struct{ kind, shard uint8 }

const (
	askGet    = iota // the answer is a level
	askList          // two bits for each shard
	askShards        // the stage that the listing is of
	askCreate        // 1 if it was created
	askUpdate        // 1 if the row is there
)

// begin is the number of the script of a task that has asked nothing yet.
func (m *Model) begin(t task) uint16 {
	if n, known := m.tasks[t]; known {
		return n
	}
	n := m.run(t, nil)
	m.tasks[t] = n
	return n
}

// answer is the script after one more answer.
func (m *Model) answer(n uint16, a uint8) uint16 {
	s := m.scripts[n]
	if next, known := s.next[a]; known {
		return next
	}
	next := m.run(s.task, append(append([]uint8{}, s.answers...), a))
	s.next[a] = next
	return next
}

// run runs a task with the answers given and notes how far it comes.
func (m *Model) run(t task, answers []uint8) uint16 {
	s := &script{task: t, answers: answers, next: map[uint8]uint16{}}
	p := &prompter{model: m, answers: answers}
	syncer := shardsync.NewHierarchicalShardSyncer(p, p, shardsync.SyncerOptions{Stream: "stream", Worker: "w1", From: config.TrimHorizon()})
	var err error
	switch t.kind {
	case endShard:
		end := shardsync.End{}
		if t.named {
			for _, c := range m.children(t.shard) {
				k := m.keys(c)
				end.Children = append(end.Children, shardsync.ChildShard{
					ID: id(c), ParentIDs: m.parentIDs(c), StartingHashKey: k.Start.String(), EndingHashKey: k.End.String(),
				})
			}
		}
		err = syncer.EndShard(context.Background(), m.lease(t.shard, begun, false), end)
		s.ok = err == nil
	case parentsEnded:
		l := m.lease(t.shard, fresh, false)
		if m.without == waitsForBoth && len(l.ParentShardIDs) > 1 {
			l.ParentShardIDs = l.ParentShardIDs[:1]
		}
		s.ok, err = syncer.ParentsEnded(context.Background(), l)
		s.ok = s.ok && err == nil
	}
	s.asks, s.done = p.open, !p.asked
	m.scripts = append(m.scripts, s)
	return uint16(len(m.scripts) - 1)
}

// prompter answers what was answered before; at the first new question the run is over.
type prompter struct {
	model   *Model
	answers []uint8
	open    question
	asked   bool
}

var errOpen = errors.New("not answered yet")

func (p *prompter) ask(kind, shard uint8) (uint8, error) {
	if p.asked {
		return 0, errOpen
	}
	if len(p.answers) == 0 {
		p.open, p.asked = question{kind, shard}, true
		return 0, errOpen
	}
	a := p.answers[0]
	p.answers = p.answers[1:]
	return a, nil
}

func (p *prompter) Get(_ context.Context, key string) (leases.Lease, bool, error) {
	s := p.model.index(key)
	at, err := p.ask(askGet, s)
	return p.model.lease(s, at, false), at != absent, err
}

func (p *prompter) List(context.Context) (leases.Listing, error) {
	code, err := p.ask(askList, 0)
	return leases.Listing{Leases: p.model.rows(code)}, err
}

func (p *prompter) Create(_ context.Context, l leases.Lease) (bool, error) {
	made, err := p.ask(askCreate, p.model.index(l.Key))
	return made != 0, err
}

func (p *prompter) UpdateMetadata(_ context.Context, key string, _ leases.Metadata) error {
	there, err := p.ask(askUpdate, p.model.index(key))
	if err == nil && there == 0 {
		err = leases.ErrLeaseLost
	}
	return err
}

func (p *prompter) ListShards(context.Context, string, shardsync.Filter) ([]shardsync.Shard, error) {
	stage, err := p.ask(askShards, 0)
	return p.model.listing(stage), err
}

func (p *prompter) ServiceTime() (time.Time, bool) { return time.Time{}, false }
