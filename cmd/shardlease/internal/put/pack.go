package put

import (
	"context"
	"time"

	"github.com/shardlease/shardlease/cmd/shardlease/internal/producer"
	"github.com/shardlease/shardlease/internal/loop"
	"github.com/shardlease/shardlease/retrieval/kpl"
)

const (
	// packFor is how long a line waits for others to be packed with.
	packFor = 100 * time.Millisecond
	// aroundAll and aroundEach bound what an aggregate holds beside its key and the lines: magic, sum, the key's length; and a
	// line's lengths, tags and index.
	aroundAll, aroundEach = 32, 16
	// heldBytes is how much may wait in all.
	heldBytes = 4 * producer.MaxRecordBytes
)

// packer packs lines into KPL aggregates. Those in one have one partition key: so they belong to one shard, whatever is split
// or merged before it is stored. If lines are not keyed, that is the key of the first one.
type packer struct {
	most  int  // lines in one aggregate
	keyed bool // lines of different keys are kept apart
	out   chan producer.Record
	packs map[string]*pack
	order []string // keys of packs, in the order in which they were begun
	bytes int      // in all packs
	lines int      // that were passed on
}

type pack struct {
	users []kpl.UserRecord
	bytes int
}

// run passes on what comes from in, and closes out when in is closed or ctx is done. The error says that a key is none, which
// toRecord has excluded.
func (p *packer) run(ctx context.Context, in <-chan producer.Record) error {
	defer close(p.out)
	timer := loop.ClockOf(ctx).NewTimer(packFor)
	defer timer.Stop()
	p.packs = map[string]*pack{}
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case r, ok := <-in:
			if !ok {
				return p.flush(ctx)
			}
			if len(p.order) == 0 {
				timer.Reset(packFor)
			}
			err = p.add(ctx, r)
		case <-timer.C:
			err = p.flush(ctx)
		}
		if err != nil {
			return err
		}
	}
}

func (p *packer) add(ctx context.Context, r producer.Record) error {
	key := ""
	if p.keyed {
		key = r.Key
	}
	size := len(r.Data) + aroundEach
	a := p.packs[key]
	if a != nil && a.bytes+size > producer.MaxRecordBytes {
		if err := p.pass(ctx, key); err != nil {
			return err
		}
		a = nil
	}
	if a == nil {
		a = &pack{bytes: len(r.Key)*2 + aroundAll} // the key stands in the aggregate and beside it
		p.packs[key] = a
		p.order = append(p.order, key)
		p.bytes += a.bytes
	}
	if len(a.users) > 0 {
		r.Key = a.users[0].PartitionKey
	}
	a.users = append(a.users, kpl.UserRecord{PartitionKey: r.Key, Data: r.Data})
	a.bytes += size
	p.bytes += size
	if len(a.users) == p.most {
		return p.pass(ctx, key)
	}
	if p.bytes > heldBytes {
		return p.flush(ctx)
	}
	return nil
}

// flush passes everything on.
func (p *packer) flush(ctx context.Context) error {
	order := p.order
	p.order = nil
	for _, key := range order {
		if err := p.pass(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// pass passes one pack on, if it is still there; a single line as it is, as the KPL does too.
func (p *packer) pass(ctx context.Context, key string) error {
	a := p.packs[key]
	if a == nil {
		return nil
	}
	delete(p.packs, key)
	p.bytes -= a.bytes
	out := producer.Record{Key: a.users[0].PartitionKey, Data: a.users[0].Data}
	if len(a.users) > 1 {
		var err error
		if out.Data, err = kpl.Aggregate(a.users...); err != nil {
			return err
		}
	}
	select {
	case p.out <- out:
		p.lines += len(a.users)
	case <-ctx.Done():
	}
	return nil
}
