package kinesis

import (
	"time"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

type splitShardInput struct {
	streamRef
	ShardToSplit, NewStartingHashKey string
}

func (k *Service) splitShard(now time.Time, in *splitShardInput) (any, *wire.Error) {
	if err := k.rate("SplitShard", "", 5); err != nil {
		return nil, err
	}
	s, x, err := k.openShard(now, in.streamRef, in.ShardToSplit)
	if err != nil {
		return nil, err
	}
	at, err := parseHash("NewStartingHashKey", in.NewStartingHashKey)
	if err != nil {
		return nil, err
	}
	if at.compare(x.lo) <= 0 || at.compare(x.lo.next()) <= 0 || at.compare(x.hi) >= 0 {
		return nil, invalid("NewStartingHashKey %s is not inside shard %s: it has to be above %s + 1 and below %s", at, x.id, x.lo, x.hi)
	}
	s.split(now, x, at)
	k.begin(now, s, updating)
	return nil, nil
}

func (s *stream) split(now time.Time, x *shard, at hash) {
	s.closeShard(now, x)
	s.addShard(now, x.lo, at.previous(), x, nil)
	s.addShard(now, at, x.hi, x, nil)
}

// openShard finds a shard of an ACTIVE stream that can be resharded.
func (k *Service) openShard(now time.Time, ref streamRef, id string) (*stream, *shard, *wire.Error) {
	s, err := k.findActive(now, ref)
	if err != nil {
		return nil, nil, err
	}
	x, err := s.shard(now, id)
	if err != nil {
		return nil, nil, err
	}
	if x.closed() {
		return nil, nil, invalid("Shard %s in stream %s has already been merged or split, and thus is not eligible", id, s.name)
	}
	return s, x, nil
}

type mergeShardsInput struct {
	streamRef
	ShardToMerge, AdjacentShardToMerge string
}

func (k *Service) mergeShards(now time.Time, in *mergeShardsInput) (any, *wire.Error) {
	if err := k.rate("MergeShards", "", 5); err != nil {
		return nil, err
	}
	s, a, err := k.openShard(now, in.streamRef, in.ShardToMerge)
	if err != nil {
		return nil, err
	}
	_, b, err := k.openShard(now, in.streamRef, in.AdjacentShardToMerge)
	if err != nil {
		return nil, err
	}
	if !a.precedes(b) && !b.precedes(a) {
		return nil, invalid("Shards %s and %s of stream %s are not adjacent", a.id, b.id, s.name)
	}
	s.merge(now, a, b)
	k.begin(now, s, updating)
	return nil, nil
}

// precedes tells whether b begins where x ends. The ring's ends do not meet.
func (x *shard) precedes(b *shard) bool { return x.hi != maxHash && x.hi.next() == b.lo }

func (s *stream) merge(now time.Time, a, b *shard) {
	s.closeShard(now, a)
	s.closeShard(now, b)
	lo, hi := a.lo, b.hi
	if b.lo.compare(a.lo) < 0 {
		lo, hi = b.lo, a.hi
	}
	s.addShard(now, lo, hi, a, b)
}

type updateShardCountInput struct {
	streamRef
	TargetShardCount *int
	ScalingType      string
}

type updateShardCountOutput struct {
	StreamName, StreamARN               string
	CurrentShardCount, TargetShardCount int
}

func (k *Service) updateShardCount(now time.Time, in *updateShardCountInput) (any, *wire.Error) {
	if in.ScalingType != "UNIFORM_SCALING" {
		return nil, malformed("ScalingType is %q, want UNIFORM_SCALING", in.ScalingType)
	}
	if in.TargetShardCount == nil {
		return nil, malformed("TargetShardCount is needed")
	}
	want, err := within("TargetShardCount", in.TargetShardCount, 0, maxShards)
	if err != nil {
		return nil, err
	}
	s, err := k.findActive(now, in.streamRef)
	if err != nil {
		return nil, err
	}
	if s.mode == onDemand {
		return nil, invalid("Stream %s is ON_DEMAND: its shards are not counted by its user", s.name)
	}
	have := len(s.open)
	if want > 2*have || 2*want < have {
		return nil, wire.Errorf("LimitExceededException", "TargetShardCount is %d, want at least half and at most double the %d open shards of stream %s", want, have, s.name)
	}
	if !k.allow("UpdateShardCount "+s.arn, 10.0/(24*60*60), 10) {
		return nil, wire.Errorf("LimitExceededException", "stream %s has been scaled ten times in 24 hours", s.name)
	}
	s.scale(now, want)
	k.begin(now, s, updating)
	return updateShardCountOutput{s.name, s.arn, have, want}, nil
}

// scale brings the stream to this many equal shards: first it splits wherever one of theirs begins, then it merges what
// lies between. Where one count is no multiple of the other this leaves shards that lived for a moment only, as the
// service's own scaling does.
func (s *stream) scale(now time.Time, want int) {
	starts := map[hash]bool{}
	for i := range want {
		start := uniform(i, want)
		starts[start] = true
		if x := s.route(start); x.lo != start {
			s.split(now, x, start)
		}
	}
	for i := 0; i < len(s.open)-1; {
		if starts[s.open[i+1].lo] {
			i++
			continue
		}
		s.merge(now, s.open[i], s.open[i+1])
	}
}
