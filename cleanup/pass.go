package cleanup

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/loop"
	"github.com/shardlease/shardlease/leases"
)

// Result is what one pass found and did.
type Result struct {
	Finished int            // rows of finished shards, at its beginning
	Deleted  int            // of them; also those that were found gone
	Kept     map[Reason]int // why the others stay, except those that an error kept
	Listed   bool           // whether shards were listed
}

// Pass looks once at all finished rows, whether or not this worker leads, and deletes those that may go, but none
// that was not seen finished [config.LeaseCleanupConfig].KeepFinished ago, by Run or by a pass. A lineage goes in
// one pass, oldest first. Shards are listed only if some row waits for what only that can tell, and at most once in a
// LeaseCleanupConfig.GarbageInterval.
//
// An error says how many rows could not be dealt with, and wraps the first error; the others were. Passes of one manager must
// not overlap; those of several may.
func (m *LeaseCleanupManager) Pass(ctx context.Context) (Result, error) {
	clock := loop.ClockOf(ctx)
	rows := m.opts.Rows()
	m.watch(clock.Now(), rows)
	p := newPass(rows)
	p.byLineage = m.opts.ByLineage
	for _, l := range p.finished {
		p.young[l.Key] = m.justFinished(clock.Now(), l.Key)
	}
	res := Result{Finished: len(p.finished)}
	m.sweep(ctx, p)
	if ctx.Err() == nil && !clock.Now().Before(m.garbage) {
		// Also after a failure: the lister has repeated it, and nothing here is urgent.
		m.garbage = clock.Now().Add(m.cfg.GarbageInterval)
		p.fail(m.list(ctx, p))
		if p.listed != nil {
			m.sweep(ctx, p)
		}
	}
	res.Deleted, res.Listed = p.deleted, p.listed != nil
	res.Kept = map[Reason]int{}
	for _, l := range p.finished {
		if r, kept := p.kept[l.Shard()]; kept {
			res.Kept[r]++
		}
	}
	if p.err != nil {
		return res, fmt.Errorf("clean up leases of %d finished shards: %d errors, the first: %w", res.Finished, p.errs, p.err)
	}
	return res, nil
}

// pass is what one pass knows. While rows are in work only fail and the fields that mu guards may be used.
type pass struct {
	rows     map[string]leases.Lease // by shard, as the table was last read; deleted ones leave it
	finished []leases.Lease
	young    map[string]bool // of finished: see Known.JustFinished
	open     spans           // what unfinished rows cover
	byRows   lineage         // what rows say
	// byLineage is Options.ByLineage.
	byLineage bool

	listed    map[string]Shard // nil before shards are listed
	byListing lineage

	mu      sync.Mutex
	kept    map[string]Reason // by shard
	deleted int
	errs    int
	err     error // the first
}

func newPass(rows []leases.Lease) *pass {
	p := &pass{rows: make(map[string]leases.Lease, len(rows)), kept: map[string]Reason{}, young: map[string]bool{}}
	ours := make([]leases.Lease, 0, len(rows))
	for _, l := range rows {
		if l.Key != l.Shard() { // of another stream, by a worker of many streams
			continue
		}
		ours = append(ours, l)
		p.rows[l.Key] = l
		if l.Finished() {
			p.finished = append(p.finished, l)
		}
	}
	if len(p.finished) > 0 {
		p.open, p.byRows = openKeys(ours), newLineage(shardsOf(ours))
	}
	return p
}

// fail notes an error.
func (p *pass) fail(err error) {
	if err == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errs++
	if p.err == nil {
		p.err = err
	}
}

// known is what rows and listing tell about a shard.
func (p *pass) known(l leases.Lease) Known {
	k := Known{Covered: p.byLineage || p.open.cover(l.HashKeyRange), JustFinished: p.young[l.Key]}
	keys := l.HashKeyRange
	if p.listed != nil {
		s, there := p.listed[l.Shard()]
		k.Gone = !there
		if there && !keys.Known {
			keys = s.HashKeyRange
		}
	}
	if len(l.ChildShardIDs) == 0 {
		if k.ChildIDs = p.byRows.children(l.Shard(), keys); k.ChildIDs == nil {
			k.ChildIDs = p.byListing.children(l.Shard(), keys)
		}
	}
	return k
}

// find returns those of the shards' rows that the pass knows.
func (p *pass) find(ids []string) (found []leases.Lease) {
	for _, id := range ids {
		if l, there := p.rows[id]; there {
			found = append(found, l)
		}
	}
	return found
}

// sweep deletes what may go, generation by generation: a row that goes lets those of its children go.
func (m *LeaseCleanupManager) sweep(ctx context.Context, p *pass) {
	tried := map[string]bool{}
	for ctx.Err() == nil {
		var ready []leases.Lease
		for _, l := range p.finished {
			if _, there := p.rows[l.Key]; !there || tried[l.Key] {
				continue
			}
			k := p.known(l)
			v := Decide(l, p.find(l.ParentShardIDs), p.find(childIDs(l, k)), k)
			if v.Delete {
				ready = append(ready, l)
				tried[l.Key] = true
				delete(p.kept, l.Key)
			} else {
				p.kept[l.Key] = v.Reason
			}
		}
		if len(ready) == 0 {
			return
		}
		m.removeAll(ctx, p, ready)
	}
}

// removeAll deals with rows of which none is a parent of another. A refusal that would meet every row ends it.
func (m *LeaseCleanupManager) removeAll(ctx context.Context, p *pass, ready []leases.Lease) {
	gone := make([]bool, len(ready))
	group, rows := errgroup.WithContext(ctx)
	group.SetLimit(m.atOnce)
	for i, l := range ready {
		if rows.Err() != nil {
			break
		}
		group.Go(func() error {
			v, err := m.remove(rows, l.Key, p.known(l))
			if err != nil {
				if rows.Err() == nil || ctx.Err() != nil { // else it is only the echo of another row's error
					p.fail(err)
				}
				_, permanent := errors.AsType[*leases.PermanentError](err)
				if permanent || ctx.Err() != nil {
					return err
				}
				return nil
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			if gone[i] = v.Delete; gone[i] {
				p.deleted++
			} else {
				p.kept[l.Key] = v.Reason
			}
			return nil
		})
	}
	_ = group.Wait() // noted by fail
	for i, l := range ready {
		if gone[i] {
			delete(p.rows, l.Key)
		}
	}
}

// remove reads a row and those that matter for it consistently, and deletes it if it may go. Its owner's renewals move the
// counter every few seconds; one that comes between reading and deleting makes the deletion fail, and it is tried again.
func (m *LeaseCleanupManager) remove(ctx context.Context, key string, known Known) (v Verdict, err error) {
	const tries = 3
	for range tries {
		row, there, err := m.table.Get(ctx, key)
		if err != nil || !there {
			return Verdict{Delete: true}, err
		}
		parents, err := m.read(ctx, row.ParentShardIDs)
		if err != nil {
			return Verdict{}, err
		}
		children, err := m.read(ctx, childIDs(row, known))
		if err != nil {
			return Verdict{}, err
		}
		if v = Decide(row, parents, children, known); !v.Delete {
			return v, nil
		}
		err = m.table.Delete(ctx, row)
		if err == nil {
			if f := m.opts.Hooks.LeaseDeleted; f != nil {
				f(config.LeaseEvent{Worker: m.opts.Worker, LeaseKey: key, Counter: row.Counter, Reason: v.Reason.String()})
			}
			return v, nil
		}
		if !errors.Is(err, leases.ErrLeaseLost) {
			return Verdict{}, err
		}
	}
	return Verdict{}, fmt.Errorf("delete lease %s: its row was written each of %d times between reading and deleting it", key, tries)
}

// read returns those of the shards' rows that exist.
func (m *LeaseCleanupManager) read(ctx context.Context, ids []string) (rows []leases.Lease, err error) {
	for _, id := range ids {
		l, there, err := m.table.Get(ctx, id)
		if err != nil {
			return nil, err
		}
		if there {
			rows = append(rows, l)
		}
	}
	return rows, nil
}

// list asks the service for the stream's shards if that may let some row go.
func (m *LeaseCleanupManager) list(ctx context.Context, p *pass) error {
	wanted := false
	for _, r := range p.kept {
		wanted = wanted || r == ChildrenUnknown || r == ChildMissing || r == ChildNotBegun
	}
	if !wanted {
		return nil
	}
	shards, err := m.opts.Shards(ctx)
	if err != nil {
		return err
	}
	if len(shards) == 0 {
		return errors.New("list shards: the service names none, and a stream has at least one")
	}
	p.listed, p.byListing = make(map[string]Shard, len(shards)), newLineage(shards)
	for _, s := range shards {
		p.listed[s.ID] = s
	}
	return nil
}
