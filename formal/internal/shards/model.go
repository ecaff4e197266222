package shards

import (
	"fmt"
	"strings"

	"github.com/shardlease/shardlease/cleanup"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/formal/internal/explore"
	"github.com/shardlease/shardlease/leases"
	"github.com/shardlease/shardlease/shardsync"
)

// Model is one stream, and how many work on its leases.
type Model struct {
	Label                        string
	Stream                       []Shard
	Stages                       uint8 // the last one
	Consumers, Leaders, Cleaners int
	Named                        bool // the service names the children at a shard's end; else they are looked up
	StaleListings                bool // a listing of shards may be of the stage before
	Stopped                      bool // a process may be stopped for any time and go on with what it was about to do
	Late                         bool // a request to create a row may take effect after its sender has given it up

	without guard
	tasks   map[task]uint16
	scripts []*script
	missing map[[2]uint8]uint8 // by rows and stage
}

const mostActors = 2 // of each kind

// Consumer is one consumer under one tenure.
type Consumer struct {
	Shard  uint8 // plus one; 0 for none
	Phase  uint8
	Script uint16
}

const ( // Consumer.Phase
	waiting = iota // for the parents
	asking
	reading
	ending
	finishing // the children are known; SHARD_END is next
)

// Leader is one worker that creates what is missing.
type Leader struct{ Phase, Rows, Missing uint8 }

const ( // Leader.Phase
	leaderIdle = iota
	leaderSaw  // the rows
	leaderCreates
)

// Cleaner is one worker that looks whether a row may go: what it has read so far, in the order of production code.
type Cleaner struct {
	Shard   uint8 // plus one
	Left    uint8 // rows that it has yet to read, as bits
	Rows    uint8 // what it has read, two bits each
	Knows   uint8 // the row names its children
	Gone    uint8 // the service lists the shard no more
	Covered uint8
}

// State is everything.
type State struct {
	Stage     uint8
	Rows      uint8       // two bits for each shard
	Knows     uint8       // rows that name their children, as bits
	Tenure    [most]uint8 // the consumer that holds the row, plus one
	Read      uint8       // shards whose SHARD_END was durable once, as bits
	Late      uint8       // rows for which a request to create them is under way that nobody waits for, as bits
	Consumers [mostActors]Consumer
	Leaders   [mostActors]Leader
	Cleaners  [mostActors]Cleaner
}

func (s *State) level(i uint8) level { return s.Rows >> (2 * i) & 3 }

func (s *State) set(i uint8, at level) { s.Rows = s.Rows&^(3<<(2*i)) | at<<(2*i) }

// Name says what the model is of.
func (m *Model) Name() string { return m.Label }

// Initial implements [explore.System]: a stream and an empty table.
func (m *Model) Initial() State {
	m.tasks, m.scripts, m.missing = map[task]uint16{}, nil, map[[2]uint8]uint8{}
	return State{}
}

// determine asks production code which rows to create.
func (m *Model) determine(rows, stage uint8) uint8 {
	key := [2]uint8{rows, stage}
	if set, known := m.missing[key]; known {
		return set
	}
	var set uint8
	have := m.rows(rows)
	if _, hole := shardsync.FindHole(have); hole || len(have) == 0 {
		// An inconsistent listing is no decision.
		missing, err := shardsync.DetermineNewLeases(m.listing(stage), have, config.TrimHorizon())
		for _, l := range missing {
			if err == nil {
				set |= 1 << m.index(l.Key)
			}
		}
	}
	m.missing[key] = set
	return set
}

// decide asks production code whether a row may go, by what a cleaner has read.
func (m *Model) decide(c *Cleaner) bool {
	s := c.Shard - 1
	pick := func(ids []uint8) (found []leases.Lease) {
		for _, i := range ids {
			if at := c.Rows >> (2 * i) & 3; at != absent {
				found = append(found, m.lease(i, at, false))
			}
		}
		return found
	}
	l := m.lease(s, c.Rows>>(2*s)&3, c.Knows != 0)
	parents, children := pick(m.Stream[s].Parents), pick(m.children(s))
	known := cleanup.Known{Gone: c.Gone != 0, Covered: c.Covered != 0}
	if m.without == keepsUntilParentsGo {
		parents = nil
	}
	if m.without == keepsUntilAllBegin && len(children) > 0 {
		l.ChildShardIDs = []string{children[0].Key}
	}
	if m.without == keepsUntilChildrenBegin {
		return l.Finished() && len(parents) == 0
	}
	return cleanup.Decide(l, parents, children, known).Delete
}

// covered reports whether unfinished rows cover the hash keys of a shard.
func (m *Model) covered(s *State, i uint8) bool {
	at, to := m.Stream[i].From, m.Stream[i].To
	for {
		extended := false
		for j := range uint8(len(m.Stream)) {
			o := m.Stream[j]
			if l := s.level(j); (l == fresh || l == begun) && o.From <= at && at <= o.To {
				if o.To >= to {
					return true
				}
				at, extended = o.To+1, true
			}
		}
		if !extended {
			return false
		}
	}
}

var stepNames = [...]string{
	doReshard: "the stream goes to its next stage", doTake: "takes the lease of shard %d", doAsk: "asks whether its parents have ended",
	doStep: "goes on", doBegin: "checkpoints a record", doEnd: "has read its shard to the end", doFinish: "writes SHARD_END",
	doCrash: "crashes", doLook: "reads all rows", doList: "lists the shards", doCreate: "creates the row of shard %d",
	doDelay: "gives a request up that creates the row of shard %d and is still under way",
	doLand:  "a late request to create the row of shard %d arrives",
	doClean: "looks at the row of shard %d", doRead: "reads a parent's or a child's row", doDelete: "deletes the row", doGiveUp: "leaves the row",
}

// Describe implements [explore.System].
func (m *Model) Describe(step explore.Step, s *State) string {
	kind, n, arg := step.Who>>4, step.Who&15, step.What>>5
	who := [...]string{"stream", "consumer", "leader", "cleaner"}[kind]
	what := stepNames[step.What&31]
	if strings.Contains(what, "%d") {
		what = fmt.Sprintf(what, arg)
	}
	if kind == 1 && s.Consumers[n].Shard != 0 {
		what += fmt.Sprintf(" [shard %d]", s.Consumers[n].Shard-1)
	}
	var b strings.Builder
	for i := range uint8(len(m.Stream)) {
		fmt.Fprintf(&b, " %d:%s", i, [...]string{"-", "fresh", "begun", "END"}[s.level(i)])
		if s.Knows&(1<<i) != 0 {
			b.WriteString("+children")
		}
	}
	return fmt.Sprintf("%-8s %d  %-58s stage %d,%s", who, n, what, s.Stage, b.String())
}
