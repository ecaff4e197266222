package kinesis

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

// States of a stream; consumers have the same but for updating.
const (
	active   = "ACTIVE"
	creating = "CREATING"
	updating = "UPDATING"
	deleting = "DELETING"
)

type stream struct {
	name, arn, id string
	mode          string // PROVISIONED or ON_DEMAND
	created       time.Time
	prefix        string // of its sequence numbers
	count         uint64 // the latest sequence number drawn
	busy          string // the state until readyAt; "" for none
	readyAt       time.Time
	gone          bool // deleted: subscriptions look here
	retention     time.Duration
	shards        []*shard // all that ever were, by index
	open          []*shard // by hash key, without holes
	consumers     map[string]*consumer
	tags          map[string]string
	keyID         string // of the encryption; "" is none
}

// streamRef is how requests name a stream.
type streamRef struct {
	StreamName, StreamARN, StreamId string
}

var validName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,128}$`)

func streamARN(name string) string {
	return fmt.Sprintf("arn:aws:kinesis:%s:%s:stream/%s", Region, Account, name)
}

// newStream makes a stream of this many equal shards.
func newStream(now time.Time, name, mode string, shards int) *stream {
	s := &stream{
		name: name, arn: streamARN(name), mode: mode, created: now, prefix: sequencePrefix(now),
		id: fmt.Sprintf("%s-%x", name, now.UnixNano()), retention: 24 * time.Hour,
		consumers: map[string]*consumer{}, tags: map[string]string{},
	}
	for i := range shards {
		hi := maxHash
		if i < shards-1 {
			hi = uniform(i+1, shards).previous()
		}
		s.addShard(now, uniform(i, shards), hi, nil, nil)
	}
	return s
}

// next draws a sequence number.
func (s *stream) next() uint64 { s.count++; return s.count }

// addShard opens a shard; the caller has closed what had its hash keys before.
func (s *stream) addShard(now time.Time, lo, hi hash, parent, adjacent *shard) {
	index := len(s.shards)
	x := &shard{
		stream: s, index: index, id: shardID(index), tail: sequenceTail(index), lo: lo, hi: hi,
		parent: parent, adjacent: adjacent, start: s.next(), born: now,
	}
	s.shards = append(s.shards, x)
	for _, p := range []*shard{parent, adjacent} {
		if p != nil {
			p.children = append(p.children, x)
		}
	}
	at, _ := s.place(lo)
	s.open = slices.Insert(s.open, at, x)
}

// place is where among the open shards the one that starts at lo is or belongs.
func (s *stream) place(lo hash) (at int, exact bool) {
	return slices.BinarySearchFunc(s.open, lo, func(o *shard, h hash) int { return o.lo.compare(h) })
}

// closeShard ends a shard at the next sequence number.
func (s *stream) closeShard(now time.Time, x *shard) {
	x.end, x.closedAt = s.next(), now
	if at, exact := s.place(x.lo); exact {
		s.open = slices.Delete(s.open, at, at+1)
	}
	x.signal()
}

// route is the open shard to which a hash key belongs.
func (s *stream) route(h hash) *shard {
	i, exact := s.place(h)
	if !exact {
		i--
	}
	return s.open[i]
}

// shard finds a shard by id. One that was closed before the retention period, and so has lost its last record, is gone.
func (s *stream) shard(now time.Time, id string) (*shard, *wire.Error) {
	if i, ok := shardIndex(id); ok && i < len(s.shards) {
		if x := s.shards[i]; s.keeps(now, x) {
			x.trim(s.horizon(now))
			return x, nil
		}
	}
	return nil, notFound("Shard %s in stream %s under account %s does not exist", id, s.name, Account)
}

// horizon is the time before which nothing is kept.
func (s *stream) horizon(now time.Time) time.Time {
	if t := now.Add(-s.retention); t.After(s.created) {
		return t
	}
	return s.created
}

// keeps tells whether a shard is still within the retention period.
func (s *stream) keeps(now time.Time, x *shard) bool {
	return !x.closed() || !x.closedAt.Before(s.horizon(now))
}

func (s *stream) status() string {
	if s.busy != "" {
		return s.busy
	}
	return active
}

// begin puts the stream in a state for as long as control calls take.
func (k *Service) begin(now time.Time, s *stream, state string) {
	s.busy, s.readyAt = state, now.Add(k.cfg.ControlDelay)
	k.settle(now, s)
}

// settle ends a state whose time has passed and tells whether the stream still exists.
func (k *Service) settle(now time.Time, s *stream) bool {
	if s.busy == "" || now.Before(s.readyAt) {
		return !s.gone
	}
	if s.busy == deleting {
		s.gone, s.busy = true, ""
		delete(k.streams, s.name)
		for _, x := range s.shards {
			x.signal()
		}
		return false
	}
	s.busy = ""
	return true
}

// byName finds a stream, nil if there is none.
func (k *Service) byName(now time.Time, name string) *stream {
	if s := k.streams[name]; s != nil && k.settle(now, s) {
		return s
	}
	return nil
}

// find resolves a request's stream, by any of its three names; if several are given they must agree.
func (k *Service) find(now time.Time, ref streamRef) (*stream, *wire.Error) {
	if ref == (streamRef{}) {
		return nil, invalid("one of StreamName, StreamARN and StreamId is needed")
	}
	name := ref.StreamName
	if ref.StreamARN != "" {
		_, fromARN, ok := strings.Cut(ref.StreamARN, ":stream/")
		if !ok || fromARN == "" {
			return nil, invalid("StreamARN %q is not the ARN of a stream", ref.StreamARN)
		}
		if name != "" && name != fromARN {
			return nil, invalid("StreamName %q and StreamARN %q name different streams", name, ref.StreamARN)
		}
		if name = fromARN; ref.StreamARN != streamARN(name) {
			return nil, notFound("Stream %s not found: the emulator's streams are %s", ref.StreamARN, streamARN("*"))
		}
	}
	if name == "" {
		for _, s := range k.streams {
			if s.id == ref.StreamId && k.settle(now, s) {
				return s, nil
			}
		}
		return nil, notFound("Stream with StreamId %s not found.", ref.StreamId)
	}
	if !validName.MatchString(name) {
		return nil, malformed("StreamName %q, want 1 to 128 of the characters a-zA-Z0-9_.-", name)
	}
	s := k.byName(now, name)
	if s == nil {
		return nil, notFound("Stream %s under account %s not found.", name, Account)
	}
	if ref.StreamId != "" && ref.StreamId != s.id {
		return nil, invalid("StreamId %q is not that of stream %s", ref.StreamId, name)
	}
	return s, nil
}

// findReady is find for calls on records: a stream that is CREATING takes and gives none yet, one that is DELETING still
// does.
func (k *Service) findReady(now time.Time, ref streamRef) (*stream, *wire.Error) {
	s, err := k.find(now, ref)
	if err == nil && s.busy == creating {
		return nil, notFound("Stream %s under account %s not found: it is CREATING.", s.name, Account)
	}
	return s, err
}

// findActive is find for calls that need an ACTIVE stream.
func (k *Service) findActive(now time.Time, ref streamRef) (*stream, *wire.Error) {
	s, err := k.find(now, ref)
	if err == nil && s.busy != "" {
		return nil, inUse("Stream %s under account %s not ACTIVE, instead in state %s", s.name, Account, s.busy)
	}
	return s, err
}
